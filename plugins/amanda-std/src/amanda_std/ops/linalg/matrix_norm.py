"""Matrix norms."""

from __future__ import annotations

import math

import numpy as np

from amanda.errors import InvalidTypeError
from amanda_std.engine.annotations import RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.ops._oracles.matrices import (
    matrix_product,
)
from amanda_std.ops.linalg.factorizations import svd
from amanda_std.ops.math.arithmetic import abs as abs_
from amanda_std.ops.math.norms import norm_l2
from amanda_std.ops.math.reduction import max_, min_, sum_
from amanda_std.ops.tensor.shape import expand_dims


@composite
def matrix_norm(
    x: RealFloating, *, kind: str | int = "fro", keepdims: bool = False
) -> RealFloating:
    """Matrix norm: fro, nuc, 1, -1, 2, -2, inf or -inf, as in NumPy"""
    axes = (-2, -1)
    if kind == "fro":
        return norm_l2(x, axes, keepdims=keepdims)
    if kind in ("nuc", 2, -2):
        _, s, _ = svd(x)
        fold = {"nuc": sum_, 2: max_, -2: min_}[kind]
        y = fold(s, (-1,))
    elif kind in (1, -1, "inf", "-inf"):
        over = -2 if kind in (1, -1) else -1
        total = sum_(abs_(x), (over,))
        y = (max_ if kind in (1, "inf") else min_)(total, (-1,))
    else:
        raise InvalidTypeError(
            "unknown norm", expected="fro, nuc, 1, -1, 2, -2, inf or -inf", got=kind
        )
    return expand_dims(y, axes) if keepdims else y


@matrix_norm.samples
def _() -> Samples:
    # rotated by 3-4-5 and 5-12-13 triangles, so that the singular values are known
    left, right = array([[0.6, -0.8], [0.8, 0.6]]), array([[5, -12], [12, 5]]) / 13
    x = matrix_product(matrix_product(left, np.diag([4.0, 1.5])), right)
    down = [math.fsum(abs(x[i, j]) for i in range(2)) for j in range(2)]
    over = [math.fsum(abs(x[i, j]) for j in range(2)) for i in range(2)]
    requested = {"fro": math.hypot(4, 1.5), "nuc": 5.5, 2: 4.0, -2: 1.5, 1: max(down),
              -1: min(down), "inf": max(over), "-inf": min(over)}  # fmt: skip
    for dtype in ("float64", "float32"):
        for kind, y in requested.items():
            yield Sample((x.astype(dtype),), array(y, dtype), {"kind": kind})
            attrs = {"kind": kind, "keepdims": True}
            yield Sample((x.astype(dtype),), array([[y]], dtype), attrs)
    yield Sample((np.zeros((0, 2, 2)),), np.zeros(0), smooth=False)
