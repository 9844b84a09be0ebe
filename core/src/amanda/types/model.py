"""The types of values: tensors, sequences, optionals, maps, handles and others.

All are immutable, hashable and comparable. `==` compares the text of two types, and
never raises; an anonymous dim equals only itself. `amanda.types.parse_type` parses
`str(type)`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Final, TypeAlias

from amanda.errors import InvalidTypeError, LimitError
from amanda.types.dims import Dim, Sym, Symbols, dim_key
from amanda.types.dtypes import DType, ElementType, Quantized, unknown
from amanda.types.polynomial import check_bits
from amanda.types.quoting import check_text, format_name, quote
from amanda.types.shapes import Shape, format_dim

__all__ = [
    "MapType",
    "OpaqueType",
    "OptionalType",
    "RefType",
    "ResourceType",
    "SequenceType",
    "TensorType",
    "TokenType",
    "TupleType",
    "Type",
    "Value",
    "VoidType",
]

MAX_DEPTH: Final = 64  # nested types
MAX_PARTS: Final = 65536  # all types within a type
MAX_CONTENT: Final = 1024  # elements of known content
_CACHE_SIZE: Final = 4096

Value: TypeAlias = "Dim | tuple[Value, ...]"


class Type:
    """The base class of all types of values."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Type, ...]:
        """The component types."""
        return ()

    @property
    def depth(self) -> int:
        """The nesting depth; 1 for a type without parts."""
        return 1

    def map_dims(self, change: Callable[[Sym], Dim]) -> Type:  # noqa: ARG002
        """Apply a function to every symbolic dim; content with symbols is dropped.

        >>> n = Sym.named("n")
        >>> SequenceType(TensorType("int8", [n])).map_dims(lambda dim: dim + 1)
        sequence<int8[n+1]>
        """
        return self

    def text(self, symbols: Symbols | None = None) -> str:
        """The text; `symbols` numbers anonymous dims."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.text()


class TensorType(Type):
    """An element type and a shape, with optional axis names and known content.

    - `dtype`: a DType, also `unknown`, or a Quantized
    - `axes`: a name or None for each dim, or None if no axis has a name
    - `value`: the known content of a small integer or bool tensor of static shape, as
      nested tuples; elements may be symbols, so that a computed shape stays known

    >>> n = Sym.named("n")
    >>> TensorType("float32", [n, 3])
    float32[n, 3]
    >>> TensorType("float32", [n, 3], axes=["N", "C"])
    float32[N=n, C=3]
    >>> TensorType("int64", [2], value=[1, n])
    int64[2] = [1, n]
    """

    __slots__ = ("_key", "axes", "dtype", "shape", "value")

    dtype: ElementType
    shape: Shape
    axes: tuple[str | None, ...] | None
    value: Value | None
    _key: Any

    def __new__(  # noqa: PYI034 - usually cached
        cls,
        dtype: ElementType | str = unknown,
        shape: Shape | Iterable[Dim] | None = None,
        axes: Iterable[str | None] | None = None,
        value: Any = None,
    ) -> TensorType:
        if type(dtype) is not DType and not isinstance(dtype, Quantized):
            dtype = DType(dtype)
        if type(shape) is not Shape:
            shape = Shape(shape)
        if axes is None and value is None:
            key = (dtype, shape)
            found = _type_cache.get(key)
            if found is None:
                if len(_type_cache) >= _CACHE_SIZE:
                    _type_cache.clear()
                found = _type_cache[key] = _tensor_type(dtype, shape, None, None)
            return found
        names = None if axes is None else _check_axes(axes, shape)
        content = None if value is None else _check_value(value, dtype, shape)
        return _tensor_type(dtype, shape, names, content)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a type cannot be changed ({name})")

    @property
    def elements(self) -> tuple[Dim, ...] | None:
        """The known content in row-major order; None if it is unknown."""
        return None if self.value is None else tuple(_flatten(self.value))

    def map_dims(self, change: Callable[[Sym], Dim]) -> TensorType:
        content = self.value
        if any(isinstance(dim, Sym) for dim in self.elements or ()):
            content = None
        return TensorType(self.dtype, self.shape.map(change), self.axes, content)

    def text(self, symbols: Symbols | None = None) -> str:
        dtype = "?" if self.dtype is unknown else str(self.dtype)
        if self.axes is None:
            shape = self.shape.text(symbols)
        else:
            dims = [
                format_dim(dim, symbols)
                if name is None
                else f"{format_name(name)}={format_dim(dim, symbols)}"
                for name, dim in zip(self.axes, self.shape, strict=True)
            ]
            shape = f"[{', '.join(dims)}]"
        if self.value is None:
            return dtype + shape
        return f"{dtype}{shape} = {_format_value(self.value, symbols)}"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not TensorType:
            return NotImplemented
        return bool(self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[Any, ...]:
        return (TensorType, (self.dtype, self.shape, self.axes, self.value))


_type_cache: dict[
    tuple[ElementType, Shape], TensorType
] = {}  # a cache: most types recur


def _tensor_type(
    dtype: ElementType,
    shape: Shape,
    axes: tuple[str | None, ...] | None,
    value: Value | None,
) -> TensorType:
    tensor_type = object.__new__(TensorType)
    key = (dtype, shape, axes, None if value is None else _value_key(value))
    fields = (key, axes, dtype, shape, value)
    for name, field in zip(TensorType.__slots__, fields, strict=True):
        object.__setattr__(tensor_type, name, field)
    return tensor_type


def _check_axes(
    axes: Iterable[str | None], shape: Shape
) -> tuple[str | None, ...] | None:
    names = tuple(axes)
    if not shape.has_rank or len(names) != shape.rank:
        raise InvalidTypeError(
            "axis names do not match the shape",
            expected=f"names for {shape}",
            got=names,
        )
    for name in names:
        if name is not None:
            check_text(name, "an axis name")
            if not name:
                raise InvalidTypeError(
                    "an axis name must not be empty; None means no name"
                )
    return names if any(name is not None for name in names) else None


def _check_value(value: Any, dtype: ElementType, shape: Shape) -> Value:
    who = f"{dtype}{shape}"
    if dtype.kind not in ("int", "uint", "bool"):
        raise InvalidTypeError(
            "only integer and bool tensors can have known content", who=who
        )
    if not shape.is_static:
        raise InvalidTypeError("known content requires a static shape", who=who)
    sizes = [d for d in shape if isinstance(d, int)]
    if prod(sizes) > MAX_CONTENT or len(sizes) > MAX_DEPTH:
        raise InvalidTypeError(
            "too much content for a type", who=who, expected=f"at most {MAX_CONTENT}"
        )
    return _nested_tuple(value, sizes, bool if dtype.kind == "bool" else int, who)


def _nested_tuple(value: Any, sizes: list[int], kind: type, who: str) -> Value:
    """Convert to nested tuples of these lengths."""
    if sizes:
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        if not is_list or len(value) != sizes[0]:
            raise InvalidTypeError(
                "content does not match the shape",
                who=who,
                expected=f"{sizes[0]} items",
                got=f"{len(value)} items" if is_list else reprlib.repr(value),
            )
        return tuple(_nested_tuple(item, sizes[1:], kind, who) for item in value)
    if isinstance(value, Sym):
        return value
    if type(value) is bool or not hasattr(value, "__index__"):
        if type(value) is kind:
            return bool(value)
        raise InvalidTypeError(
            f"content of {who} is {kind.__name__}s and Syms", got=reprlib.repr(value)
        )
    if kind is bool:
        raise InvalidTypeError(
            f"content of {who} is bools and Syms", got=reprlib.repr(value)
        )
    number = int(value.__index__())
    check_bits(number)
    return number


def _flatten(value: Value) -> Iterator[Dim]:
    if isinstance(value, tuple):
        for item in value:
            yield from _flatten(item)
    else:
        yield value


def _value_key(value: Value) -> object:
    return tuple(map(_value_key, value)) if isinstance(value, tuple) else dim_key(value)


def _format_value(value: Value, symbols: Symbols | None) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_format_value(item, symbols) for item in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_dim(value, symbols)


class _CompositeType(Type):
    """A type with component types: `keyword<part, ...>`."""

    __slots__ = ("_count", "_depth", "_hash", "_parts")

    keyword: ClassVar[str]
    _parts: tuple[Type, ...]
    _depth: int
    _count: int
    _hash: int

    def _set(self, *given: Type | str) -> None:
        """Set the parts; limits on depth and size allow plain recursion over types."""
        from amanda.types.text import as_type

        parts = tuple(map(as_type, given))
        depth = 1 + max((part.depth for part in parts), default=0)
        count = 1 + sum(getattr(part, "_count", 1) for part in parts)
        if depth > MAX_DEPTH or count > MAX_PARTS:
            raise LimitError(
                "a type is nested absurdly deep or has absurdly many parts",
                who=self.keyword,
                expected=f"at most {MAX_DEPTH} levels and {MAX_PARTS} parts",
            )
        fields = (count, depth, hash((self.keyword, parts)), parts)
        for name, field in zip(_CompositeType.__slots__, fields, strict=True):
            object.__setattr__(self, name, field)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a type cannot be changed ({name})")

    @property
    def parts(self) -> tuple[Type, ...]:
        return self._parts

    @property
    def depth(self) -> int:
        return self._depth

    def map_dims(self, change: Callable[[Sym], Dim]) -> Type:
        return self._with_parts([part.map_dims(change) for part in self._parts])

    def _with_parts(self, parts: Sequence[Type]) -> Type:
        return type(self)(*parts)

    def text(self, symbols: Symbols | None = None) -> str:
        return f"{self.keyword}<{', '.join(p.text(symbols) for p in self._parts)}>"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, _CompositeType)
        return self is other or self._parts == other._parts

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self._parts)


class _ElementContainer(_CompositeType):
    __slots__ = ()

    def __init__(self, element: Type | str) -> None:
        self._set(element)

    @property
    def element(self) -> Type:
        """The element type."""
        return self._parts[0]


class SequenceType(_ElementContainer):
    """Any number of values of one type.

    >>> SequenceType(TensorType("float32"))
    sequence<float32[...]>
    """

    __slots__ = ()
    keyword = "sequence"


class OptionalType(_ElementContainer):
    """A value of a type, or none."""

    __slots__ = ()
    keyword = "optional"


class RefType(_ElementContainer):
    """A mutable reference to a value."""

    __slots__ = ()
    keyword = "ref"


class TupleType(_CompositeType):
    """A fixed number of values, each with its own type."""

    __slots__ = ()
    keyword = "tuple"

    def __init__(self, items: Iterable[Type | str] = ()) -> None:
        self._set(*items)

    @property
    def items(self) -> tuple[Type, ...]:
        return self._parts

    def _with_parts(self, parts: Sequence[Type]) -> TupleType:
        return TupleType(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return (TupleType, (self._parts,))


class MapType(_CompositeType):
    """A map from keys to values of one type.

    >>> MapType("int64", TensorType("float32", []))
    map<int64, float32[]>
    """

    __slots__ = ("key",)
    keyword = "map"

    key: DType | Type

    def __init__(self, key: DType | Type | str, value: Type | str) -> None:
        key = key if isinstance(key, Type) else DType(key)
        object.__setattr__(self, "key", key)
        self._set(*([key] if isinstance(key, Type) else []), value)

    @property
    def value(self) -> Type:
        return self._parts[-1]

    def text(self, symbols: Symbols | None = None) -> str:
        key = self.key.text(symbols) if isinstance(self.key, Type) else self.key
        return f"map<{key}, {self.value.text(symbols)}>"

    def __eq__(self, other: object) -> bool:
        if type(other) is not MapType:
            return NotImplemented
        return self.key == other.key and self._parts == other._parts

    __hash__ = _CompositeType.__hash__

    def _with_parts(self, parts: Sequence[Type]) -> MapType:
        return MapType(self.key, parts[-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return (MapType, (self.key, self.value))


class _Leaf(Type):
    """A type without components and dims."""

    __slots__ = ()

    keyword: ClassVar[str]

    def text(self, symbols: Symbols | None = None) -> str:  # noqa: ARG002 - no dims
        return self._format()

    def _format(self) -> str:
        return self.keyword


@dataclass(frozen=True, slots=True, repr=False)
class ResourceType(_Leaf):
    """A runtime handle (a table, a queue, a pointer), optionally of a named kind."""

    name: str = ""

    keyword: ClassVar[str] = "resource"

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a resource type")

    def _format(self) -> str:
        return f"resource<{quote(self.name)}>" if self.name else self.keyword


@dataclass(frozen=True, slots=True, repr=False)
class OpaqueType(_Leaf):
    """A type of some framework that has no equivalent here, as the framework's text."""

    content: str

    keyword: ClassVar[str] = "opaque"

    def __post_init__(self) -> None:
        check_text(self.content, "the text of an opaque type")

    def _format(self) -> str:
        return f"opaque<{quote(self.content)}>"


@dataclass(frozen=True, slots=True, repr=False)
class TokenType(_Leaf):
    """A value without data that orders side effects."""

    keyword: ClassVar[str] = "token"


@dataclass(frozen=True, slots=True, repr=False)
class VoidType(_Leaf):
    """No value."""

    keyword: ClassVar[str] = "void"
