"""Sizes that stay open while a program is traced: dims of JAX that are no numbers.

Rows for what numpy would compute of dims. As values of the program they are traced
numbers; as host arguments they come as JAX's dims, in `Size`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from amanda_std.ops import OPS

__all__ = ["ROWS", "Size", "is_symbolic"]


class Size:
    """A dim on its way into a kernel: what it holds is its index."""

    __slots__ = ("_dim",)

    def __init__(self, dim: Any) -> None:
        self._dim = dim

    def __index__(self) -> Any:
        return self._dim


def is_symbolic(dim: Any) -> bool:
    return bool(jax.export.is_symbolic_dim(dim))


def _value(dim: Any) -> Any:
    """A size as an element of the program, where it is open; else as one of numpy."""
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
    found: Any = 1
    for each in x.shape:
        found = found * each
    return _value(found)


def full(shape: Any, value: Any) -> Any:
    return jnp.broadcast_to(jnp.asarray(value), tuple(shape))


def broadcast_to(x: Any, shape: Any) -> Any:
    """As numpy has it: an axis of one element, in x or in the shape, gives way."""
    wanted = list(shape)
    x = jnp.asarray(x)
    have = [1] * (len(wanted) - x.ndim) + list(x.shape)
    wanted = [1] * (len(have) - len(wanted)) + wanted
    both = [h if _is(w, 1) else w for h, w in zip(have, wanted, strict=True)]
    return jnp.broadcast_to(x, both)


def _is(dim: Any, number: int) -> bool:
    return not is_symbolic(dim) and bool(dim == number)


def reshape(x: Any, shape: Any, *, copy_zero: bool = False) -> Any:
    """Where JAX cannot tell what -1 is, it is the quotient: conditions tell of that."""
    rows = enumerate(shape)
    wanted = [x.shape[i] if copy_zero and _is(d, 0) else d for i, d in rows]
    try:
        return jnp.reshape(x, wanted)
    except jax.errors.InconclusiveDimensionOperation:
        left = [i for i, each in enumerate(wanted) if _is(each, -1)]
        whole, rest = prod(x.shape), prod(d for d in wanted if not _is(d, -1))
        if len(left) != 1 or not _is(whole % rest, 0):
            raise
        wanted[left[0]] = whole // rest
        return jnp.reshape(x, wanted)


def arange(start: Any, stop: Any, step: Any = 1) -> Any:
    return jnp.arange(start, stop, step, dtype="int64")


def _where_symbolic(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The row where a host argument has an open size, else what runs otherwise."""
    from amanda_jax.kernels import JAX

    plainly = OPS[name].implementation(JAX)

    @wraps(function)
    def kernel(*args: Any, **attrs: Any) -> Any:
        found = any(map(_has_symbols, args))
        return (function if found else plainly)(*args, **attrs)

    return kernel


def _has_symbols(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_has_symbols, value))
    return is_symbolic(value) or any(map(is_symbolic, getattr(value, "shape", ())))


ROWS: Final[dict[str, Callable[..., Any]]] = {
    "shape_of": shape_of,
    "dim": dim,
    "size": size,
    "full": _where_symbolic("full", full),
    "arange": _where_symbolic("arange", arange),
    "reshape": _where_symbolic("reshape", reshape),
    "broadcast_to": _where_symbolic("broadcast_to", broadcast_to),
}
