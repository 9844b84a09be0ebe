"""Maps of names to pairs of numbers, as Java serializes them: no code is run.

The manifest of a `.sdnb` file is such a map. The stream has classes, with their fields,
and objects of them; a class or an object that was there already is a reference. Of the
classes of Java, only the map, its pairs, numbers and texts are read.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from amanda.errors import FormatError

__all__ = ["map_of_pairs"]

_MAGIC: Final = b"\xac\xed\x00\x05"
_FIRST_HANDLE: Final = 0x7E0000
_NULL, _REFERENCE, _CLASS, _OBJECT, _TEXT, _BLOCK, _END = (
    0x70, 0x71, 0x72, 0x73, 0x74, 0x77, 0x78,
)  # fmt: skip
_PRIMITIVES: Final = {"Z": "?", "B": "b", "S": ">h", "C": ">H", "I": ">i", "J": ">q",
                      "F": ">f", "D": ">d"}  # fmt: skip
_HAS_CODE, _HAS_FIELDS = 1, 2
_MAX_DEPTH: Final = 16
_MAX_CLASSES: Final = 16
_MAPS: Final = frozenset({"java.util.HashMap", "java.util.LinkedHashMap"})
_PAIR: Final = "org.nd4j.common.primitives.Pair"
_NUMBER: Final = "java.lang.Long"


class _Class(NamedTuple):
    name: str
    flags: int
    fields: tuple[tuple[str, str], ...]
    parent: _Class | None


class _Object(NamedTuple):
    name: str
    fields: dict[str, Any]
    content: list[Any]  # what the code of its class wrote


def map_of_pairs(data: memoryview) -> dict[str, tuple[int, int]]:
    """The map of a stream; FormatError for anything else.

    >>> map_of_pairs(memoryview(b""))
    Traceback (most recent call last):
    amanda.errors.FormatError: the manifest is no map of Java
      expected: names with a position and a size
      got:      the start of the stream
    """
    reader = _Stream(data)
    if reader.bytes(4) != _MAGIC:
        raise _fault("the start of the stream")
    found = reader.value()
    if not isinstance(found, _Object) or found.name not in _MAPS:
        raise _fault("another object")
    items = [each for each in found.content if not isinstance(each, bytes)]
    if len(items) % 2:
        raise _fault("a name without its pair")
    names, pairs = items[::2], items[1::2]
    return {_name(n): _pair(pair) for n, pair in zip(names, pairs, strict=True)}


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise _fault("a name that is no text")
    return value


def _pair(value: Any) -> tuple[int, int]:
    if not isinstance(value, _Object) or value.name != _PAIR:
        raise _fault("a value that is no pair")
    return _number(value.fields.get("key")), _number(value.fields.get("value"))


def _number(value: Any) -> int:
    found = value.fields.get("value") if isinstance(value, _Object) else None
    if not isinstance(found, int) or value.name != _NUMBER:
        raise _fault("a position or a size that is no number")
    return found


def _fault(got: str) -> FormatError:
    return FormatError(
        "the manifest is no map of Java", got=got,
        expected="names with a position and a size",
    )  # fmt: skip


class _Stream:
    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0
        self.handles: list[Any] = []

    def bytes(self, size: int) -> bytes:
        found = bytes(self.data[self.at : self.at + size])
        self.at += size
        if len(found) < size:
            raise _fault("the start of the stream" if size == 4 else "its end")
        return found

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.bytes(struct.calcsize(form)))[0]

    def text(self) -> str:
        try:
            return self.bytes(self.number(">H")).decode()
        except UnicodeDecodeError as error:
            raise _fault("a text that is not UTF-8") from error

    def value(self, depth: int = 0) -> Any:
        """The next object, text or None."""
        kind = self.number("B")
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            return self.reference()
        if kind == _TEXT:
            self.handles.append(self.text())
            return self.handles[-1]
        if kind != _OBJECT or depth > _MAX_DEPTH:
            raise _fault(f"an object of kind {kind}")
        return self.object(depth)

    def reference(self) -> Any:
        place = self.number(">i") - _FIRST_HANDLE
        if not 0 <= place < len(self.handles):
            raise _fault("a reference to nothing")
        return self.handles[place]

    def object(self, depth: int) -> _Object:
        found = self.class_of(depth)
        if found is None:
            raise _fault("an object without class")
        made = _Object(found.name, {}, [])
        self.handles.append(made)
        chain: list[_Class] = []
        each: _Class | None = found
        while each is not None:
            chain.append(each)
            each = each.parent
        for one in reversed(chain):
            if one.flags & ~(_HAS_CODE | _HAS_FIELDS):
                raise _fault(f"an object of class {one.name}")
            for kind, name in one.fields:
                form = _PRIMITIVES.get(kind)
                made.fields[name] = self.number(form) if form else self.value(depth + 1)
            if one.flags & _HAS_CODE:
                made.content.extend(self.content(depth))
        return made

    def content(self, depth: int) -> list[Any]:
        found: list[Any] = []
        while self.data[self.at : self.at + 1] != bytes([_END]):
            if self.data[self.at : self.at + 1] == bytes([_BLOCK]):
                self.at += 1
                found.append(self.bytes(self.number("B")))
            else:
                found.append(self.value(depth + 1))
        self.at += 1
        return found

    def class_of(self, depth: int) -> _Class | None:
        kind = self.number("B")
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            found = self.reference()
            if not isinstance(found, _Class):
                raise _fault("a reference to no class")
            return found
        if kind != _CLASS or depth > _MAX_CLASSES:
            raise _fault(f"a class of kind {kind}")
        name = self.text()
        self.bytes(8)
        place = len(self.handles)
        self.handles.append(None)
        flags = self.number("B")
        fields = [self.field(depth) for _ in range(self.number(">H"))]
        self.content(depth)
        made = _Class(name, flags, tuple(fields), self.class_of(depth + 1))
        self.handles[place] = made
        return made

    def field(self, depth: int) -> tuple[str, str]:
        kind, name = chr(self.number("B")), self.text()
        if kind not in _PRIMITIVES:
            self.value(depth + 1)  # the name of its class
        return kind, name
