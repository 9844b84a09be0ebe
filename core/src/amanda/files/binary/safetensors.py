"""The safetensors layout: a JSON header that names tensors, then their bytes.

The header is fully checked when a file is opened; the data is not read. Tensors are
contiguous, those whose length is a multiple of 64 bytes first, then those of 32, and so
on. So without padding every tensor begins at a multiple of its item size, and all but
a few small ones at a multiple of 64 bytes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn

from amanda.errors import FormatError, LimitError
from amanda.tensors import FileMap, Tensor, blocks_ahead

__all__ = [
    "BITS", "StoredWeight", "encode_header", "parse_header", "read_safetensors",
    "stored_type", "write_safetensors",
]  # fmt: skip

ALIGNMENT: Final = 64
_MOST_HEADER = 100_000_000  # the limit of the safetensors library
_ENTRY = {"dtype", "shape", "data_offsets"}

# dtypes that every version of the library supports, by our names
_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
BITS: Final = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32,
    "U64": 64, "I64": 64, "F16": 16, "BF16": 16, "F32": 32, "F64": 64,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "C64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
"""The size of an item of each dtype that the library knows."""


class StoredWeight(NamedTuple):
    """A tensor of the file: `data[start:stop]`, relative to the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def stored_type(dtype: str, shape: Sequence[int], size: int) -> tuple[str, list[int]]:
    """Dtype and shape in the layout; bytes where it lacks the dtype.

    >>> stored_type("float32", (2, 3), 24), stored_type("int4", (3,), 2)
    (('F32', [2, 3]), ('U8', [2]))
    """
    name = _NAMES.get(dtype)
    return (name, list(shape)) if name else ("U8", [size])


# -- writing ---------------------------------------------------------------------


def encode_header(
    tensors: Mapping[str, tuple[str, Sequence[int], int]],
) -> tuple[bytes, list[str]]:
    """The header for tensors given as (dtype, shape, bytes), and the order of the data.

    It is padded so that the data after it is aligned.
    """
    order = sorted(tensors, key=lambda key: -_alignment(tensors[key][2]))
    entries: dict[str, Any] = {}
    at = 0
    for key in order:
        dtype, shape, size = tensors[key]
        name, dims = stored_type(dtype, shape, size)
        entries[key] = {"dtype": name, "shape": dims, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    if len(text) > _MOST_HEADER:
        raise LimitError(
            "more weights than a safetensors header can name",
            expected=f"at most {_MOST_HEADER} bytes",
            got=f"{len(text)} bytes",
        )
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text, order


def write_safetensors(tensors: Mapping[str, Tensor], file: BinaryIO) -> None:
    """Write tensors by name; their data is copied in blocks."""
    for name, tensor in tensors.items():
        if str(tensor.dtype) not in _NAMES:
            raise FormatError(
                "safetensors has no such element type", who=name, got=str(tensor.dtype)
            )
    header, order = encode_header(
        {name: (str(t.dtype), t.shape, t.nbytes) for name, t in tensors.items()}
    )
    file.write(header)
    for blocks in blocks_ahead(tensors[name] for name in order):
        file.writelines(blocks)


def _alignment(size: int) -> int:
    """The largest power of two, up to 64, of which `size` is a multiple."""
    return min(size & -size, ALIGNMENT) or ALIGNMENT


# -- reading ---------------------------------------------------------------------


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a file by name; their elements stay in it."""
    file = FileMap.read(path)
    entries, base = parse_header(file.view())
    names = {stored: name for name, stored in _NAMES.items()}
    found = {}
    for key, entry in entries.items():
        if entry.dtype not in names:
            _bad(f"{key!r} has the unknown dtype {entry.dtype}", "its header")
        start = base + entry.start
        found[key] = Tensor.from_file(file, names[entry.dtype], entry.shape, start)
    return found


def parse_header(
    data: memoryview, base: int = 0
) -> tuple[dict[str, StoredWeight], int]:
    """The tensors, and the position of their data; checked against `data`.

    `base` is the position of `data` in the file, for errors.
    """
    if len(data) < 8:
        _bad("too short for a safetensors header", f"byte {base}")
    size = int.from_bytes(data[:8], "little")
    if size > min(_MOST_HEADER, len(data) - 8):
        raise LimitError(
            "the safetensors header exceeds its limit",
            where=f"byte {base}",
            expected=f"at most {min(_MOST_HEADER, len(data) - 8)} bytes",
            got=f"{size} bytes",
        )
    entries = _parse_entries(bytes(data[8 : 8 + size]), base + 8)
    found = {key: _parse_weight(key, entry) for key, entry in entries.items()}
    _check_coverage(found, len(data) - 8 - size)
    return found, 8 + size


def _parse_entries(text: bytes, place: int) -> dict[str, Any]:
    try:
        entries = json.loads(text.decode(), object_pairs_hook=_unique_keys)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        cause = "nested too deep" if isinstance(error, RecursionError) else str(error)
        _bad(f"the safetensors header is not JSON: {cause}", f"byte {place}")
    if type(entries) is not dict:
        _bad("the safetensors header is not a JSON object", f"byte {place}")
    entries.pop("__metadata__", None)
    return entries


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            _bad(f"the safetensors header has {key!r} twice", "its header")
        found[key] = value
    return found


def _parse_weight(key: str, entry: Any) -> StoredWeight:
    where = f"weight {key!r}"
    if type(entry) is not dict or set(entry) != _ENTRY:
        _bad("an entry of the safetensors header lacks a part", where)
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if type(dtype) is not str or dtype not in BITS:
        _bad(f"unknown safetensors dtype {dtype!r}", where)
    if not _are_offsets(shape) or not _are_offsets(offsets) or len(offsets) != 2:
        _bad("shape and offsets must be whole numbers", where)
    start, stop = offsets
    if math.prod(shape) * BITS[dtype] != (stop - start) * 8:
        _bad(
            "the data of a weight does not have the length of its shape",
            where,
            expected=f"{math.prod(shape) * BITS[dtype] // 8} bytes",
            got=f"{stop - start} bytes",
        )
    return StoredWeight(dtype, tuple(shape), start, stop)


def _are_offsets(values: Any) -> bool:
    return (
        type(values) is list
        and len(values) <= 64  # no tensor has more dims; products stay bounded
        and all(type(value) is int and 0 <= value < 1 << 63 for value in values)
    )


def _check_coverage(found: Mapping[str, StoredWeight], size: int) -> None:
    """Check that every byte of the data belongs to exactly one weight."""
    at = 0
    for key, weight in sorted(found.items(), key=lambda item: (item[1][2:], item[0])):
        if weight.start != at:
            kind = (
                "overlaps another" if weight.start < at else "leaves a hole before it"
            )
            _bad(f"the data {kind}", f"weight {key!r}")
        at = weight.stop
    if at != size:
        _bad(
            "the weights do not fill their file",
            "the safetensors header",
            expected=f"{at} bytes of data",
            got=f"{size} bytes",
        )


def _bad(
    message: str, where: str, expected: str | None = None, got: str | None = None
) -> NoReturn:
    raise FormatError(message, where=where, expected=expected, got=got)
