"""The tensors of a bundle: an index, and files with their elements.

The index is read and checked at once. The elements stay in their files, and their
checksum is checked when a tensor is used the first time, so that loading a model does
not read all of its weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.errors import AmandaError, FormatError, LimitError
from amanda.formatkit import decode_varint, file_errors, is_missing_file_allowed
from amanda.tensors import FileMap, Tensor, check_shape, packed_size
from amanda.types import DType
from amanda_tf.checkpoints.crc import crc_of, expect_crc, mask_crc
from amanda_tf.checkpoints.slice_keys import Extent, slice_key
from amanda_tf.checkpoints.table import Table
from amanda_tf.messages import ELEMENT_TYPES
from amanda_tf.saved_messages import SAVED
from amanda_tf.tensors import read_shape

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["INDEX", "Bundle", "assemble", "data_path", "read_extents"]

INDEX: Final = ".index"
"""The suffix of the index; what is in front of it is the prefix of the bundle."""
_MAX_SHARDS: Final = 1 << 16
_UNREADABLE: Final = ("variant", "resource")


def data_path(prefix: str, shard: int, shards: int) -> str:
    """The file with the elements of a shard.

    >>> data_path("variables", 0, 1)
    'variables.data-00000-of-00001'
    """
    return f"{prefix}.data-{shard:05}-of-{shards:05}"


class Bundle(Mapping[str, Tensor]):
    """Tensors by their keys; `prefix` is the path of the index without its suffix."""

    def __init__(self, prefix: str | Path) -> None:
        self.prefix = str(prefix)
        self.index = self.prefix + INDEX
        self._files: dict[int, FileMap] = {}
        self._tensors: dict[str, Tensor] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._slices: dict[bytes, dict[str, Any]] = {}
        self._shards = 0
        with file_errors(self.index):
            for key, value in Table.open(self.index):
                try:
                    self._read_row(key, value)
                except AmandaError as error:
                    error.who = error.who or f"the entry {key!r}"
                    raise
        if not self._shards:
            raise FormatError("a bundle without a header", who=self.index)

    def _read_row(self, key: bytes, value: memoryview) -> None:
        if not key:
            header = SAVED.read("BundleHeaderProto", value)
            self._shards = header.get("num_shards", 0)
            if header.get("endianness"):
                raise FormatError("a bundle of a big-endian machine", who=self.index)
            if not 0 < self._shards <= _MAX_SHARDS:
                raise FormatError(
                    "the number of files of a bundle is out of range", who=self.index,
                    expected=f"1 to {_MAX_SHARDS}", got=self._shards,
                )  # fmt: skip
            return
        entry = SAVED.read("BundleEntryProto", value)
        at = entry.get("shape", (0, 0))
        entry["shape"] = read_shape(value, at)
        entry["slices"] = [
            read_extents(value, each) for each in entry.get("slices", ())
        ]
        if key.startswith(b"\0"):
            self._slices[key] = entry
            return
        try:
            self._entries[key.decode()] = entry
        except UnicodeDecodeError:
            raise FormatError(
                "a key that is not UTF-8", who=self.index, got=repr(key)
            ) from None

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        """The keys of all tensors that arrays can be."""
        return iter(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __getitem__(self, key: str) -> Tensor:
        """The tensor of a key, the same one each time."""
        found = self._tensors.get(key)
        if found is None:
            found = self._tensors[key] = self._read_tensor(key)
        return found

    def _read_tensor(self, key: str) -> Tensor:
        entry = self._entries[key]
        shape = check_shape(entry["shape"].dims)
        dtype = self._dtype(entry, key)
        if not entry["slices"]:
            return self._tensor(entry, key, shape)
        parts = [(e, self._slice(key, e, shape)) for e in entry["slices"]]
        return Tensor.lazy(
            lambda: assemble(parts, dtype, shape, f"{key!r} of {self.index}"),
            dtype, shape,
        )  # fmt: skip

    def is_readable(self, key: str) -> bool:
        """Whether the elements can be a tensor; variants cannot."""
        code = self._entries[key].get("dtype", 0)
        return code in ELEMENT_TYPES.dtypes and (
            ELEMENT_TYPES.dtypes[code].name not in _UNREADABLE
        )

    def _dtype(self, entry: Mapping[str, Any], key: str) -> DType:
        dtype = ELEMENT_TYPES.dtypes.get(entry.get("dtype", 0))
        if dtype is None or dtype.name in _UNREADABLE:
            raise FormatError(
                f"the tensor {key!r} has no elements that an array can have",
                who=self.index, got=f"element type {entry.get('dtype', 0)}",
            )  # fmt: skip
        return dtype

    def _slice(self, key: str, extents: Sequence[Extent], shape: Sequence[int]) -> Any:
        entry = self._slices.get(slice_key(key, extents))
        if entry is None or len(extents) != len(shape):
            raise FormatError(
                f"a slice of the tensor {key!r} is missing", who=self.index,
                got=f"start and length {list(extents)}",
            )  # fmt: skip
        lengths = [
            size if length < 0 else length
            for (_, length), size in zip(extents, shape, strict=True)
        ]
        return self._tensor(entry, key, check_shape(lengths))

    def _tensor(self, entry: Any, key: str, shape: tuple[int, ...]) -> Tensor:
        dtype = self._dtype(entry, key)
        shard = entry.get("shard_id", 0)
        path = data_path(self.prefix, shard, self._shards)
        is_missing = shard not in self._files and not Path(path).exists()
        if is_missing and is_missing_file_allowed(path):
            return _placeholder(dtype, shape, entry.get("size", 0), path)
        file = self._file(shard, key)
        offset, size = entry.get("offset", 0), entry.get("size", 0)
        if offset < 0 or size < 0 or offset + size > file.size:
            raise FormatError(
                f"the data of {key!r} is outside of its file", who=path,
                where=f"byte {offset}", expected=f"{size} bytes",
                got=f"{max(file.size - max(offset, 0), 0)} bytes",
            )  # fmt: skip
        part = _Part(file, offset, size, entry.get("crc32c", 0), key)
        if dtype.name == "string":
            if prod(shape) > size:
                raise LimitError(
                    f"{key!r} has more strings than bytes", who=path, got=prod(shape)
                )
            return Tensor.lazy(lambda: _read_strings(part, shape), dtype, shape)
        if packed_size(dtype, shape) != size or dtype.bits < 8:
            raise FormatError(
                f"the data of {key!r} does not fit its shape", who=self.index,
                expected=f"{packed_size(dtype, shape)} bytes for {dtype}{list(shape)}",
                got=f"{size} bytes",
            )  # fmt: skip
        return Tensor.lazy(_ArrayReader(part, dtype, shape), dtype, shape)

    def _file(self, shard: int, key: str) -> FileMap:
        if not 0 <= shard < self._shards:
            raise FormatError(
                f"the tensor {key!r} is in a file that does not exist", who=self.index,
                expected=f"a number below {self._shards}", got=shard,
            )  # fmt: skip
        if shard not in self._files:
            self._files[shard] = FileMap.of(data_path(self.prefix, shard, self._shards))
        return self._files[shard]


def _placeholder(dtype: DType, shape: tuple[int, ...], size: int, path: str) -> Tensor:
    """Zeros, or empty strings, for elements whose file is not there."""
    if dtype.name != "string":
        return Tensor.splat(dtype, shape, 0)
    if prod(shape) > size:
        raise LimitError("a tensor has more strings than bytes", who=path)
    return Tensor.strings([b""] * prod(shape), shape)


class _Part(NamedTuple):
    """The elements of a tensor in a file, and their checksum."""

    file: FileMap
    offset: int
    size: int
    crc: int
    key: str

    def view(self) -> memoryview:
        return self.file.view()[self.offset : self.offset + self.size]

    def error(self, message: str, **details: Any) -> FormatError:
        where = f"byte {self.offset}"
        return FormatError(message, who=self.file.path, where=where, **details)


class _ArrayReader:
    """Reads an array of numbers; checks their checksum the first time."""

    def __init__(self, part: _Part, dtype: DType, shape: tuple[int, ...]) -> None:
        self.part = part
        self.dtype, self.shape = dtype, shape
        self._tensor: Tensor | None = None

    def __call__(self) -> Tensor:
        if self._tensor is None:
            part = self.part
            view, what = [part.view()], repr(part.key)
            expect_crc(view, part.crc, what, part.file.path, part.offset)
            part.file.release(part.size)
            self._tensor = Tensor.from_file(
                part.file, self.dtype, self.shape, part.offset
            )
        return self._tensor


def _read_strings(part: _Part, shape: tuple[int, ...]) -> Tensor:
    """Lengths as varints, the checksum of the lengths, then the strings."""
    data, at, lengths = part.view(), 0, []
    try:
        for _ in range(prod(shape)):
            length, at = decode_varint(data, at, len(data))
            lengths.append(length)
    except FormatError as error:
        message = f"the strings of {part.key!r}: {error.message}"
        raise part.error(message) from error
    of_lengths = crc_of(length_bytes(lengths))
    if int.from_bytes(data[at : at + 4], "little") != mask_crc(of_lengths):
        raise part.error(f"the checksum of the lengths of {part.key!r} is wrong")
    if at + 4 + sum(lengths) != len(data):
        raise part.error(
            f"the strings of {part.key!r} have other lengths than it states",
            expected=f"{len(data) - at - 4} bytes", got=f"{sum(lengths)} bytes",
        )  # fmt: skip
    if mask_crc(crc_of([data[at:]], of_lengths)) != part.crc:
        raise part.error(
            f"the checksum of {part.key!r} is wrong, so the file is damaged"
        )
    items, at = [], at + 4
    for length in lengths:
        items.append(bytes(data[at : at + length]))
        at += length
    return Tensor.strings(items, shape)


def length_bytes(lengths: Sequence[int]) -> list[bytes]:
    """The lengths of strings as their checksum has them."""
    return [n.to_bytes(4 if n < 1 << 32 else 8, "little") for n in lengths]


def read_extents(data: memoryview, span: tuple[int, int]) -> list[Extent]:
    """Start and length in each dim of a TensorSliceProto."""
    fields = SAVED.read("TensorSliceProto", data, *span)
    rows = [
        SAVED.read("TensorSliceProto.Extent", data, *e)
        for e in fields.get("extent", ())
    ]
    return [(row.get("start", 0), row.get("length", -1)) for row in rows]


def assemble(
    parts: Sequence[tuple[Sequence[Extent], Tensor]],
    dtype: DType,
    shape: tuple[int, ...],
    what: str,
) -> Array:
    """The array whose slices these are; every element must be in one of them."""
    import numpy as np

    whole = np.empty(shape, object if dtype.name == "string" else dtype.numpy)
    count = 0
    for extents, part in parts:
        place = tuple(
            slice(start, None if length < 0 else start + length)
            for start, length in extents
        )
        if whole[place].shape != part.shape:
            raise FormatError(f"a slice is outside of {what}", got=f"{list(extents)}")
        whole[place] = part.numpy()
        count += part.size
    if count != whole.size:
        raise FormatError(
            f"the slices of {what} do not cover it",
            expected=f"{whole.size} elements", got=count,
        )  # fmt: skip
    return whole
