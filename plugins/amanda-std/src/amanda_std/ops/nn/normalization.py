"""Normalization layers: layer, RMS, batch, instance and group normalization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.engine.annotations import Floating
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, array, ramp
from amanda_std.engine.traits import Trait
from amanda_std.inference.shape_arguments import normalize_axis
from amanda_std.ops.math.arithmetic import add, divide, multiply, subtract
from amanda_std.ops.math.elementary import sqrt
from amanda_std.ops.math.reduction import mean
from amanda_std.ops.tensor.shape import reshape


def _trailing_axes(x: Any, axis: int) -> tuple[int, ...]:
    """The axes from `axis` on, counted from the end."""
    return tuple(range(normalize_axis(axis, x.ndim) - x.ndim, 0))


def _align_to_axis(values: Any, x: Any, axis: int) -> Any:
    """Reshape a vector so that it broadcasts along one axis of x."""
    at = normalize_axis(axis, x.ndim)
    return reshape(values, [-1 if i == at else 1 for i in range(x.ndim)])


def _standardize(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    """Standardize: subtract the mean, divide by the standard deviation."""
    difference = x - mean(x, axes, keepdims=True)
    return difference / sqrt(
        mean(difference * difference, axes, keepdims=True) + epsilon
    )


def _scale_and_shift(y: Any, scale: Any, bias: Any) -> Any:
    y = y if scale is None else multiply(y, scale)
    return y if bias is None else add(y, bias)


@composite
def layer_norm(
    x: Floating, scale: Floating | None = None, bias: Floating | None = None,
    *, axis: int = -1, epsilon: float = 1e-5,
) -> Floating:  # fmt: skip
    """Layer normalization over the axes from `axis` on, with scale and bias"""
    return _scale_and_shift(
        _standardize(x, _trailing_axes(x, axis), epsilon), scale, bias
    )


layer_norm.trait(Trait.SPREADS_NON_FINITE)


@composite
def rms_norm(
    x: Floating, scale: Floating | None = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Floating:
    """Root mean square (RMS) normalization over the axes from `axis` on, with scale"""
    axes = _trailing_axes(x, axis)
    y = x / sqrt(mean(x * x, axes, keepdims=True) + epsilon)
    return _scale_and_shift(y, scale, None)


rms_norm.trait(Trait.SPREADS_NON_FINITE)


@composite
def batch_norm(
    x: Floating, scale: Floating, bias: Floating, mean: Floating, var: Floating,
    *, axis: int = 1, epsilon: float = 1e-5,
) -> Floating:  # fmt: skip
    """Batch normalization with given statistics, scale and bias for each channel"""
    factor = divide(scale, sqrt(add(var, epsilon)))
    average, move, factor = (_align_to_axis(v, x, axis) for v in (mean, bias, factor))
    return add(multiply(subtract(x, average), factor), move)


batch_norm.trait(Trait.ALONG_AXES, Trait.SCALING)


@composite
def instance_norm(
    x: Floating, scale: Floating | None = None, bias: Floating | None = None,
    *, axis: int = 1, epsilon: float = 1e-5,
) -> Floating:  # fmt: skip
    """Instance normalization: each channel of each batch element on its own"""
    at = normalize_axis(axis, x.ndim)
    axes = tuple(i for i in range(1, x.ndim) if i != at)
    y = _standardize(x, axes, epsilon)
    wide = [None if v is None else _align_to_axis(v, x, axis) for v in (scale, bias)]
    return _scale_and_shift(y, *wide)


instance_norm.trait(Trait.ALONG_AXES)


@composite
def group_norm(
    x: Floating, scale: Floating | None = None, bias: Floating | None = None,
    *, groups: int, epsilon: float = 1e-5,
) -> Floating:  # fmt: skip
    """Group normalization over groups of channels (of NC*), with scale and bias"""
    batch, channels, *spatial = x.shape
    grouped = reshape(x, [batch, groups, channels // groups, *spatial])
    y = _standardize(grouped, tuple(range(2, x.ndim + 1)), epsilon)
    wide = [None if v is None else _align_to_axis(v, x, 1) for v in (scale, bias)]
    return _scale_and_shift(reshape(y, [batch, channels, *spatial]), *wide)


def _normalize_by_loops(
    x: Any, axes: tuple[int, ...], epsilon: float, centred: bool = True
) -> Any:
    """Normalize by loops over groups that share all other axes."""
    kept = [i for i in range(x.ndim) if i not in axes]
    y = np.zeros(x.shape)
    for key in np.ndindex(*(x.shape[i] for i in kept)):
        at: list[Any] = [slice(None)] * x.ndim
        for i, k in zip(kept, key, strict=True):
            at[i] = k
        numbers = [float(n) for n in x[tuple(at)].reshape(-1)]
        average = math.fsum(numbers) / len(numbers) if centred else 0.0
        spread = math.fsum((n - average) ** 2 for n in numbers) / len(numbers)
        new = [(n - average) / math.sqrt(spread + epsilon) for n in numbers]
        y[tuple(at)] = np.array(new).reshape(x[tuple(at)].shape)
    return y.astype(x.dtype)


@layer_norm.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x, scale, bias = (ramp(*s, dtype=dtype) for s in ((2, 3, 4), (4,), (4,)))
        y = _normalize_by_loops(x, (2,), 1e-5)
        yield Sample((x,), y)
        yield Sample((x, scale, bias), y * scale + bias)
    x, scale = ramp(2, 3, 4), ramp(3, 4)
    y = _normalize_by_loops(x, (1, 2), 1e-2)
    yield Sample((x, scale), y * scale, {"axis": 1, "epsilon": 1e-2})
    yield Sample((x[:0],), x[:0], smooth=False)


@rms_norm.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x, scale = ramp(2, 4, dtype=dtype), ramp(4, dtype=dtype)
        y = _normalize_by_loops(x, (1,), 1e-5, False)
        yield Sample((x,), y)
        yield Sample((x, scale), y * scale)
    yield Sample((ramp(0, 2),), ramp(0, 2), smooth=False)


@batch_norm.samples
def _() -> Samples:
    scale, bias, average = array([1.5, -0.5]), array([0.1, 0.2]), array([0.3, -0.4])
    spread = array([0.5, 2.0])
    for dtype in ("float64", "float32"):
        x = ramp(2, 2, 3, dtype=dtype)
        y = np.zeros(x.shape)
        for i, c, j in np.ndindex(x.shape):
            weight = (float(x[i, c, j]) - average[c]) / math.sqrt(spread[c] + 1e-3)
            y[i, c, j] = weight * scale[c] + bias[c]
        args = [v.astype(dtype) for v in (scale, bias, average, spread)]
        yield Sample((x, *args), y.astype(dtype), {"epsilon": 1e-3})
        back = np.moveaxis(x, 1, -1), np.moveaxis(y.astype(dtype), 1, -1)
        yield Sample((back[0], *args), back[1], {"epsilon": 1e-3, "axis": -1})
    yield Sample((x[:0].astype("float64"), scale, bias, average, spread),
                 np.zeros((0, 2, 3)), smooth=False)  # fmt: skip


@instance_norm.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x, scale, bias = (
            ramp(2, 3, 4, dtype=dtype),
            ramp(3, dtype=dtype),
            ramp(3, dtype=dtype),
        )
        y = _normalize_by_loops(x, (2,), 1e-5)
        yield Sample((x,), y)
        yield Sample((x, scale, bias), y * scale[:, None] + bias[:, None])
    yield Sample((ramp(0, 2, 3),), ramp(0, 2, 3), smooth=False)


@group_norm.samples
def _() -> Samples:
    for dtype in ("float64", "float32"):
        x, scale, bias = (
            ramp(2, 4, 3, dtype=dtype),
            ramp(4, dtype=dtype),
            ramp(4, dtype=dtype),
        )
        y = _normalize_by_loops(x.reshape(2, 2, 2, 3), (2, 3), 1e-5).reshape(2, 4, 3)
        yield Sample((x,), y, {"groups": 2})
        yield Sample(
            (x, scale, bias), y * scale[:, None] + bias[:, None], {"groups": 2}
        )
    yield Sample((ramp(0, 4, 3),), ramp(0, 4, 3), {"groups": 2}, smooth=False)
