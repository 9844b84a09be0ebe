"""Messages as dataclasses, for formats whose messages are small and many.

The fields of a class are those of the message of the same name. A message without a
class is a span when read and bytes when written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from amanda.formatkit.proto_schema import FieldCodec, ProtoSchema, read_packed
from amanda.formatkit.wire import BYTES, Buffer, encode_varint, iter_fields

__all__ = ["RecordCodec"]

Record = TypeVar("Record")
_Decode = Callable[[Buffer, int, int, int], Any]


class RecordCodec:
    """Reads and writes dataclasses as the messages of a `.proto` file.

    The file is parsed at the first use.
    """

    def __init__(self, proto: Path, classes: Iterable[type[Any]]) -> None:
        self.proto = proto
        self.classes = {kind.__name__: kind for kind in classes}
        self._schema: ProtoSchema | None = None
        self._readers: dict[str, dict[int, tuple[FieldCodec, _Decode]]] = {}

    @property
    def schema(self) -> ProtoSchema:
        if self._schema is None:
            self._schema = ProtoSchema.load(self.proto)
        return self._schema

    def read(
        self, kind: type[Record], data: Buffer, pos: int, stop: int, base: int = 0
    ) -> Record:
        """The message between two positions; unknown fields are ignored."""
        record = kind()
        name = kind.__name__
        readers = self._readers.get(name) or self._compile_readers(name)
        for number, wire, start, end in iter_fields(data, pos, stop, base):
            if number not in readers:
                continue
            codec, decode = readers[number]
            if wire != codec.wire:
                values = read_packed(name, codec, wire, data, (start, end), base)
                getattr(record, codec.name).extend(values)
                continue
            value = decode(data, start, end, base)
            if codec.repeated:
                getattr(record, codec.name).append(value)
            else:
                setattr(record, codec.name, value)
        return record

    def _compile_readers(self, name: str) -> dict[int, tuple[FieldCodec, _Decode]]:
        fields = self.schema[name].fields
        readers = self._readers[name] = {}
        for number, codec in self.schema.codecs[name].items():
            inner = self.classes.get(fields[codec.name].type)
            decode = codec.decode if inner is None else partial(self.read, inner)
            readers[number] = codec, decode
        return readers

    def write(self, record: Any) -> bytes:
        """A message as bytes: fields by number, defaults left out."""
        name = type(record).__name__
        fields = self.schema[name].fields
        parts: list[bytes] = []
        for codec in self.schema.codecs[name].values():
            value = getattr(record, codec.name)
            field = fields[codec.name]
            if value is None or (not value and not (field.optional or field.oneof)):
                continue
            encode = self.write if field.type in self.classes else codec.encode
            if codec.packed:
                raw = b"".join(map(encode, value))
                parts += (codec.packed_tag, encode_varint(len(raw)), raw)
                continue
            for item in value if codec.repeated else (value,):
                raw = encode(item)
                size = encode_varint(len(raw)) if codec.wire == BYTES else b""
                parts += (codec.tag, size, raw)
        return b"".join(parts)
