"""Values of foreign types in mapping functions: what they are to the graph, by type.

    @adapter(numpy.dtype)
    def element(value):
        return DType.of(value)

What a function gives to an attribute or an input may be anything that somebody told an
adapter for; a subclass has that of its nearest base.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

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
_ADAPTERS: dict[type, Callable[[Any], Any]] = {}


def adapter(type: type) -> Callable[[_Call], _Call]:
    """Declares what values of a type, and of those under it, are to the graph."""

    def declare(call: _Call) -> _Call:
        if type in _ADAPTERS:
            raise UsageError(f"there is an adapter for {type.__qualname__} already")
        _ADAPTERS[type] = call
        return call

    return declare


def remove_adapter(type: type) -> None:
    """Takes an adapter back."""
    _ADAPTERS.pop(type, None)


def convert_value(value: Any) -> Any:
    """A value as the graph holds it; UsageError where nobody told how.

    >>> adapted([1, 2.5, "a"])
    [1, 2.5, 'a']
    """
    if value is None or isinstance(value, _PLAIN) or hasattr(value, "__array__"):
        return value
    found = next((b for b in type(value).__mro__ if b in _ADAPTERS), None)
    if found is not None:
        return _ADAPTERS[found](value)
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
    """Does the graph know this type by itself?"""
    return type(value).__module__.partition(".")[0] == "amanda"


def _unknown_type_error(value: Any) -> Any:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    raise UsageError(
        f"a graph holds no value of type {name}",
        expected="numbers, texts, lists of these, Tensors, types",
        hint=f"tell what it is: @amanda.mapping.adapter({type(value).__name__})",
    )
