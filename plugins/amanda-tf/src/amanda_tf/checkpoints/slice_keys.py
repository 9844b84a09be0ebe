"""Keys of the slices of partitioned variables in a bundle.

They are encoded so that their order as bytes is that of name and place.
"""

from __future__ import annotations

from collections.abc import Sequence

from amanda.errors import FormatError

__all__ = ["Extent", "parse_slice_spec", "slice_key"]

Extent = tuple[int, int]
"""Start and length in one dim; the length is -1 for all of it."""


_ESCAPES = {0x00: b"\0\xff", 0xFF: b"\xff\0"}


def slice_key(name: str, extents: Sequence[Extent]) -> bytes:
    """The key of a slice of a tensor.

    >>> slice_key("w", [(0, 2), (0, -1)]).hex()
    '0077000101028082807f'
    """
    text = name.encode()
    out = bytearray(b"\0")
    out += b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in text) + b"\0\1"
    out += _encode_number(len(extents))
    for start, length in extents:
        out += _encode_signed(start) + _encode_signed(length)
    return bytes(out)


def _encode_number(value: int) -> bytes:
    size = -(-value.bit_length() // 8)
    return bytes([size]) + value.to_bytes(size, "big")


def _encode_signed(value: int) -> bytes:
    bits = (~value if value < 0 else value).bit_length()
    size = bits // 7 + 1
    if size == 1:
        return bytes([0x80 ^ value & 0xFF])
    # one bit for the sign, and one more for each byte after the first
    raw = (value & (1 << 80) - 1).to_bytes(10, "big")[-size:]
    header = ((1 << size) - 1) << (7 * size)
    return (int.from_bytes(raw, "big") ^ header).to_bytes(size, "big")


def parse_slice_spec(
    spec: str, who: str
) -> tuple[tuple[int, ...], list[Extent]] | None:
    """Shape of a variable and the slice of it that an op reads; None for all of it.

    >>> parse_slice_spec("10 4 0,5:-", "x")
    ((10, 4), [(0, 5), (0, -1)])
    """
    if not spec:
        return None
    *dims, places = spec.split(" ")
    try:
        shape = tuple(map(int, dims))
        extents = [_extent(text) for text in places.split(":")] if dims else []
    except ValueError:
        shape, extents = (), [(0, 0)]
    if len(extents) != len(shape):
        raise FormatError(
            "this is no slice of a variable", who=who,
            expected="the dims, then START,LENGTH or - for each", got=repr(spec),
        )  # fmt: skip
    return shape, extents


def _extent(text: str) -> Extent:
    if text == "-":
        return 0, -1
    start, _, length = text.partition(",")
    return int(start), int(length)
