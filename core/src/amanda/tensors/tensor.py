"""Tensors: weights and other constants."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import InvalidTypeError
from amanda.tensors.file_map import FileMap
from amanda.tensors.hashing import tensor_digest
from amanda.tensors.packing import PERIOD, check_shape
from amanda.tensors.sources import (
    ArraySource,
    BufferSource,
    FileSource,
    LazySource,
    SplatSource,
    StringSource,
    TensorSource,
)
from amanda.types import DType, ElementType, Quantized, Shape, TensorType, string

if TYPE_CHECKING:
    import numpy as np

    from amanda.files.mapped_file import MappedFile

    Array = np.ndarray[Any, Any]

__all__ = ["Tensor"]

_BLOCK: Final = 1 << 20
_BLOCK_TO_COMPARE: Final = 1 << 17
_MAX_CONTENT: Final = 64
_MAX_COMPARED: Final = 1 << 16
"""Elements that `is_splat` compares."""
_SHOWN: Final = 16
"""Elements of a tensor that a notebook shows."""
_FEW: Final = 1 << 12
"""Bytes after which it stops where two of them differ."""


class Tensor:
    """An immutable array of static shape, whose elements are loaded on demand.

    `Tensor.of(array)` shares an array, `from_file` and `from_buffer` packed bytes;
    `splat` repeats one element, `strings` has strings, `lazy` computes on demand. None
    of them copies before `numpy()` or `chunks()` is called. Shared memory must not
    change while a tensor shares it: its digest is cached.

    >>> tensor = Tensor.of([[1, 2, 3], [4, 5, 6]], dtype="int4")
    >>> tensor
    Tensor(int4[2, 3], array)
    >>> tensor.nbytes, tensor.tolist()
    (3, [[1, 2, 3], [4, 5, 6]])
    """

    __slots__ = (
        "__weakref__", "_digest", "_source", "_type", "_type_with_content", "dtype",
        "shape",
    )  # fmt: skip

    dtype: ElementType
    shape: tuple[int, ...]
    _source: TensorSource
    _digest: str | None
    _type: TensorType | None
    _type_with_content: TensorType | None

    def __init__(self, source: TensorSource) -> None:
        """Use the constructors below."""
        put = object.__setattr__
        put(self, "dtype", source.dtype)
        put(self, "shape", source.shape)
        put(self, "_source", source)
        put(self, "_digest", None)
        put(self, "_type", None)
        put(self, "_type_with_content", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Tensor cannot be changed ({name})")

    # constructors

    @staticmethod
    def of(values: Any, dtype: ElementType | str | None = None) -> Tensor:
        """From an array, or anything that numpy can convert to one; shared if possible.

        Lists are converted to `dtype`; an array must have this type, or its storage
        type if it is quantized. Arrays of foreign byte order are converted on demand,
        arrays of strings immediately.
        """
        if isinstance(values, Tensor):
            if dtype is None or values.dtype == _element_type(dtype):
                return values
            values = values.numpy()
        return Tensor(
            _source_of(values, None if dtype is None else _element_type(dtype))
        )

    @staticmethod
    def splat(dtype: ElementType | str, shape: Sequence[int], value: Any) -> Tensor:
        """A repeated value, stored once."""
        element = _element_type(dtype)
        if element.kind in ("string", "bytes"):
            raise InvalidTypeError(
                "strings cannot be a splat", hint="use Tensor.strings"
            )
        one = _convert_numbers(value, element).copy()
        if one.shape != ():
            raise InvalidTypeError("a splat has one value", got=f"{one.size} values")
        one.flags.writeable = False
        return Tensor(SplatSource(one, element, check_shape(shape)))

    @staticmethod
    def from_buffer(
        buffer: Any, dtype: ElementType | str, shape: Sequence[int], offset: int = 0
    ) -> Tensor:
        """Packed elements in bytes, a memoryview, an mmap or the like; shared."""
        return Tensor(
            BufferSource(buffer, _element_type(dtype), check_shape(shape), offset)
        )

    @staticmethod
    def from_file(
        path: str | os.PathLike[str] | FileMap,
        dtype: ElementType | str,
        shape: Sequence[int],
        offset: int = 0,
    ) -> Tensor:
        """Packed elements in a file, which is mapped on first access.

        Up to 4 KB are copied. Raises FormatError if the file is too short; so does
        each later access if the file was written to in place.
        """
        file = path if isinstance(path, FileMap) else FileMap.of(path)
        return Tensor(
            FileSource.of(file, _element_type(dtype), check_shape(shape), offset)
        )

    @staticmethod
    def strings(
        items: Iterable[str | bytes],
        shape: Sequence[int] | None = None,
        dtype: ElementType | str = string,
    ) -> Tensor:
        """Strings (stored as UTF-8) or bytes, in row-major order; by default 1-d."""
        encoded = tuple(map(_encode_string, items))
        dims = (len(encoded),) if shape is None else check_shape(shape)
        element = _element_type(dtype)
        if element.kind not in ("string", "bytes"):
            raise InvalidTypeError("strings have type string or bytes", got=element)
        return Tensor(StringSource(encoded, element, dims))

    @staticmethod
    def lazy(
        make: Callable[[], Any], dtype: ElementType | str, shape: Sequence[int]
    ) -> Tensor:
        """The result of `make()` (anything that `of` accepts), computed on demand.

        The result is cached only while it is referenced, so `make` may be called again,
        and must then return the same.
        """
        return Tensor(
            LazySource(make, _element_type(dtype), check_shape(shape), _source_of)
        )

    # properties that do not load elements

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    @property
    def nbytes(self) -> int:
        """The number of packed bytes."""
        return self._source.nbytes

    @property
    def type(self) -> TensorType:
        """The type, without content."""
        if self._type is None:
            object.__setattr__(self, "_type", TensorType(self.dtype, Shape(self.shape)))
        assert self._type is not None
        return self._type

    @property
    def stores_one_element(self) -> bool:
        """True if the storage is one element, repeated, however many there are."""
        return isinstance(self._source, SplatSource)

    @property
    def is_lazy(self) -> bool:
        """True if the elements are computed on demand."""
        return isinstance(self._source, LazySource)

    @property
    def mapped_file(self) -> MappedFile | None:
        """The mapped file that the elements are read from, or None."""
        return self._source.mapped_file

    # the elements

    @property
    def is_splat(self) -> bool:
        """True if all elements are equal, bit by bit.

        At most 65,536 elements are compared, and none is computed: a tensor that is
        larger or lazy is a splat only if it stores one element.

        >>> Tensor.of([2.0, 2.0]).is_splat, Tensor.of([0.0, -0.0]).is_splat
        (True, False)
        """
        if self.stores_one_element or self.size <= 1:
            return True
        if self.is_lazy or self.size > _MAX_COMPARED:
            return False
        array = self.numpy()
        first = array[(0,) * array.ndim]
        if self.dtype.kind in ("string", "bytes"):
            return all(item == first for item in array.flat)
        repeated = Tensor.splat(self.dtype, self.shape, first)
        blocks = zip(self.chunks(_FEW), repeated.chunks(_FEW), strict=True)
        return all(block == expected for block, expected in blocks)

    def type_with_content(self, limit: int = _MAX_CONTENT) -> TensorType:
        """The type, with the content of a small integer or bool tensor."""
        if limit != _MAX_CONTENT:
            return self._find_type_with_content(limit)
        if self._type_with_content is None:
            found = self._find_type_with_content(limit)
            object.__setattr__(self, "_type_with_content", found)
        assert self._type_with_content is not None
        return self._type_with_content

    def _find_type_with_content(self, limit: int) -> TensorType:
        if self.dtype.kind in ("int", "uint", "bool") and self.size <= limit:
            return TensorType(self.dtype, Shape(self.shape), value=self.tolist())
        return self.type

    def numpy(self) -> Array:
        """The read-only array; strings are bytes objects.

        It shares memory with the file, buffer or array; elements smaller than a byte
        are unpacked each time.
        """
        try:
            return self._source.array()
        except ValueError as error:  # dims that numpy does not support
            raise InvalidTypeError(
                f"cannot convert to an array: {error}", who=repr(self)
            ) from error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        import numpy as np

        array = self.numpy()
        return np.array(array, dtype, copy=copy) if dtype or copy else array

    def item(self) -> Any:
        """The only element, as a Python number or bytes."""
        if self.size != 1:
            raise InvalidTypeError("not a single element", who=repr(self))
        return self.numpy().item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers or bytes."""
        return self.numpy().tolist()

    def chunks(self, size: int = _BLOCK) -> Iterator[memoryview]:
        """The packed bytes, little-endian, in blocks of about `size`.

        Blocks of equal tensors are equal for one `size`, independent of storage.
        """
        return self._source.blocks(max(size - size % PERIOD, PERIOD))

    def digest(self) -> str:
        """A hash of element type, shape and packed bytes; cached.

        It is independent of storage.
        """
        if self._digest is None:
            type_text = f"{self.dtype}{list(self.shape)}"
            object.__setattr__(
                self, "_digest", tensor_digest(type_text, self._source.content_hash())
            )
        assert self._digest is not None
        return self._digest

    def same_content(self, other: Tensor) -> bool:
        """True if type, shape and every byte are equal, so NaN equals itself."""
        if self is other or self._source is other._source:
            return True
        if self.dtype != other.dtype or self.shape != other.shape:
            return False
        both_splat = self.stores_one_element and other.stores_one_element
        if (self._digest and other._digest) or both_splat:
            return self.digest() == other.digest()
        # memory views compare byte by byte in C, bytes of this size ten times as fast
        blocks = (tensor.chunks(_BLOCK_TO_COMPARE) for tensor in (self, other))
        pairs = zip(*blocks, strict=True)
        return all(bytes(a) == bytes(b) for a, b in pairs)

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{list(self.shape)}, {self._source.label})"

    def _repr_html_(self) -> str:
        """Its type and its elements, if they are few and need not be computed."""
        from amanda.html_tables import html_page

        is_shown = self.size <= _SHOWN and not self.is_lazy
        facts = {
            "bytes": f"{self.nbytes:,}",
            "stored as": self._source.label,
            "elements": self.tolist() if is_shown else None,
        }
        return html_page(f"tensor {self.type}", facts)

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: object) -> Tensor:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._source, SplatSource):
            one = b"".join(Tensor.of(self._source.one, self.dtype).chunks())
            return (_unpickle_splat, (one, self.dtype, self.shape))
        if self.dtype.kind in ("string", "bytes"):
            items = self.numpy().reshape(-1).tolist()
            return (Tensor.strings, (items, self.shape, self.dtype))
        return (Tensor.from_buffer, (b"".join(self.chunks()), self.dtype, self.shape))


def _unpickle_splat(one: bytes, dtype: ElementType, shape: tuple[int, ...]) -> Tensor:
    return Tensor(SplatSource(Tensor.from_buffer(one, dtype, ()).numpy(), dtype, shape))


def _element_type(dtype: ElementType | str) -> ElementType:
    return dtype if isinstance(dtype, DType | Quantized) else DType(dtype)


def _convert_numbers(values: Any, dtype: ElementType) -> Array:
    """Convert Python numbers to an array, without rounding or wrapping integers."""
    import numpy as np

    try:
        array = np.asarray(values, dtype=dtype.numpy)
        rounds = dtype.kind not in ("int", "uint", "bool", "quantized")
        if rounds or array.tolist() == np.asarray(values, object).tolist():
            return array
        cause = "the number would change"
    except (TypeError, ValueError, OverflowError) as error:
        cause = str(error)
    raise InvalidTypeError(
        f"a value cannot be converted to {dtype}: {cause}", got=reprlib.repr(values)
    )


def _source_of(values: Any, dtype: ElementType | None) -> TensorSource:
    """The source of anything that numpy can convert to an array."""
    import numpy as np

    if isinstance(values, Tensor):
        if dtype is None or values.dtype == dtype:
            return values._source
        values = values.numpy()
    is_array = hasattr(values, "dtype") or hasattr(values, "__array__")
    is_string = dtype is not None and dtype.kind in ("string", "bytes")
    if not is_array and dtype is not None and not is_string:
        return ArraySource(_convert_numbers(values, dtype), dtype)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidTypeError(
            f"cannot convert to an array: {error}", got=type(values)
        ) from error
    found = DType.of(array)
    if found is string or (is_string and not is_array and not array.size):
        items = array.reshape(-1).tolist()
        return Tensor.strings(items, array.shape, dtype or string)._source
    element = dtype or found
    if element is not found and element.numpy != found.numpy:
        raise InvalidTypeError(
            "the array has another element type", expected=element, got=found
        )
    if not array.dtype.isnative:
        native = array.dtype.newbyteorder("=")
        return LazySource(
            lambda: array.astype(native), element, array.shape, _source_of
        )
    return ArraySource(array, element)


def _encode_string(item: object) -> bytes:
    if isinstance(item, bytes):
        return bytes(item)
    if not isinstance(item, str):
        raise InvalidTypeError("a string must be str or bytes", got=reprlib.repr(item))
    try:
        return item.encode()
    except UnicodeEncodeError:
        raise InvalidTypeError("not a Unicode string", got=ascii(item)[:80]) from None
