"""Padding, casts, softmax and creation of arrays, where XLA differs."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import lax

from amanda_std.backends import current_kernels, use_kernels
from amanda_std.ops import OPS

_BITS: Final = {"bfloat16": "uint16", "float32": "uint32", "float64": "uint64"}
"""Integers of the size of floats whose denormal numbers the CPU flushes to zero."""
_TWO_BITS: Final = ("int2", "uint2")
LARGE: Final = 1 << 12
"""Elements from which a constant-filled array is created on the device."""


def pad(x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str) -> Any:
    rows = [(0, 0)] * x.ndim
    for i, axis in enumerate(range(x.ndim) if axes is None else axes):
        rows[axis] = tuple(pads[i])
    if mode == "constant":
        fill = jnp.zeros((), x.dtype) if value is None else jnp.reshape(value, ())
        return lax.pad(x, fill.astype(x.dtype), [(low, high, 0) for low, high in rows])
    crop = tuple(
        slice(max(-low, 0), n - max(-high, 0))
        for (low, high), n in zip(rows, x.shape, strict=True)
    )
    grow = [(max(low, 0), max(high, 0)) for low, high in rows]
    return jnp.pad(x[crop], grow, mode=mode)


def through_int8(name: str) -> Callable[..., Any]:
    """An op that computes integers of 2 bits as int8.

    XLA's compiler for the CPU ends the process, or fails, where it sees them there."""

    def kernel(*xs: Any, **attrs: Any) -> Any:
        function, dtype = OPS[name].function, xs[0].dtype
        if dtype.name not in _TWO_BITS:
            return function(*xs, **attrs)
        y = function(*[x.astype("int8") for x in xs], **attrs)
        return y.astype(dtype) if y.dtype == "int8" else y

    return kernel


def divide(a: Any, b: Any) -> Any:
    """Correctly rounded division.

    XLA multiplies by the reciprocal of a divisor that it sees to be broadcast, which
    rounds twice. The barrier hides that it is; it costs nothing at run time."""
    if jnp.issubdtype(b.dtype, jnp.floating):
        shape = jnp.broadcast_shapes(a.shape, b.shape)
        b = lax.optimization_barrier(jnp.broadcast_to(b, shape))
    return OPS["divide"].function(a, b)


def is_nonzero(x: Any) -> Any:
    """Whether elements differ from zero, as denormal numbers do.

    XLA compares those as zero on the CPU, where it flushes them."""
    if x.dtype.name not in _BITS:
        return x != jnp.zeros((), x.dtype)
    return (lax.bitcast_convert_type(x, _BITS[x.dtype.name]) << 1) != 0


def sign(x: Any) -> Any:
    """The sign of XLA keeps that of zeros; everybody else returns 0."""
    y = OPS["sign"].function(x)
    return jnp.where(y == 0, jnp.zeros((), y.dtype), y)


def astype(x: Any, *, dtype: Any) -> Any:
    """XLA saturates small integers; everybody else wraps around."""
    target = dtype.numpy
    if target.kind == "b":
        return is_nonzero(jnp.asarray(x))
    if x.dtype.kind in "fV" and dtype.kind in ("int", "uint") and target.itemsize < 4:
        x = x.astype("int32")
    return OPS["astype"].function(x, dtype=dtype)


def _subtract_maximum(x: Any, axes: Any) -> Any:
    """`x` minus its maximum, so that the definition subtracts zero.

    XLA rounds an element differently where it is subtracted and where the maximum is
    taken, if it can fuse a product into both: for huge elements none is 0 then, as one
    has to be, and the sum of their exponentials vanishes."""
    return x - OPS["max"].function(x, axes, keepdims=True)


def softmax(x: Any, *, axes: Any = (-1,)) -> Any:
    return OPS["softmax"].function(_subtract_maximum(x, axes), axes=axes)


def log_softmax(x: Any, *, axes: Any = (-1,)) -> Any:
    return OPS["log_softmax"].function(_subtract_maximum(x, axes), axes=axes)


def full(shape: Any, value: Any) -> Any:
    """By NumPy where it may become a shape argument: a few integers in a row."""
    is_data = value.dtype.kind not in "iub" or len(shape) > 1 or prod(shape) > LARGE
    xp: Any = jnp if is_data else value.__array_namespace__()
    return xp.broadcast_to(xp.asarray(value), tuple(shape))


def broadcast_to(x: Any, shape: Any) -> Any:
    if prod(shape) > LARGE:
        return jnp.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))
    return OPS["broadcast_to"].function(x, shape)


def cosine_window(size: Any, **attrs: Any) -> Any:
    """XLA creates it, though it depends on nothing but its size."""

    def positions(start: Any, stop: Any, step: Any) -> Any:
        return jnp.arange(start, stop, step, dtype="int64")

    kernels = current_kernels()
    with use_kernels(kernels and kernels.also({"arange": positions})):
        return OPS["cosine_window"].function(size, **attrs)


def arange(start: Any, stop: Any, step: Any = 1) -> Any:
    xp: Any = jnp if len(range(start, stop, step)) > LARGE else np
    return xp.arange(start, stop, step, dtype="int64")
