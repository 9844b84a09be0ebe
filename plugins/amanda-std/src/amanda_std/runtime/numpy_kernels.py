"""Kernels of the numpy backend: ops that numpy has, or computes faster than defined.

All other ops run as defined. Composites with a row are left whole when a graph is
compiled; the others are lowered once, instead of in every run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod, sqrt
from typing import Any, Final

import numpy as np

from amanda_std.engine.arrays import Kernels, is_small_float
from amanda_std.ops.control.conditionals import select_branch
from amanda_std.ops.math.elementary import call_scipy_special

# Ufuncs and the like: called directly, without a look for the array namespace.
_SAME_NAME = [
    "add",
    "subtract",
    "multiply",
    "floor_divide",
    "remainder",
    "maximum",
    "minimum",
    "where",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "sqrt",
    "square",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "negative",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "isnan",
    "isinf",
    "isfinite",
]
"""Ops that numpy has under the same name."""


_sum_reduce: Any = np.add.reduce
_max_reduce: Any = np.maximum.reduce


def _via_float32(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Compute small floats (float16, bfloat16, float8) in float32, rounded once."""

    @wraps(kernel)
    def call(x: Any, *args: Any, **attrs: Any) -> Any:
        if not is_small_float(x.dtype):
            return kernel(x, *args, **attrs)
        wide = [None if a is None else a.astype("float32") for a in args]
        return kernel(x.astype("float32"), *wide, **attrs).astype(x.dtype)

    return call


def _matmul(a: Any, b: Any, out: Any = None) -> Any:
    if out is not None and a.dtype.char in "fd":
        return np.matmul(a, b, out=out)
    if a.dtype.itemsize <= 2 and a.dtype.kind in "fV":  # numpy rounds every sum
        return np.matmul(a.astype("float32"), b.astype("float32")).astype(a.dtype)
    y = np.matmul(a, b)
    return y if y.dtype is a.dtype else y.astype(a.dtype)


def _grouped_matmul(x: Any, weights: Any, ends: Any) -> Any:
    """One product for each group, where the definition has one of all rows."""
    y = np.zeros((len(x), weights.shape[2]), x.dtype)
    start = 0
    for end, matrix in zip(ends.tolist(), weights, strict=True):
        if end > start:
            y[start:end] = _matmul(x[start:end], matrix)
            start = end
    return y


def _relu(x: Any, out: Any = None) -> Any:
    return np.maximum(x, 0, out=out, dtype=x.dtype)


def _sum(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    dtype = x.dtype
    if dtype.itemsize <= 2 and dtype.kind in "fV":
        wide = _sum_reduce(x, axis=axes, keepdims=keepdims, dtype="float32")
        return wide.astype(dtype)
    return _sum_reduce(x, axis=axes, keepdims=keepdims, dtype=dtype)


def _mean(x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    if axes == ():
        return x
    wide = "float32" if is_small_float(x.dtype) else None
    if x.size:
        y = np.mean(x, axis=axes, keepdims=keepdims, dtype=wide)
    else:  # of nothing it is NaN, and np.mean warns of it
        y = np.sum(x, axis=axes, keepdims=keepdims, dtype=wide) * np.nan
    return y.astype(x.dtype, copy=False)


@_via_float32
def _softmax(x: Any, *, axes: Any = (-1,)) -> Any:
    """With a single temporary array, where the definition needs three."""
    if x.size == 0:
        return x.copy()
    y = np.subtract(x, _max_reduce(x, axis=axes, keepdims=True))
    np.exp(y, out=y)
    np.divide(y, _sum_reduce(y, axis=axes, keepdims=True), out=y)
    return y


@_via_float32
def _layer_norm(
    x: Any,
    scale: Any = None,
    bias: Any = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    count = x.dtype.type(prod(x.shape[axes[0] :]))
    y = x - _sum_reduce(x, axis=axes, keepdims=True) / count
    spread = _sum_reduce(y * y, axis=axes, keepdims=True) / count
    np.divide(y, np.sqrt(spread + x.dtype.type(epsilon)), out=y)
    if scale is not None:
        y = np.multiply(y, scale, out=y if scale.ndim <= y.ndim else None)
    return y if bias is None else y + bias


@_via_float32
def _gelu(x: Any, *, approximate: bool = False) -> Any:
    one, half = x.dtype.type(1), x.dtype.type(0.5)
    if approximate:
        inner = (x + x * x * x * x.dtype.type(0.044715)) * x.dtype.type(sqrt(2 / np.pi))
        return x * half * (np.tanh(inner) + one)
    y = call_scipy_special("erf", x * x.dtype.type(sqrt(0.5)))
    y = y + one
    y *= half  # first: x times 2 may overflow
    y *= x
    return y


def _stack(*xs: Any, axis: int = 0) -> Any:
    if xs[0].ndim:
        return np.stack(xs, axis=axis)
    return np.array(xs, xs[0].dtype)  # dims that make a shape: no need for views


_ROWS = {
    **{name: getattr(np, name) for name in _SAME_NAME},
    "matmul": _matmul,
    "grouped_matmul": _grouped_matmul,
    "relu": _relu,
    "stack": _stack,
    "case": select_branch,
    "sum": _sum,
    "mean": _mean,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "gelu": _gelu,
}

NUMPY: Final = Kernels(
    "numpy",
    _ROWS,
    in_place=[name for name, row in _ROWS.items() if isinstance(row, np.ufunc)]
    + ["relu"],
    fresh=["softmax", "layer_norm", "gelu", "erf", "sigmoid", "conv"],
    into=["matmul"],
)
