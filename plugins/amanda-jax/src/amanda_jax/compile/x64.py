"""64-bit types (x64): whether a value, or anything inside a traced program, has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from amanda.graph import OutputPort
from amanda.types import TensorType

_DTYPES: Final = frozenset(map(np.dtype, ("int64", "uint64", "float64", "complex128")))


def is_64_bit(value: Any) -> bool:
    """Whether a NumPy dtype, or the type of a value, is known to be 64-bit."""
    return (_known_dtype(value) if isinstance(value, OutputPort) else value) in _DTYPES


def may_be_64_bit(port: OutputPort) -> bool:
    return _known_dtype(port) is None or is_64_bit(port)


def _known_dtype(port: OutputPort) -> Any:
    own = port.type
    if not isinstance(own, TensorType) or own.dtype.kind == "unknown":
        return None
    return own.dtype.numpy


def has_64_bit_values(jaxpr: ClosedJaxpr) -> bool:
    """Whether a value in a jaxpr, or in one that it calls, is of a 64-bit type."""
    waiting: list[Any] = [jaxpr.jaxpr]
    while waiting:
        current = waiting.pop()
        for value in _values(current):
            if is_64_bit(getattr(value.aval, "dtype", None)):
                return True
        for eqn in current.eqns:
            for param in eqn.params.values():
                waiting += _inner_jaxprs(param)
    return False


def _values(jaxpr: Any) -> Iterator[Any]:
    yield from jaxpr.constvars
    yield from jaxpr.invars
    yield from jaxpr.outvars
    for eqn in jaxpr.eqns:
        yield from eqn.invars
        yield from eqn.outvars


def _inner_jaxprs(param: Any) -> Iterator[Any]:
    if isinstance(param, ClosedJaxpr):
        yield param.jaxpr
    elif isinstance(param, Jaxpr):
        yield param
    elif isinstance(param, list | tuple):
        for item in param:
            yield from _inner_jaxprs(item)
