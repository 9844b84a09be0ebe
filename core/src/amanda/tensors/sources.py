"""Sources of tensor elements: the kinds of storage behind `Tensor`.

Each returns the array on demand, and the packed bytes in blocks of the requested length
(a multiple of `PERIOD`), with at most one block in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any, Final
from weakref import ReferenceType, ref

from amanda.errors import FormatError, InvalidTypeError
from amanda.files.mapped_file import MappedFile
from amanda.tensors import hashing
from amanda.tensors.file_map import FileMap
from amanda.tensors.packing import clean_tail, pack, packed_size, unpack
from amanda.types import ElementType

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = [
    "ArraySource",
    "BufferSource",
    "FileSource",
    "LazySource",
    "SplatSource",
    "TensorSource",
    "StringSource",
]


SMALL: Final = 1 << 12
"""Bytes up to which a tensor in a mapped file is copied at once."""


class TensorSource(ABC):
    """The storage of a tensor's elements."""

    __slots__ = ("dtype", "shape")

    @property
    @abstractmethod
    def label(self) -> str:
        """The kind of storage, in one word."""

    @property
    def mapped_file(self) -> MappedFile | None:
        """The mapped file that the elements are in, or None."""
        return None

    def __init__(self, dtype: ElementType, shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape

    @property
    def nbytes(self) -> int:
        return packed_size(self.dtype, self.shape)

    @abstractmethod
    def array(self) -> Array:
        """The read-only array, one item per element."""

    @abstractmethod
    def blocks(self, size: int) -> Iterator[memoryview]:
        """The packed bytes, in blocks of `size`."""

    def content_hash(self) -> bytes:
        """The hash of the packed bytes."""
        return hashing.hash_blocks(self.blocks(hashing.BLOCK))


class ArraySource(TensorSource):
    """Elements in a numpy array; shared, not copied."""

    __slots__ = ("_array", "_file")
    label = "array"

    def __init__(self, array: Array, dtype: ElementType) -> None:
        super().__init__(dtype, array.shape)
        packed_size(dtype, array.shape)
        self._file = MappedFile.of(array)
        if self._file is not None and array.nbytes <= SMALL:
            self._file, array = None, array.copy()
        self._array = array.view()
        self._array.flags.writeable = False

    @property
    def mapped_file(self) -> MappedFile | None:
        return self._file

    def array(self) -> Array:
        if self._file is not None:
            self._file.check()
        return self._array

    def blocks(self, size: int) -> Iterator[memoryview]:
        count = size * 8 // self.dtype.bits
        array = self.array()
        # A flat iterator copies block by block; a view does not copy.
        flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
        for start in range(0, array.size, count):
            if self._file is not None:
                self._file.check()
            yield pack(flat[start : start + count], self.dtype)


class BufferSource(TensorSource):
    """Packed elements in a buffer."""

    __slots__ = ("_file", "_view")

    def __init__(
        self, buffer: Any, dtype: ElementType, shape: tuple[int, ...], offset: int
    ) -> None:
        super().__init__(dtype, shape)
        try:
            view = memoryview(buffer).cast("B")
        except TypeError as error:
            raise InvalidTypeError(f"not a contiguous buffer: {error}") from error
        nbytes = self.nbytes
        _check_room(len(view), offset, nbytes, "the buffer")
        self._view = view[offset : offset + nbytes].toreadonly()
        self._file = view.obj if isinstance(view.obj, MappedFile) else None
        if self._file is not None and nbytes <= SMALL:
            self._view, self._file = memoryview(bytes(self._view)), None

    @property
    def label(self) -> str:
        return "buffer" if self._file is None else "mapped"

    @property
    def mapped_file(self) -> MappedFile | None:
        return self._file

    def packed_bytes(self) -> memoryview:
        if self._file is not None:
            self._file.check()
        return self._view

    def array(self) -> Array:
        return unpack(self.packed_bytes(), self.dtype, self.shape)

    def blocks(self, size: int) -> Iterator[memoryview]:
        for start in range(0, self.nbytes, size):
            view = self.packed_bytes()  # checks the file again
            block = view[start : start + size]
            if start + size >= len(view):
                block = clean_tail(block, self.dtype, prod(self.shape))
            yield block
        file = self.mapped_file
        if file is not None:
            file.release(self.nbytes)


class FileSource(BufferSource):
    """Packed elements in a file, which is mapped on first access."""

    __slots__ = ("file", "offset")

    def __init__(
        self, file: FileMap, dtype: ElementType, shape: tuple[int, ...], offset: int
    ) -> None:
        TensorSource.__init__(self, dtype, shape)
        _check_room(file.size, offset, self.nbytes, file.path)
        self.file = file
        self.offset = offset

    @staticmethod
    def of(
        file: FileMap, dtype: ElementType, shape: tuple[int, ...], offset: int
    ) -> BufferSource:
        """The source of elements in a file; of small ones, a copy of them."""
        source = FileSource(file, dtype, shape, offset)
        if source.nbytes <= SMALL or file.is_copy:
            return BufferSource(file.view(), dtype, shape, offset)
        return source

    @property
    def label(self) -> str:
        return "mapped"

    @property
    def mapped_file(self) -> MappedFile | None:
        owner = self.file.view().obj
        return owner if isinstance(owner, MappedFile) else None

    def packed_bytes(self) -> memoryview:
        return self.file.view()[self.offset : self.offset + self.nbytes]


def _check_room(size: int, offset: int, nbytes: int, who: str) -> None:
    if offset < 0 or offset + nbytes > size:
        raise FormatError(
            "the data of a tensor is out of range",
            who=who,
            where=f"byte {offset}",
            expected=f"{nbytes} bytes",
            got=f"{max(size - max(offset, 0), 0)} bytes",
        )


class SplatSource(TensorSource):
    """One repeated element."""

    __slots__ = ("one",)
    label = "splat"

    def __init__(self, one: Array, dtype: ElementType, shape: tuple[int, ...]) -> None:
        super().__init__(dtype, shape)
        packed_size(dtype, shape)
        self.one = one

    def array(self) -> Array:
        import numpy as np

        return np.broadcast_to(self.one, self.shape)

    def blocks(self, size: int) -> Iterator[memoryview]:
        times, rest = divmod(self.nbytes, size)
        block = memoryview(self._repeat_bytes(size)) if times else memoryview(b"")
        for _ in range(times if rest else times - 1):
            yield block
        if self.nbytes:
            yield self._tail(memoryview(self._repeat_bytes(rest)) if rest else block)

    def content_hash(self) -> bytes:
        size = hashing.BLOCK
        times = max(self.nbytes - 1, 0) // size  # full blocks before the last one
        block = self._repeat_bytes(size) if times else b""
        last = self._tail(memoryview(self._repeat_bytes(self.nbytes - times * size)))
        return hashing.hash_repeated(block, times, bytes(last))

    def _repeat_bytes(self, size: int) -> bytes:
        """The first `size` packed bytes of the repeated element."""
        import numpy as np

        unit = bytes(pack(np.broadcast_to(self.one, (8,)), self.dtype))
        return (unit * -(-size // len(unit)))[:size]

    def _tail(self, block: memoryview) -> memoryview:
        return clean_tail(block, self.dtype, prod(self.shape))


class StringSource(TensorSource):
    """Strings, or bytes of any length.

    Packed: the length of each as 8 bytes little-endian, then their concatenation.
    """

    __slots__ = ("items",)
    label = "strings"

    def __init__(
        self, items: tuple[bytes, ...], dtype: ElementType, shape: tuple[int, ...]
    ) -> None:
        super().__init__(dtype, shape)
        if prod(shape) != len(items):
            raise InvalidTypeError(
                "the number of strings does not match the shape",
                expected=f"{list(shape)}",
                got=f"{len(items)} strings",
            )
        self.items = items

    @property
    def nbytes(self) -> int:
        return 8 * len(self.items) + sum(map(len, self.items))

    def array(self) -> Array:
        import numpy as np

        array = np.empty(len(self.items), object)
        array[:] = self.items
        array = array.reshape(self.shape)
        array.flags.writeable = False
        return array

    def blocks(self, size: int) -> Iterator[memoryview]:
        waiting = bytearray()
        for part in self._parts():
            rest = memoryview(part)
            while len(waiting) + len(rest) >= size:
                count = size - len(waiting)
                yield memoryview(bytes(waiting) + bytes(rest[:count]))
                waiting.clear()
                rest = rest[count:]
            waiting += rest
        if waiting:
            yield memoryview(bytes(waiting))

    def _parts(self) -> Iterator[bytes]:
        for item in self.items:
            yield len(item).to_bytes(8, "little")
        yield from self.items


class LazySource(TensorSource):
    """Elements computed on demand; the array is cached while it is referenced."""

    __slots__ = ("_alive", "_make")
    label = "lazy"

    def __init__(
        self,
        make: Callable[[], Any],
        dtype: ElementType,
        shape: tuple[int, ...],
        read: Callable[[Any, ElementType], TensorSource],
    ) -> None:
        super().__init__(dtype, shape)
        if dtype.kind not in ("string", "bytes"):
            packed_size(dtype, shape)
        self._make: Callable[[], TensorSource] = lambda: read(make(), dtype)
        self._alive: ReferenceType[Array] | None = None

    def source(self) -> TensorSource:
        source = self._make()
        if source.dtype != self.dtype or source.shape != self.shape:
            raise InvalidTypeError(
                "a lazy tensor has another type than declared",
                expected=f"{self.dtype}{list(self.shape)}",
                got=f"{source.dtype}{list(source.shape)}",
            )
        return source

    @property
    def nbytes(self) -> int:
        fixed = self.dtype.bits > 0
        return super().nbytes if fixed else self.source().nbytes

    def array(self) -> Array:
        found = self._cached_array()
        if found is None:
            found = self.source().array()
            self._alive = ref(found)
        return found

    def blocks(self, size: int) -> Iterator[memoryview]:
        found = self._cached_array() if self.dtype.bits else None
        source = self.source() if found is None else ArraySource(found, self.dtype)
        return source.blocks(size)

    def _cached_array(self) -> Array | None:
        return None if self._alive is None else self._alive()
