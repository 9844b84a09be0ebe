"""Fused layers of transformers: gated linear units, bias and skip connections."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, ramp
from amanda_std.ops._late import late
from amanda_std.ops.math.arithmetic import add, multiply
from amanda_std.ops.math.elementary import sigmoid
from amanda_std.ops.nn.activation import gelu, silu
from amanda_std.ops.nn.normalization import layer_norm, rms_norm
from amanda_std.ops.tensor.manipulation import slice_


@composite
def glu(
    x: RealFloating, *, axis: int = -1, activation: str = "sigmoid"
) -> RealFloating:
    """Gated linear unit: first half of an axis times an activation of the second

    `activation` names any activation op: sigmoid, silu, gelu, relu, tanh ..."""
    axis = axis % x.ndim
    half = x.shape[axis] // 2
    a = slice_(x, [0], [half], [axis])
    b = slice_(x, [half], [half + half], [axis])
    return multiply(a, getattr(late, activation)(b))


@composite
def swiglu(x: RealFloating, gate: RealFloating, *, alpha: float = 1.0) -> RealFloating:
    """Swish-gated linear unit: x * gate * sigmoid(alpha * gate)"""
    if alpha == 1:
        return multiply(x, silu(gate))
    return multiply(x, multiply(gate, sigmoid(gate * alpha)))


@composite
def bias_gelu(
    x: RealFloating, bias: RealFloating, *, approximate: bool = False
) -> RealFloating:
    """gelu(x + bias)"""
    return gelu(add(x, bias), approximate=approximate)


@composite
def skip_layer_norm(
    x: RealFloating, skip: RealFloating, scale: RealFloating,
    shift: RealFloating | None = None, bias: RealFloating | None = None,
    *, epsilon: float = 1e-12, centred: bool = True,
) -> tuple[RealFloating, RealFloating]:  # fmt: skip
    """layer_norm (rms_norm unless `centred`) of x + skip + bias, and that sum"""
    total = add(x, skip)
    if bias is not None:
        total = add(total, bias)
    if centred:
        return layer_norm(total, scale, shift, epsilon=epsilon), total
    y = rms_norm(total, scale, epsilon=epsilon)
    return (y if shift is None else add(y, shift)), total


_GATES: dict[str, Any] = {
    "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
    "silu": lambda v: v / (1 + math.exp(-v)),
    "tanh": math.tanh,
    "gelu": lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))),
}


def _map_elements(function: Any, *arrays: Any) -> Any:
    full = np.broadcast_arrays(*arrays)
    y = np.zeros(full[0].shape)
    for at in np.ndindex(y.shape):
        y[at] = function(*(float(a[at]) for a in full))
    return y.astype(arrays[0].dtype)


@glu.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 4, dtype=dtype)
        for activation, gate in _GATES.items():
            y = _map_elements(lambda a, b, g=gate: a * g(b), x[:, :2], x[:, 2:])
            yield Sample((x,), y, {"activation": activation})
        y = _map_elements(lambda a, b: a * _GATES["sigmoid"](b), x[:1], x[1:])
        yield Sample((x,), y, {"axis": 0})
    yield Sample((ramp(0, 4),), ramp(0, 2), smooth=False)


@swiglu.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        a, b = ramp(2, 3, dtype=dtype), ramp(2, 3, dtype=dtype, start=0.3)
        yield Sample((a, b), _map_elements(lambda v, g: v * _GATES["silu"](g), a, b))
        y = _map_elements(lambda v, g: v * g * _GATES["sigmoid"](1.7 * g), a, b)
        yield Sample((a, b), y, {"alpha": 1.7})
    yield Sample((ramp(0, 3), ramp(0, 3)), ramp(0, 3), smooth=False)


@bias_gelu.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        a, b = ramp(2, 3, dtype=dtype), ramp(3, dtype=dtype, start=0.3)
        yield Sample((a, b), _map_elements(lambda v, g: _GATES["gelu"](v + g), a, b))

        def near(v: float, g: float) -> float:
            t = v + g
            inner = math.sqrt(2 / math.pi) * (t + 0.044715 * t**3)
            return t / 2 * (1 + math.tanh(inner))

        yield Sample((a, b), _map_elements(near, a, b), {"approximate": True})
    yield Sample((ramp(0, 3), ramp(3)), ramp(0, 3), smooth=False)


@skip_layer_norm.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x, skip = ramp(2, 3, dtype=dtype), ramp(2, 3, dtype=dtype, start=0.4)
        scale, shift, bias = (ramp(3, dtype=dtype, start=s) for s in (0.5, 0.1, -0.2))
        for centred in (True, False):
            for move in (None, bias):
                for last in (None, shift):
                    total, y = np.zeros((2, 3)), np.zeros((2, 3))
                    for i in range(2):
                        row = [float(x[i, j]) + float(skip[i, j]) for j in range(3)]
                        if move is not None:
                            row = [v + float(move[j]) for j, v in enumerate(row)]
                        mean = math.fsum(row) / 3 if centred else 0.0
                        spread = math.fsum((v - mean) ** 2 for v in row) / 3
                        for j, v in enumerate(row):
                            one = (v - mean) / math.sqrt(spread + 1e-3)
                            y[i, j] = one * float(scale[j])
                            y[i, j] += 0 if last is None else float(last[j])
                            total[i, j] = v
                    expected = [y.astype(dtype), total.astype(dtype)]
                    attrs = {"epsilon": 1e-3, "centred": centred}
                    yield Sample((x, skip, scale, last, move), expected, attrs)
    yield Sample((ramp(0, 3), ramp(0, 3), ramp(3)), [ramp(0, 3)] * 2, smooth=False)
