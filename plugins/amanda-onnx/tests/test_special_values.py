"""NaN, infinities, largest numbers and empty axes, as in onnx's reference evaluator."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import amanda

NAN, INF = np.nan, np.inf
X = np.array([[NAN, INF, -INF, 3.4e38, -0.0, 0.25]], "float32")
ONE = np.ones((1, 1), "float32")

CASES = {
    "Shrink": ([X], {"lambd": 0.5, "bias": 0.0}),
    "ThresholdedRelu": ([X], {"alpha": 1.0}),
    "Gelu": ([np.delete(X, 2, 1)], {}),  # the reference gives NaN for -inf
    "PRelu": ([X, np.full((1, 1), -2, "float32")], {}),
    "Gemm": ([ONE, ONE * 2, ONE * NAN], {"beta": 0.0}),
    "Hardmax": ([np.zeros((3, 0), "float32")], {}),
}


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("name", CASES)
def test_special_values(name, backend):
    if backend == "jax":
        pytest.importorskip("amanda_jax", reason="amanda-jax is not installed")
    inputs, attrs = CASES[name]
    ends = [
        helper.make_tensor_value_info(f"i{i}", TensorProto.FLOAT, v.shape)
        for i, v in enumerate(inputs)
    ]
    node = helper.make_node(name, [e.name for e in ends], ["y"], **attrs)
    result = onnx.ValueInfoProto(name="y")
    model = helper.make_model(
        helper.make_graph([node], "g", ends, [result]),
        opset_imports=[helper.make_opsetid("", 20)], ir_version=9,
    )  # fmt: skip
    feeds = {e.name: v for e, v in zip(ends, inputs, strict=True)}
    with np.errstate(all="ignore"):
        expected = ReferenceEvaluator(model).run(None, feeds)[0]
    found = next(iter(amanda.run(amanda.load(model), feeds, backend=backend).values()))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, atol=0)
