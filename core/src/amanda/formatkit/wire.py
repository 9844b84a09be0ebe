"""The wire format of protobuf, one field at a time.

A reader can walk a mapped file of any size without message objects and look only at the
fields that it needs; a writer frames what is already encoded. Every length is checked
against the bytes that exist, so a hostile file costs no more than its own size.

A field is a key (number and wire type) and its value: a varint, 4 or 8 bytes, or a
length and as many bytes. A varint has seven bits per byte, lowest first; the top bit
states that more bytes follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NoReturn

from amanda.errors import AmandaError, FormatError

__all__ = [
    "BYTES",
    "FIXED32",
    "FIXED64",
    "VARINT",
    "Buffer",
    "encode_field",
    "iter_fields",
    "encode_key",
    "locate_error",
    "pack_varints",
    "unpack_varints",
    "unzigzag",
    "encode_varint",
    "decode_varint",
    "zigzag",
]

Buffer = bytes | memoryview

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_KINDS = {VARINT: "a varint", FIXED64: "8 bytes", BYTES: "a length", FIXED32: "4 bytes"}
_LAST_NUMBER = (1 << 29) - 1
_MASK = (1 << 64) - 1

_ONE = tuple(bytes([i]) for i in range(128))  # the usual varints


# -- writing ---------------------------------------------------------------------


def encode_varint(value: int) -> bytes:
    """Encode an unsigned integer of at most 64 bits.

    >>> encode_varint(1), encode_varint(300)
    (b'\\x01', b'\\xac\\x02')
    """
    if 0 <= value < 128:
        return _ONE[value]
    if not 0 <= value <= _MASK:
        raise FormatError(
            "a number does not fit a varint",
            expected="0 to 2**64 - 1",
            got=f"an int of {value.bit_length()} bits" if value > 0 else value,
        )
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> int:
    """Zigzag-encode a signed number: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return value << 1 if value >= 0 else ~(value << 1)


def unzigzag(value: int) -> int:
    """The signed number of a zigzag-encoded one."""
    return value >> 1 ^ -(value & 1)


def encode_key(number: int, kind: int) -> bytes:
    """The key of a field: its number and wire type."""
    return encode_varint(number << 3 | kind)


def encode_field(number: int, payload: bytes) -> bytes:
    """A complete field with a length: a string, a message or packed numbers."""
    return encode_key(number, BYTES) + encode_varint(len(payload)) + payload


def pack_varints(values: Iterable[int]) -> bytes:
    """The content of a packed repeated field of varints."""
    numbers = values if type(values) is list else list(values)
    try:
        raw = bytes(numbers)
    except ValueError:  # a value of more than a byte
        return b"".join(map(encode_varint, numbers))
    return raw if raw.isascii() else b"".join(map(encode_varint, numbers))


# -- reading ---------------------------------------------------------------------


def decode_varint(data: Buffer, pos: int, stop: int, base: int = 0) -> tuple[int, int]:
    """Decode the varint at `pos`; returns the number and the position after it.

    `base` is the position of `data` in the file, for errors.
    """
    if pos < stop and data[pos] < 128:  # the usual case
        return data[pos], pos + 1
    value = shift = 0
    for at in range(pos, min(stop, pos + 10)):
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            if value > _MASK:
                _raise_at("a number of more than 64 bits", base + pos)
            return value, at + 1
        shift += 7
    short = stop - pos < 10
    cause = "it ends inside a number" if short else "a number of more than 10 bytes"
    raise FormatError(cause, where=f"byte {base + pos}")


def unpack_varints(data: Buffer, pos: int, stop: int, base: int = 0) -> list[int]:
    """Decode the varints between two positions."""
    values = []
    while pos < stop:
        value = data[pos]
        if value < 128:
            pos += 1
        else:
            value, pos = decode_varint(data, pos, stop, base)
        values.append(value)
    return values


def iter_fields(
    data: Buffer, pos: int = 0, stop: int | None = None, base: int = 0
) -> Iterator[tuple[int, int, int, int]]:
    """Iterate over fields as (number, wire type, start, end) of their values.

    >>> raw = encode_key(1, VARINT) + encode_varint(300) + encode_field(2, b"ab")
    >>> [*iter_fields(raw)]
    [(1, 0, 1, 3), (2, 2, 5, 7)]
    """
    stop = len(data) if stop is None else stop
    while pos < stop:
        place = pos
        tag = data[pos]
        if tag < 128:  # the usual case, as below
            pos += 1
        else:
            tag, pos = decode_varint(data, pos, stop, base)
        number, kind = tag >> 3, tag & 7
        if not 0 < number <= _LAST_NUMBER:
            _raise_at(f"no field can have the number {number}", base + place)
        start = pos
        if kind == BYTES:
            if pos < stop and data[pos] < 128:
                start += 1
                pos = start + data[pos]
            else:
                size, start = decode_varint(data, pos, stop, base)
                pos = start + size
        elif kind == VARINT:
            _, pos = decode_varint(data, pos, stop, base)
        elif kind == FIXED64:
            pos += 8
        elif kind == FIXED32:
            pos += 4
        else:
            _raise_at(f"field {number} has the unknown kind {kind}", base + place)
        if pos > stop:
            _raise_truncated(number, pos - start, stop - start, base + place)
        yield number, kind, start, pos


def locate_error(error: Exception, place: str) -> FormatError:
    """A FormatError like the error, with a position, unless it has the byte already.

    Also converts errors of inline decoding: IndexError for a reference out of range,
    UnicodeDecodeError for invalid strings.
    """
    if isinstance(error, AmandaError):
        kind = type(error) if isinstance(error, FormatError) else FormatError
        made = kind(error.message, problems=error.problems)
        made.who, made.hint = error.who, error.hint
        made.expected, made.got = error.expected, error.got
        made.where = place if error.where is None else f"{place}, {error.where}"
        if kind is type(error) and (error.where or "").startswith("byte "):
            made.where = error.where
        return made
    if isinstance(error, UnicodeDecodeError):
        return FormatError("a text is not UTF-8", where=place)
    return FormatError("a reference to something that is not there", where=place)


def _raise_truncated(number: int, claimed: int, there: int, place: int) -> NoReturn:
    _raise_at(
        f"field {number} reaches beyond the end of what holds it",
        place,
        expected=f"{claimed} bytes",
        got=f"{max(there, 0)} bytes",
    )


def _raise_at(
    message: str, place: int, expected: str | None = None, got: str | None = None
) -> NoReturn:
    where = f"byte {place}"
    raise FormatError(message, where=where, expected=expected, got=got)
