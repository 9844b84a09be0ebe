"""Primitives of the hub that ONNX lacks, written by their decompositions.

The samples of the hub, whose oracles are independent, on onnxruntime and on onnx's
reference evaluator.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.types import TensorType
from amanda_onnx.format import Format
from amanda_std.ops import OPS

STD = amanda.namespace("std")
OPSET = 21
DECOMPOSED = [n for n, op in OPS.items() if op.definition and not op.is_composite]
TOLERANCE = {"float32": 2e-5, "float64": 1e-8, "bool": 0}


def run_reference(model, feeds):
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, feeds)


def run_onnxruntime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, feeds)


RUNTIMES = {"reference": run_reference, "onnxruntime": run_onnxruntime}


WITHOUT_KERNEL = {(name, "float64", "onnxruntime") for name in ("det", "atan2")}
"""Samples of which onnxruntime has no kernel: Det and Atan."""


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", DECOMPOSED)
def test_decomposition(name, runtime):
    if runtime == "reference" and name.startswith("cumulative"):
        pytest.skip("onnx's reference evaluator has Scan along the first axis only")
    compared = 0
    for sample in OPS[name].samples_rule():
        wanted = (
            sample.expected if isinstance(sample.expected, list) else [sample.expected]
        )
        dtype = str(wanted[0].dtype)
        known = dtype in TOLERANCE and (name, dtype, runtime) not in WITHOUT_KERNEL
        if not known or any(0 in a.shape for a in tensors_of(sample)):
            continue
        found = RUNTIMES[runtime](*model_of(OPS[name], sample))
        limit = max(TOLERANCE[dtype], sample.tolerance or 0)
        for got, want in zip(found, wanted, strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=limit, atol=limit)
        compared += 1
    assert compared


def tensors_of(sample):
    return [a for a in sample.args if isinstance(a, np.ndarray | np.generic)]


def model_of(op, sample):
    """The op as a model of ONNX, and its feeds."""
    tensors = tensors_of(sample)
    others = sample.args[len(tensors) :]
    types = [TensorType(str(a.dtype), a.shape) for a in tensors]
    graph = STD.trace(lambda *xs: op(*xs, *others, **sample.attrs), types)
    raw = Format().dumps(amanda.convert(graph, f"onnx@{OPSET}"))
    model = onnx.load_from_string(raw)
    names = [value.name for value in model.graph.input]
    return model, dict(zip(names, map(np.asarray, tensors), strict=True))
