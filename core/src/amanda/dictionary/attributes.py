"""Checks and conversions of attribute values.

Untagged text forms cannot distinguish the element type `float32` from a string, or the
shape `[1, 784]` from a list of ints. `cast_value` converts such values to the kind that
the dictionary states.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from amanda.dictionary.literals import format_literal
from amanda.dictionary.op_definition import Attr, EnumMember
from amanda.dictionary.type_patterns import parse_dtype_name
from amanda.errors import AmandaError
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, RefType, Shape, Sym, TensorType, Type, parse_type

__all__ = ["attribute_fault", "cast_value", "fast_check"]


class _WrongKind(Exception):
    """The value is not of this kind."""


def _bool(value: Any) -> Any:
    if value.__class__ is bool:
        return value
    raise _WrongKind


def _int(value: Any) -> Any:
    if value.__class__ is int:
        return value
    raise _WrongKind


def _float(value: Any) -> Any:
    if value.__class__ is float:
        return value
    return float(_int(value))


def _number(value: Any) -> Any:
    if value.__class__ in (bool, int, float, complex):
        return value
    raise _WrongKind


def _complex(value: Any) -> Any:
    if value.__class__ is complex:
        return value
    return complex(_float(value))


def _dim(value: Any) -> Any:
    return value if isinstance(value, Sym) else _int(value)


def _enum(value: Any) -> Any:
    """An enum member by name or by number."""
    if value.__class__ is int or isinstance(value, str):
        return value
    raise _WrongKind


def _string(value: Any) -> Any:
    if isinstance(value, str | bytes):
        return value
    raise _WrongKind


def _dtype(value: Any) -> Any:
    if isinstance(value, DType):
        return value
    found = parse_dtype_name(value) if isinstance(value, str) else None
    if found is None:
        raise _WrongKind
    return found


def _type(value: Any) -> Any:
    if isinstance(value, DType | Type):
        return value
    try:
        return _dtype(value)
    except _WrongKind:
        pass
    try:
        return parse_type(value)
    except (AmandaError, TypeError, AttributeError):
        raise _WrongKind from None


def _shape(value: Any) -> Any:
    if isinstance(value, Shape):
        return value
    if value is None:
        return Shape(None)
    if not isinstance(value, list | tuple):
        raise _WrongKind
    dims = [Sym.unknown() if dim in (None, -1) else dim for dim in value]
    if not all(isinstance(dim, Sym) or dim.__class__ is int for dim in dims):
        raise _WrongKind
    return Shape(dims)


def _tensor(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value
    raise _WrongKind


def _function(value: Any) -> Any:
    if isinstance(value, str) and value:
        return FunctionRef(value)
    if isinstance(value, FunctionRef):
        return value
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return value  # a function with attributes of the call
    raise _WrongKind


def _graph(value: Any) -> Any:
    """A body is no attribute, but a function may stand for it, by its name."""
    if isinstance(value, str | FunctionRef):
        return value
    raise _WrongKind


def _anything(value: Any) -> Any:
    if value is None:
        raise _WrongKind
    return value


_CASTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "double": _float,
    "complex": _complex,
    "number": _number,
    "dim": _dim,
    "enum": _enum,
    "string": _string,
    "dtype": _dtype,
    "type": _type,
    "shape": _shape,
    "tensor": _tensor,
    "sparse": _anything,
    "graph": _graph,
    "any": _anything,
    "function": _function,
}
_KIND_NAMES: Final[Mapping[str, str]] = {
    "dtype": "an element type",
    "type": "a type",
    "int": "an int",
    "graph": "a graph",
    "sparse": "a sparse tensor",
    "any": "a value",
    "enum": "the name or the number of a value",
    "double": "a float",
    "complex": "a complex number",
    "dim": "an int or a symbolic dim",
}


def _describe_kind(attr: Attr) -> str:
    """The kind of an attribute, for messages."""
    if not attr.is_list:
        word = _KIND_NAMES.get(attr.base, f"a {attr.base}")
    elif attr.element == attr.base:
        size = attr.kind.rstrip("?")[len(attr.base) + 1 : -1]
        word = f"a list of {f'{size} ' if size else ''}{attr.base}s"
    else:
        word = f"of the kind {attr.kind.rstrip('?')}"
    return f"{word} or none" if attr.nullable else word


def cast_value(attr: Attr, value: Any) -> Any:
    """Convert an untagged value to the attribute's kind; unchanged if that fails.

    >>> cast_value(Attr("dtype", "dtype"), "float32")
    float32
    >>> cast_value(Attr("shape", "shape"), [1, 784])
    [1, 784]
    """
    try:
        return _cast(attr, value)
    except _WrongKind:
        return value


def _cast(attr: Attr, value: Any) -> Any:
    return _caster(attr.kind)(value)


@cache
def _caster(kind: str) -> Callable[[Any], Any]:
    """A converter to a kind, also of nested lists."""
    base = kind.rstrip("?")
    if base != kind:
        cast_some = _caster(base)
        return lambda value: None if value is None else cast_some(value)
    if not kind.endswith("]"):
        return _CASTS[kind.partition("<")[0]]
    begin = kind.rindex("[")
    cast_item, size = _caster(kind[:begin]), kind[begin + 1 : -1]

    def cast_list(value: Any) -> Any:
        if size and not isinstance(value, list | tuple):
            return cast_item(value)  # one value for all
        if not isinstance(value, list | tuple) or size not in ("", str(len(value))):
            raise _WrongKind
        return [cast_item(item) for item in value]

    return cast_list


def attribute_fault(attr: Attr, value: Any) -> str | None:
    """Why a value is invalid for an attribute, or None.

    >>> print(attribute_fault(Attr("axis", "int"), 1.5))
    axis is 1.5, not an int
    """
    try:
        found = _cast(attr, value)
    except _WrongKind:
        return f"{attr.name} is {reprlib.repr(value)}, not {_describe_kind(attr)}"
    if found is None:
        return None
    if attr.minimum is not None:
        if attr.is_list and len(found) < attr.minimum:
            return (
                f"{attr.name} has {len(found)} items, expected at least {attr.minimum}"
            )
        if not attr.is_list and found < attr.minimum:
            return f"{attr.name} is {found}, expected at least {attr.minimum}"
    if attr.bounds is not None:
        least, most = attr.bounds
        for item in found if isinstance(found, list) else [found]:
            if isinstance(item, int) and not least <= item <= most:
                verb = "has" if attr.is_list else "is"
                return f"{attr.name} {verb} {item}, expected {least} to {most}"
    if attr.allowed:
        for item in found if isinstance(found, list) else [found]:
            if not _allows(attr, normalize_value(item)):
                got = _format_item(attr, item)
                return f"{attr.name} is {got}, but {describe_allowed(attr)}"
    return None


def _allows(attr: Attr, item: Any) -> bool:
    if item in attr.allowed:
        return True
    return attr.base == "enum" and item in [
        member.number for member in attr.allowed if isinstance(member, EnumMember)
    ]


def describe_allowed(attr: Attr) -> str:
    """The allowed values of an attribute or variable, for messages."""
    values = [format_literal(attr.element, value) for value in attr.allowed]
    return f"allows {', '.join(values)}{' only' if len(values) == 1 else ''}"


def normalize_value(value: Any) -> Any:
    """A value as in `Attr.allowed`: str for bytes, the dtype for a tensor type."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, RefType):
        return normalize_value(value.element)
    if isinstance(value, TensorType):
        return value.dtype
    return value


def _format_item(attr: Attr, value: Any) -> str:
    try:
        return format_literal(attr.element, normalize_value(value))
    except (KeyError, AssertionError, TypeError, AttributeError):
        return reprlib.repr(value)


_PYTHON_CLASSES: Final[Mapping[str, frozenset[type]]] = {
    "bool": frozenset({bool}),
    "int": frozenset({int}),
    "float": frozenset({float}),
    "double": frozenset({float}),
    "complex": frozenset({complex}),
    "number": frozenset({bool, int, float, complex}),
    "dim": frozenset({int}),
    "enum": frozenset({str, int}),
    "string": frozenset({str}),
    "dtype": frozenset({DType}),
    "type": frozenset({DType}),
    "shape": frozenset({Shape}),
    "tensor": frozenset({Tensor}),
    "function": frozenset({FunctionRef}),
}
_LISTS: Final[frozenset[Any]] = frozenset({list, tuple})


def fast_check(attr: Attr) -> Callable[[Any], bool]:
    """A fast test that is true for most valid values and false for all invalid ones.

    `attribute_fault` decides about the values that it rejects.
    """
    classes = _PYTHON_CLASSES.get(attr.element.partition("<")[0], frozenset())
    least, allowed = attr.minimum, frozenset(attr.allowed)
    if attr.base == "enum":
        numbers = {m.number for m in attr.allowed if isinstance(m, EnumMember)}
        allowed |= numbers - {None}
    if attr.kind.partition("<")[0] == "any" and not attr.is_list:
        return lambda value: value is not None
    if attr.bounds is not None:
        lowest, highest = attr.bounds
        if attr.is_list:
            return lambda value: attribute_fault(attr, value) is None
        return lambda value: value.__class__ is int and lowest <= value <= highest
    if attr.is_list:
        if allowed or not attr.kind.endswith("[]"):
            return lambda value: attribute_fault(attr, value) is None
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
        smallest: Any = least
        return lambda value: value.__class__ in classes and bool(value >= smallest)
    return lambda value: value.__class__ in classes
