"""Symbolic dims while a program is traced for all sizes.

Kernels for what NumPy would compute from dims. As values of the program, symbolic dims
are traced integers; as shape arguments they are dims of JAX, in a `DimArgument`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from amanda_std.ops import OPS

__all__ = ["KERNELS", "DimArgument", "is_symbolic"]


class DimArgument:
    """A dim on its way into a kernel; its index is the dim itself."""

    __slots__ = ("_dim",)

    def __init__(self, dim: Any) -> None:
        self._dim = dim

    def __index__(self) -> Any:
        return self._dim


def is_symbolic(dim: Any) -> bool:
    return bool(jax.export.is_symbolic_dim(dim))


def _value(dim: Any) -> Any:
    """A symbolic dim as a traced integer, a static one as one of NumPy."""
    if is_symbolic(dim):
        return jnp.asarray(dim).astype("int64")
    return np.asarray(dim, "int64")


def shape_of(x: Any) -> Any:
    if not any(map(is_symbolic, x.shape)):
        return np.asarray(x.shape, "int64")
    return jnp.stack([jnp.asarray(_value(each)) for each in x.shape])


def dim(x: Any, *, axis: int) -> Any:
    return _value(x.shape[axis])


def size(x: Any) -> Any:
    return _value(prod(x.shape))


def full(shape: Any, value: Any) -> Any:
    return jnp.broadcast_to(jnp.asarray(value), tuple(shape))


def broadcast_to(x: Any, shape: Any) -> Any:
    """As NumPy: an axis of size 1, in x or in the shape, is broadcast."""
    target = list(shape)
    x = jnp.asarray(x)
    own = [1] * (len(target) - x.ndim) + list(x.shape)
    target = [1] * (len(own) - len(target)) + target
    result = [h if _equals(w, 1) else w for h, w in zip(own, target, strict=True)]
    return jnp.broadcast_to(x, result)


def _equals(dim: Any, number: int) -> bool:
    return not is_symbolic(dim) and bool(dim == number)


def reshape(x: Any, shape: Any, *, copy_zero: bool = False) -> Any:
    """Where JAX cannot infer -1, it is the quotient."""
    rows = enumerate(shape)
    target = [x.shape[i] if copy_zero and _equals(d, 0) else d for i, d in rows]
    try:
        return jnp.reshape(x, target)
    except jax.errors.InconclusiveDimensionOperation:
        inferred = [i for i, each in enumerate(target) if _equals(each, -1)]
        whole, known = prod(x.shape), prod(d for d in target if not _equals(d, -1))
        if len(inferred) != 1 or not _equals(whole % known, 0):
            raise
        target[inferred[0]] = whole // known
        return jnp.reshape(x, target)


def arange(start: Any, stop: Any, step: Any = 1) -> Any:
    return jnp.arange(start, stop, step, dtype="int64")


def _if_symbolic(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel for symbolic shape arguments, and the usual one otherwise."""
    from amanda_jax.kernels import JAX

    usual = OPS[name].implementation(JAX)

    @wraps(function)
    def kernel(*args: Any, **attrs: Any) -> Any:
        is_symbolic_call = any(map(_has_symbols, args))
        return (function if is_symbolic_call else usual)(*args, **attrs)

    return kernel


def _has_symbols(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_has_symbols, value))
    return is_symbolic(value) or any(map(is_symbolic, getattr(value, "shape", ())))


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "shape_of": shape_of,
    "dim": dim,
    "size": size,
    "full": _if_symbolic("full", full),
    "arange": _if_symbolic("arange", arange),
    "reshape": _if_symbolic("reshape", reshape),
    "broadcast_to": _if_symbolic("broadcast_to", broadcast_to),
}
