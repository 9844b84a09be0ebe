"""Reductions of integers: results are truncated to integers, as by onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import amanda
from amanda_onnx.format import Format

KINDS = ["Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]
CODES = {"int32": 6, "int64": 7, "uint32": 12, "uint64": 13}
X = np.array([[[-3, 2, 2], [5, -8, 1]], [[-7, -7, -1], [4, 4, 3]]])


def formula(kind, x, axes):
    """By numpy, in float64 where the result is no integer."""
    wide = x.astype("float64")
    found = {
        "Mean": lambda: wide.mean(axes), "Max": lambda: x.max(axes),
        "Min": lambda: x.min(axes), "Prod": lambda: x.prod(axes),
        "L1": lambda: abs(x).sum(axes), "L2": lambda: np.sqrt((wide**2).sum(axes)),
        "LogSum": lambda: np.log(wide.sum(axes)),
        "LogSumExp": lambda: np.log(np.exp(wide).sum(axes)),
        "SumSquare": lambda: (x * x).sum(axes),
    }[kind]()  # fmt: skip
    return np.trunc(found).astype(x.dtype)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axes", [(1,), (0, 2)])
def test_integers(kind, dtype, axes, backend):
    if backend == "jax":
        pytest.importorskip("amanda_jax")
    x = X if dtype.startswith("i") and kind != "LogSum" else abs(X)
    x = x.astype(dtype)
    info = helper.make_tensor_value_info
    node = helper.make_node(f"Reduce{kind}", ["x"], ["y"], axes=axes, keepdims=0)
    ends = [info("x", CODES[dtype], ["a", "b", "c"])], [info("y", CODES[dtype], None)]
    proto = helper.make_model(
        helper.make_graph([node], "g", *ends),
        opset_imports=[helper.make_opsetid("", 13)], ir_version=8,
    )  # fmt: skip
    want = formula(kind, x, axes)
    if dtype.startswith("i"):  # onnxruntime has no kernels of unsigned integers
        session = onnxruntime.InferenceSession(proto.SerializeToString())
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], want)
    (found,) = amanda.run(Format().read(proto), [x], backend=backend).values()
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, want)
