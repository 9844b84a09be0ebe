"""Adapters: foreign Python values that mapping functions pass to ops.

    @adapter(numpy.dtype)
    def element(value):
        return DType.of(value)

An attribute or input may be of any type that has an adapter; a subclass uses that of
its nearest base class. Adapters belong to the host in use when they are declared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from amanda.current_host import host_in_use
from amanda.errors import UsageError
from amanda.graph import Graph, OutputPort
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Shape, Type

__all__ = ["convert_value", "adapter", "remove_adapter"]

_Call = TypeVar("_Call", bound=Callable[[Any], Any])
_PLAIN: Final = (
    bool, int, float, complex, str, bytes, Tensor, Graph, OutputPort, DType, Shape,
    Type, FunctionRef,
)  # fmt: skip


def _adapters() -> dict[type, Callable[[Any], Any]]:
    found: dict[type, Callable[[Any], Any]] = host_in_use().adapters
    return found


def adapter(type: type) -> Callable[[_Call], _Call]:
    """Declare how values of a type and its subclasses are converted."""

    def declare(call: _Call) -> _Call:
        if type in _adapters():
            raise UsageError(f"there is an adapter for {type.__qualname__} already")
        _adapters()[type] = call
        return call

    return declare


def remove_adapter(type: type) -> None:
    """Remove an adapter."""
    _adapters().pop(type, None)


def convert_value(value: Any) -> Any:
    """A value as graphs hold it; UsageError for a type without an adapter.

    >>> convert_value([1, 2.5, "a"])
    [1, 2.5, 'a']
    """
    if value is None or isinstance(value, _PLAIN) or hasattr(value, "__array__"):
        return value
    adapters = _adapters()
    found = next((b for b in type(value).__mro__ if b in adapters), None)
    if found is not None:
        return adapters[found](value)
    if isinstance(value, list | tuple):
        return (
            type(value)(map(convert_value, value))
            if type(value) in (list, tuple)
            else [*map(convert_value, value)]
        )
    if isinstance(value, dict):
        return {key: convert_value(item) for key, item in value.items()}
    return value if _is_graph_type(value) else _unknown_type_error(value)


def _is_graph_type(value: Any) -> bool:
    """Whether graphs hold values of this type as they are."""
    return type(value).__module__.partition(".")[0] == "amanda"


def _unknown_type_error(value: Any) -> Any:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    raise UsageError(
        f"a graph cannot hold a value of type {name}",
        expected="numbers, strings, lists of these, Tensors, types",
        hint=f"declare an adapter: @amanda.mapping.adapter({type(value).__name__})",
    )
