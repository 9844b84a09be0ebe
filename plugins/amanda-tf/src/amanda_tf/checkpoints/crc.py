"""CRC-32C, masked: a checksum of data that contains checksums would be weak."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from amanda.errors import FormatError

__all__ = ["crc_of", "expect_crc", "mask_crc"]

_DELTA: Final = 0xA282EAD8
_MASK: Final = 0xFFFFFFFF
_BLOCK: Final = 1 << 20


def crc_of(parts: Iterable[bytes | memoryview], crc: int = 0) -> int:
    """The CRC-32C of some bytes, after those with the value `crc`.

    >>> hex(crc_of([b"1234", b"56789"]))
    '0xe3069283'
    """
    from google_crc32c import extend

    for part in parts:
        for start in range(0, len(part), _BLOCK):
            crc = extend(crc, bytes(part[start : start + _BLOCK]))
    return crc


def mask_crc(crc: int) -> int:
    """The value that files have for a CRC."""
    return ((crc >> 15 | crc << 17) + _DELTA) & _MASK


def expect_crc(
    parts: Iterable[bytes | memoryview], masked: int, what: str, who: str, position: int
) -> None:
    """Raise FormatError unless the bytes have this masked CRC."""
    found = mask_crc(crc_of(parts))
    if found != masked:
        raise FormatError(
            f"the checksum of {what} is wrong, so the file is damaged",
            who=who, where=f"byte {position}",
            expected=f"{masked:#010x}", got=f"{found:#010x}",
        )  # fmt: skip
