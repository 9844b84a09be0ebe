"""FlatBuffers as nested dicts, by a schema, and back.

A table is a dict of the fields that are present; a vector of numbers is a list, one of
bytes a memoryview on the file. Every position is checked against the size of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from amanda.errors import FormatError, LimitError
from amanda_nd4j.samediff.schema import SCALARS, Schema

__all__ = ["FlatTable", "count_slots", "read_root", "write_root"]

FlatTable: TypeAlias = dict[str, Any]
_MOST_FIELDS: Final = 4
"""How many times the size of a file its tables, read several times, may have."""


def read_root(data: memoryview, schema: Schema, table: str) -> FlatTable:
    """The root table of a buffer; FormatError for one that is damaged."""
    reader = _Reader(data, schema)
    return reader.table(table, reader.offset(0))


def count_slots(data: memoryview, path: Sequence[int]) -> int | None:
    """The number of slots of the first table at the end of a path of vectors."""
    reader = _Reader(data, {})
    position = reader.offset(0)
    for slot in path:
        at = reader.slot(position, slot)
        if not at:
            return None
        start, size = reader.vector(position + at, 4)
        if not size:
            return None
        position = reader.offset(start)
    return reader.slots(position)


class _Reader:
    def __init__(self, data: memoryview, schema: Schema) -> None:
        self.data = data
        self.schema = schema
        self.left = _MOST_FIELDS * len(data) + 1024

    def unpack(self, code: str, position: int) -> Any:
        size = struct.calcsize(f"<{code}")
        if not 0 <= position <= len(self.data) - size:
            raise self._damage(position, f"{size} bytes")
        return struct.unpack_from(f"<{code}", self.data, position)[0]

    def _damage(self, position: int, expected: str) -> FormatError:
        return FormatError(
            "the FlatBuffer is damaged", where=f"byte {position}",
            expected=f"{expected} within {len(self.data)} bytes",
            got="a position outside",
        )  # fmt: skip

    def offset(self, position: int) -> int:
        """The position that the offset at a position leads to."""
        return position + int(self.unpack("I", position))

    def _layout(self, table: int) -> tuple[int, int]:
        start = table - int(self.unpack("i", table))
        size = int(self.unpack("H", start))
        if size < 4:
            raise self._damage(start, "a list of fields")
        return start, size

    def slots(self, table: int) -> int:
        return (self._layout(table)[1] - 4) // 2

    def slot(self, table: int, number: int) -> int:
        """Where a field is, from the start of its table; 0 where it is absent."""
        start, size = self._layout(table)
        at = 4 + 2 * number
        return int(self.unpack("H", start + at)) if at + 2 <= size else 0

    def vector(self, position: int, item: int) -> tuple[int, int]:
        """The first item of a vector, and the number of items."""
        start = self.offset(position)
        size = int(self.unpack("I", start))
        if start + 4 + size * item > len(self.data):
            raise self._damage(start, f"a vector of {size} items")
        self.left -= size * item
        if self.left < 0:
            raise LimitError(
                "the tables of a FlatBuffer share more data than it has",
                where=f"byte {start}",
            )
        return start + 4, size

    def table(self, name: str, position: int) -> FlatTable:
        found: FlatTable = {}
        self.left -= 8
        for number, (field, kind) in enumerate(self.schema[name]):
            at = self.slot(position, number)
            if at:
                found[field] = self._value(kind, position + at)
        fields = len(self.schema[name])
        for number in range(fields, self.slots(position)):
            if self.slot(position, number):
                raise FormatError(
                    f"a {name} has a field that is not known", where=f"slot {number}",
                    expected=f"the {fields} fields of the schema",
                    hint="the file is of a newer version of SameDiff",
                )  # fmt: skip
        return found

    def _value(self, kind: str, position: int) -> Any:
        if kind.startswith("["):
            return self._items(kind[1:-1], position)
        if kind in SCALARS:
            return self.unpack(SCALARS[kind].replace("?", "b"), position)
        if kind == "string":
            return self._text(position)
        return self.table(kind, self.offset(position))

    def _items(self, kind: str, position: int) -> Any:
        if kind == "int8":
            start, size = self.vector(position, 1)
            return self.data[start : start + size]
        if kind in SCALARS:
            code = SCALARS[kind].replace("?", "b")
            start, size = self.vector(position, struct.calcsize(f"<{code}"))
            found = struct.unpack_from(f"<{size}{code}", self.data, start)
            return [bool(v) for v in found] if kind == "bool" else list(found)
        start, size = self.vector(position, 4)
        return [self._value(kind, start + 4 * i) for i in range(size)]

    def _text(self, position: int) -> str:
        start, size = self.vector(position, 1)
        try:
            return bytes(self.data[start : start + size]).decode()
        except UnicodeDecodeError as error:
            raise FormatError(
                "a text of the FlatBuffer is not UTF-8", where=f"byte {start}"
            ) from error


# -- writing ---------------------------------------------------------------------------


def write_root(found: Mapping[str, Any], schema: Schema, table: str) -> bytes:
    """A buffer with this root table."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.ForceDefaults(True)
    writer = _Writer(builder, schema)
    builder.Finish(writer.table(table, found))
    return bytes(builder.Output())


class _Writer:
    def __init__(self, builder: Any, schema: Schema) -> None:
        self.builder = builder
        self.schema = schema

    def table(self, name: str, found: Mapping[str, Any]) -> int:
        fields = self.schema[name]
        offsets = {
            field: self._offset(kind, found[field])
            for field, kind in fields
            if field in found and kind not in SCALARS
        }
        self.builder.StartObject(len(fields))
        for number, (field, kind) in enumerate(fields):
            if field not in found:
                continue
            if kind in SCALARS:
                self._prepend(kind, number, found[field])
            else:
                self.builder.PrependUOffsetTRelativeSlot(number, offsets[field], 0)
        return int(self.builder.EndObject())

    def _prepend(self, kind: str, number: int, value: Any) -> None:
        name = f"Prepend{kind.title()}Slot"
        getattr(self.builder, name)(number, value, 0)

    def _offset(self, kind: str, value: Any) -> int:
        if kind == "string":
            return int(self.builder.CreateString(value))
        if not kind.startswith("["):
            return self.table(kind, value)
        item = kind[1:-1]
        if item == "int8":
            return int(self.builder.CreateByteVector(bytes(value)))
        if item in SCALARS:
            return self._numbers(item, value)
        offsets = [self._offset(item, each) for each in value]
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def _numbers(self, kind: str, values: Sequence[Any]) -> int:
        size = struct.calcsize(f"<{SCALARS[kind]}")
        self.builder.StartVector(size, len(values), size)
        prepend = getattr(self.builder, f"Prepend{kind.title()}")
        for value in reversed(values):
            prepend(value)
        return int(self.builder.EndVector())
