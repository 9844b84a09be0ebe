"""Whether a traced function has 64-bit types anywhere inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

_WIDE: Final = frozenset(map(np.dtype, ("int64", "uint64", "float64", "complex128")))


def is_wide(dtype: Any) -> bool:
    return dtype in _WIDE


def has_wide(jaxpr: ClosedJaxpr) -> bool:
    """Whether one of its values, in what it calls too, is of a 64-bit type."""
    waiting: list[Any] = [jaxpr.jaxpr]
    while waiting:
        one = waiting.pop()
        for value in _values(one):
            if is_wide(getattr(value.aval, "dtype", None)):
                return True
        for eqn in one.eqns:
            for param in eqn.params.values():
                waiting += _inside(param)
    return False


def _values(jaxpr: Any) -> Iterator[Any]:
    yield from jaxpr.constvars
    yield from jaxpr.invars
    yield from jaxpr.outvars
    for eqn in jaxpr.eqns:
        yield from eqn.invars
        yield from eqn.outvars


def _inside(param: Any) -> Iterator[Any]:
    if isinstance(param, ClosedJaxpr):
        yield param.jaxpr
    elif isinstance(param, Jaxpr):
        yield param
    elif isinstance(param, list | tuple):
        for item in param:
            yield from _inside(item)
