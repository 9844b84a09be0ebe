"""Does a value fit an attribute? And which value is it, when its kind is not told?

Texts without tags cannot say `float32` the element type, or `[1, 784]` the shape: they
say text and a list of ints. `cast` makes of them what the dictionary says they are.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from amanda.dictionary.literals import literal
from amanda.dictionary.model import Attr
from amanda.dictionary.patterns import dtype_called
from amanda.errors import AmandaError
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, RefType, Shape, Sym, TensorType, Type, parse_type

__all__ = ["acceptor", "cast", "fault_of"]


class _Unfit(Exception):
    """Not a value of this kind."""


def _bool(value: Any) -> Any:
    if value.__class__ is bool:
        return value
    raise _Unfit


def _int(value: Any) -> Any:
    if value.__class__ is int:
        return value
    raise _Unfit


def _float(value: Any) -> Any:
    if value.__class__ is float:
        return value
    return float(_int(value))


def _string(value: Any) -> Any:
    if isinstance(value, str | bytes):
        return value
    raise _Unfit


def _dtype(value: Any) -> Any:
    if isinstance(value, DType):
        return value
    found = dtype_called(value) if isinstance(value, str) else None
    if found is None:
        raise _Unfit
    return found


def _type(value: Any) -> Any:
    if isinstance(value, DType | Type):
        return value
    try:
        return _dtype(value)
    except _Unfit:
        pass
    try:
        return parse_type(value)
    except (AmandaError, TypeError, AttributeError):
        raise _Unfit from None


def _shape(value: Any) -> Any:
    if isinstance(value, Shape):
        return value
    if value is None:
        return Shape(None)
    if not isinstance(value, list | tuple):
        raise _Unfit
    dims = [Sym.unknown() if dim in (None, -1) else dim for dim in value]
    if not all(isinstance(dim, Sym) or dim.__class__ is int for dim in dims):
        raise _Unfit
    return Shape(dims)


def _tensor(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value
    raise _Unfit


def _function(value: Any) -> Any:
    if isinstance(value, str) and value:
        return FunctionRef(value)
    if isinstance(value, FunctionRef):
        return value
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return value  # it says attributes of the call too
    raise _Unfit


def _anything(value: Any) -> Any:
    if value is None:
        raise _Unfit
    return value


_CASTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "string": _string,
    "dtype": _dtype,
    "type": _type,
    "shape": _shape,
    "tensor": _tensor,
    "sparse": _anything,
    "graph": _anything,
    "any": _anything,
    "function": _function,
}
_WORDS: Final[Mapping[str, str]] = {
    "dtype": "an element type",
    "type": "a type",
    "int": "an int",
    "graph": "a graph",
    "sparse": "a sparse tensor",
}


def _named(kind: str) -> str:
    """A kind as messages call it."""
    element = kind.removesuffix("[]")
    if element != kind:
        return f"a list of {element}s"
    return _WORDS.get(kind, f"a {kind}")


def cast(attr: Attr, value: Any) -> Any:
    """The value with its kind, where it is untagged; itself where it does not fit.

    >>> cast(Attr("dtype", "dtype"), "float32")
    float32
    >>> cast(Attr("shape", "shape"), [1, 784])
    [1, 784]
    """
    try:
        return _cast(attr, value)
    except _Unfit:
        return value


def _cast(attr: Attr, value: Any) -> Any:
    one = _CASTS[attr.element]
    if not attr.is_list:
        return one(value)
    if not isinstance(value, list | tuple):
        raise _Unfit
    return [one(item) for item in value]


def fault_of(attr: Attr, value: Any) -> str | None:
    """Why a value cannot be that of an attribute, or None.

    >>> print(fault_of(Attr("axis", "int"), 1.5))
    axis is 1.5, not an int
    """
    try:
        found = _cast(attr, value)
    except _Unfit:
        return f"{attr.name} is {reprlib.repr(value)}, not {_named(attr.kind)}"
    if attr.minimum is not None:
        if attr.is_list and len(found) < attr.minimum:
            return (
                f"{attr.name} has {len(found)} items, at least {attr.minimum} are due"
            )
        if not attr.is_list and found < attr.minimum:
            return f"{attr.name} is {found}, at least {attr.minimum} is due"
    if attr.allowed:
        for item in found if attr.is_list else [found]:
            if plain(item) not in attr.allowed:
                return f"{attr.name} is {_shown(attr, item)}, but {choices(attr)}"
    return None


def choices(attr: Attr) -> str:
    """What an attribute or variable takes, in words."""
    listed = [literal(attr.element, value) for value in attr.allowed]
    return f"takes {', '.join(listed)}{' only' if len(listed) == 1 else ''}"


def plain(value: Any) -> Any:
    """A value as `allowed` has it: text as str, a tensor's type by its elements."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, RefType):
        return plain(value.element)
    if isinstance(value, TensorType):
        return value.dtype
    return value


def _shown(attr: Attr, value: Any) -> str:
    try:
        return literal(attr.element, plain(value))
    except (KeyError, AssertionError, TypeError, AttributeError):
        return reprlib.repr(value)


_CLASSES: Final[Mapping[str, frozenset[type]]] = {
    "bool": frozenset({bool}),
    "int": frozenset({int}),
    "float": frozenset({float}),
    "string": frozenset({str}),
    "dtype": frozenset({DType}),
    "type": frozenset({DType}),
    "shape": frozenset({Shape}),
    "tensor": frozenset({Tensor}),
    "function": frozenset({FunctionRef}),
}
_LISTS: Final[frozenset[Any]] = frozenset({list, tuple})


def acceptor(attr: Attr) -> Callable[[Any], bool]:
    """A quick test that is true for most values that fit, and for no other.

    What it declines is for `fault_of` to decide.
    """
    classes = _CLASSES.get(attr.element, frozenset())
    least, allowed = attr.minimum, frozenset(attr.allowed)
    if attr.is_list:
        if allowed:
            return lambda value: fault_of(attr, value) is None
        length = least or 0

        def fits_list(value: Any) -> bool:
            return (
                value.__class__ in _LISTS
                and len(value) >= length
                and classes.issuperset(map(type, value))
            )

        return fits_list
    if allowed:
        return lambda value: value.__class__ in classes and value in allowed
    if least is not None:
        lowest: Any = least
        return lambda value: value.__class__ in classes and bool(value >= lowest)
    return lambda value: value.__class__ in classes
