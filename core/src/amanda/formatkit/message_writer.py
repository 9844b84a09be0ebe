"""Messages to be written: small ones as bytes, large ones as chunks with tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from amanda.errors import FormatError
from amanda.formatkit.wire import BYTES, encode_varint, iter_fields
from amanda.tensors import Tensor, blocks_ahead

if TYPE_CHECKING:
    from amanda.formatkit.proto_schema import FieldCodec

__all__ = ["MessageChunks", "MessageWriter"]


class MessageWriter:
    """One message, field by field; `ProtoSchema.writer` creates it."""

    __slots__ = ("_fields", "_parts")

    def __init__(self, fields: Mapping[str, FieldCodec]) -> None:
        self._fields = fields
        self._parts: list[bytes] = []

    def put(self, name: str, value: Any) -> MessageWriter:
        """Append a field; nothing for None. A message is given as its bytes."""
        if value is not None:
            codec = self._fields[name]
            raw = codec.encode(value)
            if codec.wire == BYTES:
                self._parts += (codec.tag, encode_varint(len(raw)), raw)
            else:
                self._parts += (codec.tag, raw)
        return self

    def put_if(self, name: str, value: Any) -> MessageWriter:
        """Append a field unless the value is empty, zero or None."""
        return self.put(name, value) if value else self

    def put_all(self, name: str, values: Iterable[Any]) -> MessageWriter:
        """Append a repeated field, packed where the schema says so."""
        codec = self._fields[name]
        if codec.packed and not codec.located:
            raw = b"".join(map(codec.encode, values))
            if raw:
                self._parts += (codec.packed_tag, encode_varint(len(raw)), raw)
            return self
        for value in values:
            self.put(name, value)
        return self

    def put_raw(self, fields: bytes) -> MessageWriter:
        """Append encoded fields, such as those that `read` did not know."""
        self._parts.append(fields)
        return self

    def put_unknown(self, fields: bytes) -> MessageWriter:
        """Append encoded fields that the schema does not have; raises for others."""
        known = {codec.number for codec in self._fields.values()} if fields else ()
        for number, _, start, _ in iter_fields(fields) if fields else ():
            if number in known:
                raise FormatError(
                    f"the recorded fields include {number}, which the format writes",
                    where=f"byte {start}",
                )
        return self.put_raw(fields)

    def done(self) -> bytes:
        """The bytes of the message."""
        return b"".join(self._parts)


class MessageChunks:
    """A message as bytes, and tensors in place of their packed bytes.

    A message's length precedes its content, so all lengths are known before the first
    byte is written, and no tensor is held in memory for that.
    """

    __slots__ = ("parts", "size")

    def __init__(self, *parts: bytes) -> None:
        self.parts: list[bytes | Tensor] = list(parts)
        self.size = sum(map(len, parts))

    def append(self, raw: bytes) -> None:
        """Append encoded fields."""
        if raw:
            self.parts.append(raw)
            self.size += len(raw)

    def append_message(self, tag: bytes, inner: MessageChunks) -> None:
        """Append a message as a field."""
        self.append(tag + encode_varint(inner.size))
        self.parts += inner.parts
        self.size += inner.size

    def append_tensor(self, tag: bytes, tensor: Tensor) -> None:
        """Append the packed bytes of a tensor as a field."""
        self.append(tag + encode_varint(tensor.nbytes))
        self.parts.append(tensor)
        self.size += tensor.nbytes

    def write(self, file: BinaryIO) -> None:
        """Write the message; the data of each tensor passes through in blocks."""
        tensors = blocks_ahead(p for p in self.parts if not isinstance(p, bytes))
        for part in self.parts:
            if isinstance(part, bytes):
                file.write(part)
            else:
                file.writelines(next(tensors))
