"""Decompression of Snappy, which index files may use."""

from __future__ import annotations

from amanda.errors import FormatError
from amanda.formatkit import decode_varint

__all__ = ["decompress_snappy"]


def decompress_snappy(data: memoryview, limit: int) -> bytes:
    """The content of a compressed block of at most `limit` bytes.

    >>> decompress_snappy(memoryview(bytes([7, 4, 97, 98, 5, 2])), 100)
    b'abababa'
    """
    size, at = decode_varint(data, 0, len(data))
    if size > limit:
        raise FormatError(
            "a compressed block is too large", expected=f"{limit} bytes", got=size
        )
    out = bytearray()
    while at < len(data):
        tag = data[at]
        if tag & 3 == 0:
            length, at = _literal_length(data, tag, at)
            out += data[at : at + length]
            at += length
        else:
            length, offset, at = _copy_parts(data, tag, at)
            _copy(out, length, offset)
        if len(out) > size:
            break
    if len(out) != size:
        raise FormatError(
            "a compressed block has another size than it states",
            expected=size, got=len(out),
        )  # fmt: skip
    return bytes(out)


def _literal_length(data: memoryview, tag: int, at: int) -> tuple[int, int]:
    """The length of a literal, and where its bytes begin."""
    length, at = tag >> 2, at + 1
    if length >= 60:
        width = length - 59
        length, at = int.from_bytes(data[at : at + width], "little"), at + width
    return length + 1, at


def _copy_parts(data: memoryview, tag: int, at: int) -> tuple[int, int, int]:
    """Length and offset of a copy, and the position behind it."""
    width = (0, 1, 2, 4)[tag & 3]
    offset = int.from_bytes(data[at + 1 : at + 1 + width], "little")
    if width == 1:
        return (tag >> 2 & 7) + 4, offset | tag >> 5 << 8, at + 2
    return (tag >> 2) + 1, offset, at + 1 + width


def _copy(out: bytearray, length: int, offset: int) -> None:
    """Append bytes from `offset` before the end; they may overlap those appended."""
    if not 0 < offset <= len(out):
        raise FormatError("a compressed block refers to bytes before its start")
    part = out[-offset:]
    out += (part * (length // offset + 1))[:length]
