"""Norms and responses of neighbourhoods, and steps of transformers around them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import Real, RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, folded, ramp
from amanda_std.ops._late import late
from amanda_std.ops.tensor.creation import number


@composite
def lrn(
    x: RealFloating, *, size: int, alpha: float = 1e-4, beta: float = 0.75,
    bias: float = 1.0, axis: int = 1,
) -> RealFloating:  # fmt: skip
    """x / (bias + alpha / size * squares of the channels around)**beta

    Of an even number of channels, more are behind."""
    before = (size - 1) // 2
    axis = axis % x.ndim
    squares = late.pad(late.square(x), ((before, size - 1 - before),), None, (axis,))
    total: Any = None
    for i in range(size):
        stop = x.shape[axis] + i
        part = late.slice(squares, [i], [stop], [axis])
        total = part if total is None else late.add(total, part)
    return late.divide(x, late.pow(total * (alpha / size) + bias, number(beta, x)))


@lrn.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        for size, axis in ((1, 1), (3, 1), (4, 1), (2, -1)):
            x = ramp(2, 5, 3, dtype=dtype)
            y = np.zeros(x.shape)
            before = (size - 1) // 2
            for at in np.ndindex(x.shape):
                total = 0.0
                for c in range(at[axis] - before, at[axis] - before + size):
                    where = list(at)
                    where[axis] = c
                    if 0 <= c < x.shape[axis]:
                        total += float(x[tuple(where)]) ** 2
                y[at] = float(x[at]) / (0.7 + 0.5 / size * total) ** 0.6
            attrs = {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 0.7, "axis": axis}
            yield Sample((x,), y.astype(dtype), attrs)
    yield Sample((ramp(0, 2, 3),), ramp(0, 2, 3), {"size": 3}, smooth=False)


@composite
def mean_variance_norm(
    x: RealFloating, *, axes: tuple[int, ...] = (0, 2, 3), epsilon: float = 1e-9
) -> RealFloating:
    """x less its mean along axes, over its deviation plus epsilon"""
    apart = late.subtract(x, late.mean(x, axes, keepdims=True))
    spread = late.sqrt(late.mean(late.square(apart), axes, keepdims=True))
    return late.divide(apart, spread + epsilon)


@mean_variance_norm.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 3, 2, 2, dtype=dtype)
        for axes, epsilon in (((0, 2, 3), 1e-9), ((1,), 0.1)):
            middle = folded(lambda n: math.fsum(n) / len(n), x, axes, True, "float64")
            apart = x.astype("float64") - middle
            spread = folded(
                lambda n: math.sqrt(math.fsum(v * v for v in n) / len(n)),
                apart, axes, True,
            )  # fmt: skip
            y = (apart / (spread + epsilon)).astype(dtype)
            yield Sample((x,), y, {"axes": axes, "epsilon": epsilon})
    yield Sample((ramp(0, 2),), ramp(0, 2), {"axes": (1,)}, smooth=False)


@composite
def lp_norm(x: RealFloating, *, p: float = 2, axis: int = -1) -> RealFloating:
    """x over its p-norm along an axis; 0 where that is 0"""
    if p == 1:
        norm = late.sum(late.abs(x), (axis,), keepdims=True)
    elif p == 2:
        norm = late.sqrt(late.sum(late.square(x), (axis,), keepdims=True))
    else:
        total = late.sum(late.pow(late.abs(x), number(p, x)), (axis,), keepdims=True)
        norm = late.pow(total, number(1 / p, x))
    none = late.equal(norm, number(0, x))
    safe = late.where(none, number(1, x), norm)
    return late.where(none, number(0, x), late.divide(x, safe))


@lp_norm.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x = ramp(2, 3, dtype=dtype)
        for p in (1, 2, 3):
            for axis in (0, -1):

                def size(n: list[float], p: int = p) -> float:
                    return float(sum(abs(v) ** p for v in n) ** (1 / p))

                norm = folded(size, x, (axis,), True, "float64")
                yield Sample((x,), (x / norm).astype(dtype), {"p": p, "axis": axis})
    yield Sample((np.zeros((2, 2)),), np.zeros((2, 2)), smooth=False)
    yield Sample((ramp(2, 0),), ramp(2, 0), smooth=False)


@composite
def hardmax(x: Real, *, axis: int = -1) -> Real:
    """1 at the first largest element along an axis, 0 elsewhere"""
    axis = axis % x.ndim
    at = late.argmax(x, axis, keepdims=True)
    steps = late.arange(0, x.shape[axis])
    rest = tuple(range(1, x.ndim - axis))
    steps = late.expand_dims(steps, rest) if rest else steps
    return late.where(late.equal(at, steps), number(1, x), number(0, x))


hardmax.not_differentiable("its steps have no slope")


@hardmax.samples
def _() -> Samples:
    for dtype in ("float64", "float32", "int32"):
        x = array([[3, 0, 3], [-1, 2, 1]], dtype)
        yield Sample((x,), array([[1, 0, 0], [0, 1, 0]], dtype))
        yield Sample((x,), array([[1, 0, 1], [0, 1, 0]], dtype), {"axis": 0})
    yield Sample((ramp(0, 3),), ramp(0, 3))


# -- parts of transformers -----------------------------------------------------------


@composite
def glu(
    x: RealFloating, *, axis: int = -1, activation: str = "sigmoid"
) -> RealFloating:
    """The first half of an axis times an activation of the other half

    Of any activation that is an op: sigmoid, silu, gelu, relu, tanh ..."""
    axis = axis % x.ndim
    half = x.shape[axis] // 2
    a = late.slice(x, [0], [half], [axis])
    b = late.slice(x, [half], [half + half], [axis])
    return late.multiply(a, getattr(late, activation)(b))


@composite
def swiglu(x: RealFloating, gate: RealFloating, *, alpha: float = 1.0) -> RealFloating:
    """x * gate * sigmoid(alpha * gate)"""
    if alpha == 1:
        return late.multiply(x, late.silu(gate))
    return late.multiply(x, late.multiply(gate, late.sigmoid(gate * alpha)))


@composite
def bias_gelu(
    x: RealFloating, bias: RealFloating, *, approximate: bool = False
) -> RealFloating:
    """gelu(x + bias)"""
    return late.gelu(late.add(x, bias), approximate=approximate)


@composite
def skip_layer_norm(
    x: RealFloating, skip: RealFloating, scale: RealFloating,
    shift: RealFloating | None = None, bias: RealFloating | None = None,
    *, epsilon: float = 1e-12, centred: bool = True,
) -> tuple[RealFloating, RealFloating]:  # fmt: skip
    """layer_norm (or rms_norm, if not centred) of x + skip + bias, and that sum"""
    total = late.add(x, skip)
    if bias is not None:
        total = late.add(total, bias)
    if centred:
        return late.layer_norm(total, scale, shift, epsilon=epsilon), total
    y = late.rms_norm(total, scale, epsilon=epsilon)
    return (y if shift is None else late.add(y, shift)), total


_GATES: dict[str, Any] = {
    "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
    "silu": lambda v: v / (1 + math.exp(-v)),
    "tanh": math.tanh,
    "gelu": lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))),
}


def _each(function: Any, *arrays: Any) -> Any:
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
            y = _each(lambda a, b, g=gate: a * g(b), x[:, :2], x[:, 2:])
            yield Sample((x,), y, {"activation": activation})
        y = _each(lambda a, b: a * _GATES["sigmoid"](b), x[:1], x[1:])
        yield Sample((x,), y, {"axis": 0})
    yield Sample((ramp(0, 4),), ramp(0, 2), smooth=False)


@swiglu.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        a, b = ramp(2, 3, dtype=dtype), ramp(2, 3, dtype=dtype, start=0.3)
        yield Sample((a, b), _each(lambda v, g: v * _GATES["silu"](g), a, b))
        y = _each(lambda v, g: v * g * _GATES["sigmoid"](1.7 * g), a, b)
        yield Sample((a, b), y, {"alpha": 1.7})
    yield Sample((ramp(0, 3), ramp(0, 3)), ramp(0, 3), smooth=False)


@bias_gelu.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        a, b = ramp(2, 3, dtype=dtype), ramp(3, dtype=dtype, start=0.3)
        yield Sample((a, b), _each(lambda v, g: _GATES["gelu"](v + g), a, b))

        def near(v: float, g: float) -> float:
            t = v + g
            inner = math.sqrt(2 / math.pi) * (t + 0.044715 * t**3)
            return t / 2 * (1 + math.tanh(inner))

        yield Sample((a, b), _each(near, a, b), {"approximate": True})
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
                        middle = math.fsum(row) / 3 if centred else 0.0
                        spread = math.fsum((v - middle) ** 2 for v in row) / 3
                        for j, v in enumerate(row):
                            one = (v - middle) / math.sqrt(spread + 1e-3)
                            y[i, j] = one * float(scale[j])
                            y[i, j] += 0 if last is None else float(last[j])
                            total[i, j] = v
                    want = [y.astype(dtype), total.astype(dtype)]
                    attrs = {"epsilon": 1e-3, "centred": centred}
                    yield Sample((x, skip, scale, last, move), want, attrs)
    yield Sample((ramp(0, 3), ramp(0, 3), ramp(3)), [ramp(0, 3)] * 2, smooth=False)
