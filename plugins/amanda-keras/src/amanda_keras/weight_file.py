"""HDF5 files of weights: datasets as tensors whose elements stay in the file."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from amanda.errors import AmandaError, FormatError, LimitError
from amanda.formatkit import BytesFile, MessageFile
from amanda.tensors import Tensor
from amanda.types import DType, parse_element

__all__ = ["WeightFile", "hdf5_errors"]

_HEAP: Final = struct.Struct("<8sQ")
"""The signature and the size of a global heap collection."""
_HEAP_OBJECT: Final = struct.Struct("<H6xQ")
"""The index and the size of an object of it; 0 is the free space."""
_MAX_OBJECTS: Final = 1 << 20
_MAX_DEPTH: Final = 64
_MAX_RATIO: Final = 1100
"""The most that deflate compresses."""


@contextmanager
def hdf5_errors(what: str) -> Iterator[None]:
    """Raise errors of h5py in the block as FormatErrors that name the place."""
    try:
        yield
    except AmandaError:
        raise
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError,
            OverflowError, MemoryError, IndexError, UnicodeError) as error:  # fmt: skip
        raise FormatError(
            "the HDF5 file is damaged", who=what, got=str(error).strip("\"'")[:200]
        ) from error


class WeightFile:
    """The groups and datasets of an HDF5 file, by path."""

    def __init__(self, file: MessageFile, start: int = 0, who: str = "") -> None:
        import h5py

        self.file = file
        self.start = start
        self.who = who
        self._heaps_are_checked = False
        view = BytesFile(file.data[start:])
        with hdf5_errors(who or "the file"):
            self.root = h5py.File(view, "r")
            self.datasets: dict[str, Any] = {}
            self.groups: dict[str, Any] = {"": self.root}
            self._visit()

    def _visit(self) -> None:
        """Collect groups and datasets; links to other files are refused."""
        import h5py

        waiting = [("", self.root, 0)]
        count = 0
        while waiting:
            path, group, depth = waiting.pop()
            for name in group:
                place = f"{path}/{name}" if path else name
                count += 1
                if count > _MAX_OBJECTS or depth > _MAX_DEPTH:
                    raise LimitError("too many groups in the HDF5 file", who=place)
                link = group.get(name, getlink=True)
                if not isinstance(link, h5py.HardLink):
                    raise FormatError(
                        "a link of the HDF5 file is not followed", who=place,
                        expected="groups and datasets of the file itself",
                        got=type(link).__name__,
                    )  # fmt: skip
                item = group[name]
                if isinstance(item, h5py.Group):
                    self.groups[place] = item
                    waiting.append((place, item, depth + 1))
                elif isinstance(item, h5py.Dataset):
                    self.datasets[place] = item

    def attribute(self, path: str, name: str) -> Any:
        """An attribute of a group, with bytes as text; None where it is missing."""
        with hdf5_errors(f"{path or '/'}, attribute {name!r}"):
            attrs = self.groups[path].attrs
            if name in attrs:
                return self._text_of(attrs, name)
            parts: list[Any] = []
            while f"{name}{len(parts)}" in attrs:  # long ones are written in parts
                parts.append(self._text_of(attrs, f"{name}{len(parts)}"))
            return [item for part in parts for item in part] if parts else None

    def _text_of(self, attrs: Any, name: str) -> Any:
        """An attribute of an object, with bytes as text."""
        if not self._heaps_are_checked:
            self._check_heaps()
            self._heaps_are_checked = True
        return _as_text(attrs[name])

    def _check_heaps(self) -> None:
        """Refuse heaps of texts whose objects do not follow each other.

        The HDF5 library does not end where the size of one is 0."""
        data = self.file.data[self.start :]
        for found in re.finditer(rb"GCOL\x01\x00\x00\x00", data):
            at = found.start() + _HEAP.size
            if at > len(data):
                break
            stop = min(found.start() + _HEAP.unpack_from(data, found.start())[1],
                       len(data))  # fmt: skip
            while at + _HEAP_OBJECT.size <= stop:
                index, size = _HEAP_OBJECT.unpack_from(data, at)
                at += _HEAP_OBJECT.size + -(-size // 8) * 8 if index else size
                if at > stop or not (index or size):
                    raise FormatError(
                        "a heap of the HDF5 file is damaged",
                        where=f"byte {self.start + at}",
                    )

    def tensors(self) -> Mapping[str, Tensor]:
        """The datasets as tensors, by path."""
        return {path: self.tensor(path) for path in self.datasets}

    def tensor(self, path: str) -> Tensor:
        """A dataset as a tensor. One that is contiguous is not copied."""
        dataset = self.datasets[path]
        with hdf5_errors(path):
            if dataset.is_virtual or dataset.external:
                raise FormatError("a dataset in another file is not read", who=path)
            shape = tuple(int(n) for n in dataset.shape or ())
            dtype = self._dtype(path, dataset)
            size = int(np.prod([*shape, dataset.dtype.itemsize], dtype=object))
            if size > _MAX_RATIO * len(self.file.data):
                raise LimitError(
                    "a dataset is larger than its file can be", who=path, got=size
                )
            offset = dataset.id.get_offset()
            plain = dataset.dtype.byteorder in "<=|" and dtype.kind != "string"
            if offset is not None and plain and size:
                start = self.start + offset
                if start + size > len(self.file.data):
                    raise FormatError("the file ends within a dataset", who=path)
                return self.file.tensor((start, start + size), dtype, shape)
        return Tensor.lazy(lambda: self._elements(path, dtype), dtype, shape)

    def _dtype(self, path: str, dataset: Any) -> DType:
        attrs = dataset.attrs
        if "dtype" in attrs and self._text_of(attrs, "dtype") == "bfloat16":
            return parse_element("bfloat16")  # type: ignore[return-value]
        if dataset.dtype.kind not in "biufcSO":
            raise FormatError(
                "a dataset of this element type is not read", who=path,
                expected="numbers or strings", got=dataset.dtype,
            )  # fmt: skip
        return DType.of(dataset.dtype)

    def _elements(self, path: str, dtype: DType) -> Any:
        with hdf5_errors(path):
            found = np.asarray(self.datasets[path][()])
        if dtype.kind == "string":
            return Tensor.strings(found.reshape(-1).tolist(), found.shape)
        if found.dtype.kind == "V":
            return found.view(dtype.numpy)
        return found.astype(found.dtype.newbyteorder("="), copy=False)


def _as_text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return [_as_text(item) for item in value.tolist()]
    return value
