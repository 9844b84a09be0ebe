"""Attribute values: validation, comparison and hashing.

Lists, tuples and dicts may be nested to a depth of 100; deeper ones, and values with
more than a million parts (such as cycles), are errors. Nothing here is recursive.
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import copysign, isnan
from typing import Any, Final, TypeAlias

from amanda.errors import InvalidTypeError, LimitError
from amanda.tensors.tensor import Tensor
from amanda.types import DType, Quantized, Shape, Sym, Symbols, Type
from amanda.types.quoting import check_text

__all__ = ["AttrValue", "FunctionRef", "check_attr", "same_value", "value_digest"]

MAX_DEPTH: Final = 100
MAX_PARTS: Final = 1_000_000
_MAX_BITS: Final = 256  # of an int: the limit of all text forms
_FLUSH: Final = 4096
_SCALARS: Final = frozenset({int, float, complex, str, bool, bytes})


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """The name of a function of the root graph, as an attribute value."""

    name: str

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a function")


AttrValue: TypeAlias = (
    bool
    | int
    | float
    | complex
    | str
    | bytes
    | DType
    | Quantized
    | Shape
    | Sym
    | Type
    | Tensor
    | FunctionRef
    | list[Any]
    | tuple[Any, ...]
    | dict[str, Any]
    | None
)


def check_attr(value: object, where: str) -> None:
    """Raise InvalidTypeError, with `where`, for an invalid attribute value.

    >>> check_attr({"axes": [0, 1], "mode": None}, "op 'a'")
    >>> check_attr([1, {2}], "attribute 'axes'")
    Traceback (most recent call last):
    ...
    amanda.errors.InvalidTypeError: an attribute cannot hold a set
      where:    attribute 'axes'
      expected: none, bool, int, float, complex, str, bytes, DType, Quantized, ...
      got:      {2}
    """
    try:
        for part in _walk(value):
            kind = type(part)
            if kind is str:
                check_text(part, "a string")
            elif kind is int and part.bit_length() > _MAX_BITS:
                raise InvalidTypeError(
                    "an attribute with an absurdly large number",
                    expected=f"at most {_MAX_BITS} bits",
                    got=f"{part.bit_length()} bits",
                )
            elif kind not in _TAGS:
                _tag(part)
    except (InvalidTypeError, LimitError) as error:
        error.where = error.where or where
        raise


def same_value(
    a: object,
    b: object,
    *,
    content: bool = True,
    symbols: tuple[Symbols, Symbols] | None = None,
) -> bool:
    """True if two attribute values have the same kind and content.

    True, 1 and 1.0 differ; NaN equals NaN; -0.0 and 0.0 differ; a list equals a tuple
    of the same items; the order of dict keys does not matter. With `content` False,
    only the types of tensors are compared. `symbols` are the scopes of two documents:
    anonymous dims are then equal if they have the same number.

    >>> same_value([1, float("nan")], (1, float("nan"))), same_value(True, 1)
    (True, False)
    """
    stack = [(a, b, 0)]
    seen = 0
    while stack:
        x, y, depth = stack.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > MAX_PARTS:
            raise _too_large()
        if isinstance(x, list | tuple) and isinstance(y, list | tuple):
            if len(x) != len(y):
                return False
            pairs = zip(reversed(x), reversed(y), strict=True)
            stack += [(i, j, depth + 1) for i, j in pairs]
        elif isinstance(x, dict) and isinstance(y, dict):
            if x.keys() != y.keys():
                return False
            stack += [(x[k], y[k], depth + 1) for k in sorted(x, reverse=True)]
        elif not _same_leaf(x, y, content, symbols):
            return False
    return True


def value_digest(
    value: object,
    update: Callable[[bytes], object],
    content: bool = True,
    symbols: Symbols | None = None,
) -> None:
    """Update a hash with a value, consistent with `same_value`.

    With `content` False, only the types of tensors are hashed. `symbols` numbers
    anonymous dims across several values; by default, each call has its own numbering.
    """
    scope = Symbols() if symbols is None else symbols
    waiting: list[bytes] = []
    for part in _walk(value, in_order=True):
        tag, data = _encode_part(part, content, scope)
        waiting.append(b"%s%d:" % (tag, len(data)) + data)
        if len(waiting) >= _FLUSH:
            update(b"".join(waiting))
            waiting.clear()
    update(b"".join(waiting))


class _ContainerStart:
    """Marks the start of a list or dict in `_walk`."""

    __slots__ = ("count", "tag")

    def __init__(self, tag: bytes, count: int) -> None:
        self.tag = tag
        self.count = count


def _walk(value: object, in_order: bool = False) -> Iterator[Any]:
    """All leaves, and a mark at the start of each container; depth first."""
    stack: list[Iterator[Any]] = [iter((value,))]
    seen = 0
    while stack:
        for item in stack[-1]:
            seen += 1
            if seen > MAX_PARTS or len(stack) > MAX_DEPTH + 1:
                raise _too_large()
            if type(item) in _SCALARS:
                yield item
            elif isinstance(item, list | tuple):
                yield _ContainerStart(b"[", len(item))
                stack.append(iter(item))
                break
            elif isinstance(item, dict):
                yield _ContainerStart(b"{", len(item))
                stack.append(_keys_and_values(item, in_order))
                break
            else:
                yield item
        else:
            stack.pop()


def _keys_and_values(items: dict[Any, Any], in_order: bool) -> Iterator[Any]:
    for key in items:
        if type(key) is not str:
            raise InvalidTypeError(
                "a dict key in an attribute must be str", got=reprlib.repr(key)
            )
    for key in sorted(items) if in_order else items:
        yield key
        yield items[key]


def _too_large() -> LimitError:
    return LimitError(
        "an attribute is nested absurdly deep or has absurdly many parts",
        expected=f"at most {MAX_DEPTH} levels and {MAX_PARTS} parts",
    )


_TAGS: Final[dict[type, bytes]] = {
    type(None): b"n",
    bool: b"b",
    int: b"i",
    float: b"f",
    complex: b"c",
    str: b"s",
    bytes: b"y",
    DType: b"D",
    Quantized: b"D",
    Shape: b"S",
    Sym: b"N",
    Tensor: b"W",
    FunctionRef: b"F",
    _ContainerStart: b"",
}


def _tag(value: Any) -> bytes:
    """The kind of an attribute value; raises InvalidTypeError if it is invalid."""
    found = _TAGS.get(type(value))
    if found is not None:
        return found
    for kind, tag in ((Type, b"T"), (list, b"["), (tuple, b"["), (dict, b"{")):
        if isinstance(value, kind):
            return tag
    is_convertible = isinstance(value, int | float | str | bytes) or hasattr(
        value, "dtype"
    )
    raise InvalidTypeError(
        f"an attribute cannot hold a {type(value).__name__}",
        expected="none, bool, int, float, complex, str, bytes, DType, Quantized, "
        "Shape, Sym, Type, Tensor, FunctionRef, or lists, tuples and str-keyed dicts "
        "of them",
        got=reprlib.repr(value),
        hint="make it a plain Python value, or a Tensor with Tensor.of"
        if is_convertible
        else None,
    )


def _encode_part(part: Any, content: bool, symbols: Symbols) -> tuple[bytes, bytes]:
    """Encode one part as a tag and bytes, injectively."""
    tag = _tag(part)
    match part:
        case _ContainerStart():
            return part.tag, str(part.count).encode()
        case None:
            return tag, b""
        case bool() | int():
            return tag, b"%x" % part
        case float():
            return tag, _encode_float(part)
        case complex():
            return tag, _encode_float(part.real) + b"," + _encode_float(part.imag)
        case str():
            return tag, part.encode("utf-8", "surrogatepass")
        case bytes():
            return tag, part
        case Shape() | Sym() | Type():
            return tag, part.text(symbols).encode()
        case Tensor():
            if content:
                return b"C", part.digest().encode()
            return tag, f"{part.dtype}{list(part.shape)}".encode()
        case FunctionRef():
            return tag, part.name.encode("utf-8", "surrogatepass")
    return tag, str(part).encode()


def _encode_float(number: float) -> bytes:
    return struct.pack("<d", number) if number == number else b"nan"


def _same_float(a: float, b: float) -> bool:
    same = a == b and copysign(1, a) == copysign(1, b)
    return same or (isnan(a) and isnan(b))


def _same_leaf(
    a: Any, b: Any, content: bool, symbols: tuple[Symbols, Symbols] | None
) -> bool:
    tag = _tag(a)
    if tag != _tag(b):
        return False
    if isinstance(a, float):
        return _same_float(a, b)
    if isinstance(a, complex):
        return _same_float(a.real, b.real) and _same_float(a.imag, b.imag)
    if isinstance(a, Tensor):
        if content:
            return a.same_content(b)
        return bool(a.dtype == b.dtype and a.shape == b.shape)
    if isinstance(a, Shape | Sym | Type):
        if symbols is not None:
            mine, other = a.text(symbols[0]), b.text(symbols[1])
            return bool(mine == other)
        return bool(a.key == b.key) if isinstance(a, Sym) else bool(a == b)
    return bool(a == b)
