"""Types of values as op definitions state them: element types, without shapes.

A type pattern is a `DType`, which stands for tensors of it, or a type without shapes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TypeAlias

from amanda.errors import FormatError, InvalidTypeError
from amanda.types import (
    DType,
    MapType,
    OptionalType,
    Quantized,
    RefType,
    ResourceType,
    SequenceType,
    TensorType,
    Type,
    resource,
    unknown,
)

__all__ = [
    "NAME",
    "SignatureScanner",
    "TypePattern",
    "format_pattern",
    "matches_pattern",
    "parse_dtype_name",
    "pattern_of",
    "short_dtype_name",
]

TypePattern: TypeAlias = DType | Type

_LETTERS = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf"}
_LONG = re.compile(r"(float|int|uint|complex|bfloat)(\d+)(?:_(\w+))?")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(?:-[A-Za-z0-9_.]+)*")
TENSOR = "tensor"
"""The name of any tensor in signatures: its element type is `unknown`."""


@cache
def short_dtype_name(dtype: DType) -> str:
    """The short name of an element type, if it has one.

    >>> short_dtype_name(DType("float32")), short_dtype_name(DType("float8_e4m3fn"))
    ('f32', 'f8e4m3fn')
    """
    found = _LONG.fullmatch(dtype.name)
    if found is None:
        return dtype.name
    name = f"{_LETTERS[found[1]]}{found[2]}{found[3] or ''}"
    return name if parse_dtype_name(name) is dtype else dtype.name


def pattern_of(type: Type | None) -> TypePattern | None:
    """The type pattern of a value's type; None if its element type is unknown.

    A reference counts as its target.

    >>> from amanda.types import parse_type
    >>> pattern_of(parse_type("float32[2, n]"))
    float32
    >>> format_pattern(pattern_of(parse_type("sequence<int8[3]>")))
    'sequence<i8>'
    """
    if isinstance(type, TensorType):
        dtype = type.dtype
        if isinstance(dtype, Quantized):
            return None
        return None if dtype is unknown else dtype
    if isinstance(type, ResourceType):
        return resource
    if isinstance(type, RefType):
        return pattern_of(type.element)
    if isinstance(type, SequenceType | OptionalType | MapType):
        inner = pattern_of(type.parts[-1])
        return None if inner is None else _wrap(type, _as_type(inner))
    return None


def matches_pattern(due: TypePattern, found: TypePattern) -> bool:
    """True if a value of type `found` is accepted where `due` is stated.

    >>> from amanda.types import float32, string
    >>> matches_pattern(unknown, float32), matches_pattern(string, float32)
    (True, False)
    """
    if due == found:
        return True
    if due is unknown or due == TensorType(unknown):
        return isinstance(found, DType | TensorType)
    if isinstance(due, DType) or type(due) is not type(found):
        return False
    assert not isinstance(found, DType)
    *keys, inner = due.parts
    *others, other = found.parts
    same = getattr(due, "key", None) == getattr(found, "key", None)
    return same and keys == others and matches_pattern(inner, other)


def _wrap(type: Type, inner: Type) -> Type:
    if isinstance(type, MapType):
        return MapType(type.key, inner)
    return (
        SequenceType(inner) if isinstance(type, SequenceType) else OptionalType(inner)
    )


def _as_type(pattern: TypePattern) -> Type:
    return TensorType(pattern) if isinstance(pattern, DType) else pattern


def format_pattern(pattern: TypePattern) -> str:
    """A type pattern as text.

    >>> format_pattern(MapType("int64", TensorType("float32")))
    'map<i64, f32>'
    """
    if isinstance(pattern, TensorType):
        assert isinstance(pattern.dtype, DType)
        pattern = pattern.dtype
    if isinstance(pattern, DType):
        return TENSOR if pattern is unknown else short_dtype_name(pattern)
    inner = format_pattern(pattern.parts[-1])
    if isinstance(pattern, MapType):
        assert isinstance(pattern.key, DType)
        return f"map<{short_dtype_name(pattern.key)}, {inner}>"
    keyword = "sequence" if isinstance(pattern, SequenceType) else "optional"
    return f"{keyword}<{inner}>"


class SignatureScanner:
    """Tokens of a signature, read one by one."""

    __slots__ = ("at", "text")

    def __init__(self, text: str, at: int = 0) -> None:
        self.text, self.at = text, at

    def peek(self, sign: str) -> bool:
        """True if `sign` comes next; skips spaces before it."""
        text, at = self.text, self.at
        while at < len(text) and text[at] == " ":
            at += 1
        self.at = at
        return text.startswith(sign, at)

    def take(self, sign: str) -> bool:
        """Skip `sign` if it comes next; return whether it did."""
        if self.peek(sign):
            self.at += len(sign)
            return True
        return False

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise self.fault(repr(sign))

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        self.peek("")
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.fault(what)
        self.at = found.end()
        return found[0]

    def fault(self, what: str) -> FormatError:
        """An error that states what was expected here."""
        rest = self.text[self.at : self.at + 20]
        return FormatError(
            "a signature cannot be parsed",
            who=self.text.partition("(")[0][:60] or None,
            where=f"character {self.at}",
            expected=what,
            got=repr(rest) if rest else "the end",
        )

    def word_or_pattern(self) -> str | TypePattern:
        """A parametric type, or a name that the caller resolves."""
        word = self.match(NAME, "a type")
        if word in ("sequence", "optional") and self.take("<"):
            inner = _as_type(self.pattern())
            self.expect(">")
            return SequenceType(inner) if word == "sequence" else OptionalType(inner)
        if word == "map" and self.take("<"):
            key = self.pattern()
            self.expect(",")
            inner = _as_type(self.pattern())
            self.expect(">")
            if not isinstance(key, DType):
                raise self.fault("an element type as the key of a map")
            return MapType(key, inner)
        return word

    def pattern(self) -> TypePattern:
        found = self.word_or_pattern()
        if not isinstance(found, str):
            return found
        dtype = parse_dtype_name(found)
        if dtype is None:
            self.at -= len(found)
            raise self.fault("a type")
        return dtype


@cache
def parse_dtype_name(word: str) -> DType | None:
    """The element type of a name or alias; `unknown` for `tensor`."""
    if word == TENSOR:
        return unknown
    try:
        return DType(word)
    except InvalidTypeError:
        return None
