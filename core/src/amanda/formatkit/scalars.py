"""How values of each protobuf type are read and written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

from amanda.errors import FormatError
from amanda.files.mapped_file import MappedFile
from amanda.formatkit.wire import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Buffer,
    decode_varint,
    encode_varint,
    unzigzag,
    zigzag,
)

__all__ = [
    "ENUM",
    "MESSAGE",
    "SCALARS",
    "Scalar",
    "Span",
    "decode_utf8",
    "encode_utf8",
    "join_spans",
    "raise_at",
    "to_signed",
]

Span = tuple[int, int]
"""Where bytes are: (start, stop)."""

_SIGN, _WRAP = 1 << 63, 1 << 64
_MASK: Final = _WRAP - 1


class Scalar(NamedTuple):
    """A type: `decode(data, start, stop, base)` reads a value, `encode` writes one.

    `convert` makes a value of a varint, None where the number is the value.
    """

    wire: int
    decode: Callable[[Buffer, int, int, int], Any]
    encode: Callable[[Any], bytes]
    convert: Callable[[int], Any] | None = None


def raise_at(message: str, position: int, **details: Any) -> NoReturn:
    """Raise FormatError for what is at a byte of the file."""
    raise FormatError(message, where=f"byte {position}", **details)


def to_signed(value: int) -> int:
    """The int64 of a varint.

    >>> to_signed((1 << 64) - 1)
    -1
    """
    return value - _WRAP if value >= _SIGN else value


def join_spans(data: Buffer, spans: list[Span]) -> Buffer:
    """All bytes of the spans; a single one is not copied.

    FormatError if the data is a mapped file that was written to."""
    file = MappedFile.of(data) if isinstance(data, memoryview) else None
    if file is not None:
        file.check()
    if len(spans) == 1:
        return data[spans[0][0] : spans[0][1]]
    return b"".join([bytes(data[start:end]) for start, end in spans])


def decode_utf8(data: Buffer, start: int, stop: int, base: int = 0) -> str:
    """A string; FormatError where the bytes are not UTF-8."""
    try:
        return str(data[start:stop], "utf-8")
    except UnicodeDecodeError as error:
        raise_at("a string is not UTF-8", base + start + error.start)


def encode_utf8(value: str) -> bytes:
    """The bytes of a string; FormatError for lone surrogates."""
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise FormatError(
            "a string with half of a surrogate pair cannot be written as UTF-8",
            got=repr(value),
        ) from error


def _encode_bytes(value: Any) -> bytes:
    return encode_utf8(value) if isinstance(value, str) else value


def _encode_int(value: int) -> bytes:
    if not -_SIGN <= value < _WRAP:
        raise FormatError("an integer of more than 64 bits", got=value)
    return encode_varint(value & _MASK)


def _decode_uint(data: Buffer, start: int, stop: int, base: int) -> int:
    return decode_varint(data, start, stop, base)[0]


def _varint_scalar(
    convert: Callable[[int], Any], encode: Callable[[Any], bytes]
) -> Scalar:
    def decode(data: Buffer, start: int, stop: int, base: int) -> Any:
        return convert(decode_varint(data, start, stop, base)[0])

    return Scalar(VARINT, decode, encode, convert)


def _fixed_scalar(wire: int, code: str) -> Scalar:
    layout = struct.Struct(f"<{code}")

    def decode(data: Buffer, start: int, _stop: int, _base: int) -> Any:
        return layout.unpack_from(data, start)[0]

    return Scalar(wire, decode, layout.pack)


_SIGNED: Final = _varint_scalar(to_signed, _encode_int)
_UNSIGNED: Final = Scalar(VARINT, _decode_uint, encode_varint)
_ZIGZAG: Final = _varint_scalar(unzigzag, lambda value: encode_varint(zigzag(value)))

ENUM: Final = _SIGNED
MESSAGE: Final = Scalar(
    BYTES, lambda _data, start, stop, _base: (start, stop), _encode_bytes
)
"""Read as the span of the bytes; written as bytes."""

SCALARS: Final[dict[str, Scalar]] = {
    "int32": _SIGNED,
    "int64": _SIGNED,
    "uint32": _UNSIGNED,
    "uint64": _UNSIGNED,
    "sint32": _ZIGZAG,
    "sint64": _ZIGZAG,
    "bool": _varint_scalar(bool, lambda value: encode_varint(bool(value))),
    "fixed32": _fixed_scalar(FIXED32, "I"),
    "fixed64": _fixed_scalar(FIXED64, "Q"),
    "sfixed32": _fixed_scalar(FIXED32, "i"),
    "sfixed64": _fixed_scalar(FIXED64, "q"),
    "float": _fixed_scalar(FIXED32, "f"),
    "double": _fixed_scalar(FIXED64, "d"),
    "string": Scalar(BYTES, decode_utf8, _encode_bytes),
    "bytes": MESSAGE,
}
