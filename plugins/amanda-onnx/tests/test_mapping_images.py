"""Images, detection, attention: one op of ONNX comes back as that op.

By ONNX's test cases for these ops, with their expected results.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import onnx
import pytest
from onnx.backend.test import loader
from onnx.reference import ReferenceEvaluator

import amanda
from amanda_onnx.format import Format

OPS = {
    "AffineGrid", "Attention", "CausalConvWithState", "CenterCropPad", "Col2Im",
    "Compress", "DeformConv", "DepthToSpace", "GridSample", "Hardmax", "LRN",
    "LpNormalization", "LpPool", "MeanVarianceNormalization", "NonMaxSuppression",
    "Resize", "ReverseSequence", "RoiAlign", "RotaryEmbedding", "SpaceToDepth",
    "SwiGLU", "TensorScatter", "Unique",
}  # fmt: skip

# What comes back in other words, with the reason.
IN_OTHER_WORDS = {
    "test_resize_(up|down)sample_sizes_nearest_not_": "the ratio is computed in std",
}


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, while onnx makes its test data
        found = loader.load_model_tests(kind="node")
    for case in found:
        types = {node.op_type for node in case.model.graph.node}
        if len(case.model.graph.node) == 1 and types <= OPS:
            yield case


CASES = {case.name: case for case in cases()}


@pytest.mark.parametrize("name", CASES)
def test_comes_back_as_it_was(name):
    case = CASES[name]
    graph = amanda.load(case.model)
    back = amanda.convert(amanda.convert(graph, "std"), graph.namespace)
    again = onnx.load_from_string(Format().dumps(back))
    types = [node.op_type for node in again.graph.node]
    if not any(re.match(pattern, name) for pattern in IN_OTHER_WORDS):
        assert case.model.graph.node[0].op_type in types
    names = [info.name for info in case.model.graph.input]
    for feeds, expected in case.data_sets:
        arrays = [_array(feed) for feed in feeds]
        fed = dict(zip(names, arrays, strict=False))
        with np.errstate(all="ignore"):  # the reference divides by zero, and selects
            found = ReferenceEvaluator(again).run(None, fed)
        for have, want in zip(found, map(_array, expected), strict=True):
            assert have.dtype == want.dtype
            assert have.shape == want.shape
            wide = [v.astype("float64") for v in (have, want)]
            np.testing.assert_allclose(*wide, rtol=1e-3, atol=1e-6)


def _array(value):
    is_proto = isinstance(value, onnx.TensorProto)
    return onnx.numpy_helper.to_array(value) if is_proto else np.asarray(value)


def test_every_op_has_a_case():
    seen = {case.model.graph.node[0].op_type for case in CASES.values()}
    assert seen == OPS
