"""The fully connected (dense) layer."""

from __future__ import annotations

import numpy as np

from amanda_std.engine.annotations import Number
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.engine.traits import Trait
from amanda_std.ops._oracles.matrices import matmul_by_loops
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import add


@composite
def linear(x: Number, weight: Number, bias: Number | None = None) -> Number:
    """Fully connected layer: x @ weight + bias"""
    y = matmul(x, weight)
    return y if bias is None else add(y, bias)


linear.trait(Trait.LINEAR_LAYER, Trait.MATRIX_PRODUCT, Trait.SPREADS_NON_FINITE)


@linear.samples
def _() -> Samples:
    x, w, b = ramp(2, 5, 3), ramp(3, 4, start=0.2), ramp(4)
    yield Sample((x, w), matmul_by_loops(x, w))
    yield Sample((x, w, b), matmul_by_loops(x, w) + b)
    x, w, b = (v.astype("float32") for v in (x, w, b))
    yield Sample((x, w, b), matmul_by_loops(x, w) + b)
    yield Sample((x[:0], w, b), np.zeros((0, 5, 4), "float32"), smooth=False)
