"""Tensors: weights and other constants, wherever their elements are."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import InvalidTypeError
from amanda.tensors.hashing import seal
from amanda.tensors.maps import FileMap
from amanda.tensors.packing import PERIOD, check_shape
from amanda.tensors.sources import (
    InArray,
    InBuffer,
    InFile,
    Made,
    Repeated,
    Source,
    Texts,
)
from amanda.types import DType, ElementType, Quantized, Shape, TensorType, string

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["Tensor"]

_BLOCK: Final = 1 << 20
_MAX_CONTENT: Final = 64


class Tensor:
    """Elements of one type in a known shape; immutable, and lazy about its elements.

    `Tensor.of(array)` shares an array, `from_file` and `from_buffer` packed bytes;
    `splat` repeats one element, `strings` holds texts, `lazy` computes on demand. None
    of them copies before `numpy()` or `chunks()` asks. Shared memory must not change
    while a tensor shares it: its digest is remembered.

    >>> tensor = Tensor.of([[1, 2, 3], [4, 5, 6]], dtype="int4")
    >>> tensor
    Tensor(int4[2, 3], array)
    >>> tensor.nbytes, tensor.tolist()
    (3, [[1, 2, 3], [4, 5, 6]])
    """

    __slots__ = ("__weakref__", "_digest", "_source", "dtype", "shape")

    dtype: ElementType
    shape: tuple[int, ...]
    _source: Source
    _digest: str | None

    def __init__(self, source: Source) -> None:
        """Made by the makers below."""
        put = object.__setattr__
        put(self, "dtype", source.dtype)
        put(self, "shape", source.shape)
        put(self, "_source", source)
        put(self, "_digest", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Tensor cannot be changed ({name})")

    # makers

    @staticmethod
    def of(values: Any, dtype: ElementType | str | None = None) -> Tensor:
        """An array, or anything numpy can make one of; shared, not copied.

        With `dtype`, lists become that; an array must hold just that, or its storage
        where the type is quantised. Arrays of foreign byte order are converted when
        asked for, arrays of texts at once."""
        if isinstance(values, Tensor):
            if dtype is None or values.dtype == _element(dtype):
                return values
            values = values.numpy()
        return Tensor(_read(values, None if dtype is None else _element(dtype)))

    @staticmethod
    def splat(dtype: ElementType | str, shape: Sequence[int], value: Any) -> Tensor:
        """One value everywhere; it takes the room of one."""
        element = _element(dtype)
        if element.kind in ("string", "bytes"):
            raise InvalidTypeError("texts are not repeated", hint="use Tensor.strings")
        one = _filled(value, element).copy()
        if one.shape != ():
            raise InvalidTypeError("one value makes a splat", got=f"{one.size} values")
        one.flags.writeable = False
        return Tensor(Repeated(one, element, check_shape(shape)))

    @staticmethod
    def from_buffer(
        buffer: Any, dtype: ElementType | str, shape: Sequence[int], offset: int = 0
    ) -> Tensor:
        """Packed elements in bytes, a memoryview, an mmap or the like; shared."""
        return Tensor(InBuffer(buffer, _element(dtype), check_shape(shape), offset))

    @staticmethod
    def from_file(
        path: str | os.PathLike[str] | FileMap,
        dtype: ElementType | str,
        shape: Sequence[int],
        offset: int = 0,
    ) -> Tensor:
        """Packed elements in a file, mapped when the first is asked for.

        FormatError where the file is too short for the claim."""
        file = path if isinstance(path, FileMap) else FileMap.of(path)
        return Tensor(InFile(file, _element(dtype), check_shape(shape), offset))

    @staticmethod
    def strings(
        items: Iterable[str | bytes],
        shape: Sequence[int] | None = None,
        dtype: ElementType | str = string,
    ) -> Tensor:
        """Texts (kept as UTF-8) or bytes, in row-major order; by default in one row."""
        kept = tuple(map(_as_bytes, items))
        dims = (len(kept),) if shape is None else check_shape(shape)
        element = _element(dtype)
        if element.kind not in ("string", "bytes"):
            raise InvalidTypeError("texts are of type string or bytes", got=element)
        return Tensor(Texts(kept, element, dims))

    @staticmethod
    def lazy(
        make: Callable[[], Any], dtype: ElementType | str, shape: Sequence[int]
    ) -> Tensor:
        """What `make()` returns (anything that `of` takes), asked for when needed.

        The result is kept only while somebody uses it, so `make` may be called again,
        and must then return the same."""
        return Tensor(Made(make, _element(dtype), check_shape(shape), _read))

    # what is known without looking

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
        return TensorType(self.dtype, Shape(self.shape))

    @property
    def is_splat(self) -> bool:
        """Whether this was made of one repeated element."""
        return isinstance(self._source, Repeated)

    @property
    def is_lazy(self) -> bool:
        """Whether the elements are computed whenever somebody asks for them."""
        return isinstance(self._source, Made)

    # the elements

    def type_with_content(self, limit: int = _MAX_CONTENT) -> TensorType:
        """The type; with the content of an integer or bool tensor of few elements."""
        if self.dtype.kind in ("int", "uint", "bool") and self.size <= limit:
            return TensorType(self.dtype, Shape(self.shape), value=self.tolist())
        return self.type

    def numpy(self) -> Array:
        """The read-only array; of bytes where the elements are texts.

        Shared with the file, buffer or array that holds it; elements smaller than a
        byte are unpacked each time."""
        try:
            return self._source.array()
        except ValueError as error:  # dims that numpy does not take
            raise InvalidTypeError(f"no array: {error}", who=repr(self)) from error

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

        Equal tensors give equal blocks for one `size`, whatever holds them."""
        return self._source.blocks(max(size - size % PERIOD, PERIOD))

    def digest(self) -> str:
        """A hash of element type, shape and packed bytes; computed once.

        The same for equal content however it is held."""
        if self._digest is None:
            what = f"{self.dtype}{list(self.shape)}"
            object.__setattr__(self, "_digest", seal(what, self._source.root()))
        assert self._digest is not None
        return self._digest

    def same_content(self, other: Tensor) -> bool:
        """Whether type, shape and every byte are equal; so NaN equals itself."""
        if self is other or self._source is other._source:
            return True
        if self.dtype != other.dtype or self.shape != other.shape:
            return False
        if (self._digest and other._digest) or (self.is_splat and other.is_splat):
            return self.digest() == other.digest()
        pairs = zip_longest(self.chunks(), other.chunks())
        return all(a is not None and a == b for a, b in pairs)

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{list(self.shape)}, {self._source.label})"

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: object) -> Tensor:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._source, Repeated):
            one = b"".join(Tensor.of(self._source.one, self.dtype).chunks())
            return (_splat_again, (one, self.dtype, self.shape))
        if self.dtype.kind in ("string", "bytes"):
            items = self.numpy().reshape(-1).tolist()
            return (Tensor.strings, (items, self.shape, self.dtype))
        return (Tensor.from_buffer, (b"".join(self.chunks()), self.dtype, self.shape))


def _splat_again(one: bytes, dtype: ElementType, shape: tuple[int, ...]) -> Tensor:
    return Tensor(Repeated(Tensor.from_buffer(one, dtype, ()).numpy(), dtype, shape))


def _element(dtype: ElementType | str) -> ElementType:
    return dtype if isinstance(dtype, DType | Quantized) else DType(dtype)


def _filled(values: Any, dtype: ElementType) -> Array:
    """Python numbers as an array of this type; integers are not rounded or wrapped."""
    import numpy as np

    try:
        array = np.asarray(values, dtype=dtype.numpy)
        rounds = dtype.kind not in ("int", "uint", "bool", "quantized")
        if rounds or array.tolist() == np.asarray(values, object).tolist():
            return array
        cause = "it would be another number"
    except (TypeError, ValueError, OverflowError) as error:
        cause = str(error)
    raise InvalidTypeError(
        f"a value that {dtype} cannot hold: {cause}", got=reprlib.repr(values)
    )


def _read(values: Any, dtype: ElementType | None) -> Source:
    """The source for anything that numpy can make an array of."""
    import numpy as np

    if isinstance(values, Tensor):
        values = values.numpy()
    is_array = hasattr(values, "dtype") or hasattr(values, "__array__")
    is_text = dtype is not None and dtype.kind in ("string", "bytes")
    if not is_array and dtype is not None and not is_text:
        return InArray(_filled(values, dtype), dtype)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidTypeError(f"no array: {error}", got=type(values)) from error
    found = DType.of(array)
    if found is string:
        items = array.reshape(-1).tolist()
        return Tensor.strings(items, array.shape, dtype or string)._source
    element = dtype or found
    if element is not found and element.numpy != found.numpy:
        raise InvalidTypeError(
            "an array of another element type", expected=element, got=found
        )
    if not array.dtype.isnative:
        native = array.dtype.newbyteorder("=")
        return Made(lambda: array.astype(native), element, array.shape, _read)
    return InArray(array, element)


def _as_bytes(item: object) -> bytes:
    if isinstance(item, bytes):
        return bytes(item)
    if not isinstance(item, str):
        raise InvalidTypeError("a text is a str or bytes", got=reprlib.repr(item))
    try:
        return item.encode()
    except UnicodeEncodeError:
        raise InvalidTypeError("no Unicode text", got=ascii(item)[:80]) from None
