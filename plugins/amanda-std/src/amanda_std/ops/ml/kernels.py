"""Kernel functions of support vector machines (SVM)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda_std.engine.annotations import (
    RealFloating,
)
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import add, multiply
from amanda_std.ops.math.arithmetic import pow as pow_
from amanda_std.ops.math.elementary import exp, square, tanh
from amanda_std.ops.math.reduction import sum_
from amanda_std.ops.tensor.shape import expand_dims, transpose


@composite
def kernel_product(
    x: RealFloating, y: RealFloating, *, kernel: str = "linear", gamma: float = 0.0,
    base: float = 0.0, degree: float = 0.0,
) -> RealFloating:  # fmt: skip
    """Kernel matrix between the rows of x and y (support vector machines)

    linear: x . y; poly: (gamma * x . y + base) ** degree; sigmoid: tanh(gamma * x . y +
    base); rbf: exp(-gamma * |x - y| ** 2)."""
    if kernel == "rbf":
        difference = expand_dims(x, (1,)) - expand_dims(y, (0,))
        far = sum_(square(difference), (-1,))
        return exp(multiply(far, -gamma))
    near = matmul(x, transpose(y, perm=(1, 0)))
    if kernel == "linear":
        return near
    near = add(multiply(near, gamma), base)
    if kernel == "sigmoid":
        return tanh(near)
    if kernel != "poly":
        raise InvalidTypeError(
            "unknown kernel", expected="linear, poly, sigmoid, rbf", got=kernel
        )
    return pow_(near, float(degree))


@kernel_product.samples
def _() -> Samples:
    x, y = ramp(3, 2), ramp(2, 2, start=0.5)
    rows: list[tuple[dict[str, Any], Any]] = [
        ({}, lambda dot, _: dot),
        ({"kernel": "rbf", "gamma": 0.5}, lambda _, far: math.exp(-0.5 * far)),
        ({"kernel": "poly", "gamma": 0.5, "base": 2.0, "degree": 3.0},
         lambda dot, _: (0.5 * dot + 2) ** 3),
        ({"kernel": "sigmoid", "gamma": 0.5, "base": 0.25},
         lambda dot, _: math.tanh(0.5 * dot + 0.25)),
    ]  # fmt: skip
    for attrs, rule in rows:
        z = [[rule(sum(a * b for a, b in zip(u, v, strict=True)),
                   sum((a - b) ** 2 for a, b in zip(u, v, strict=True)))
              for v in y.tolist()] for u in x.tolist()]  # fmt: skip
        for dtype in ("float64", "float32"):
            yield Sample((x.astype(dtype), y.astype(dtype)), array(z, dtype), attrs)
        yield Sample((x[:0], y), np.zeros((0, 2)), attrs, smooth=False)
