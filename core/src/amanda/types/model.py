"""The types of values: tensors, and what frameworks pass around beside them.

All are immutable, hashable and comparable. `==` asks whether two types are written the
same, and never raises; an anonymous dim equals only itself. `str(type)` is read back by
`amanda.types.parse_type`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Final, TypeAlias

from amanda.errors import InvalidTypeError, LimitError
from amanda.types.dims import Dim, Sym, Symbols, dim_key
from amanda.types.dtypes import DType, ElementType, Quantized, unknown
from amanda.types.polynomial import check_bits
from amanda.types.shapes import Shape, dim_text
from amanda.types.words import check_text, quoted, word

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

MAX_DEPTH: Final = 64  # types in types
MAX_PARTS: Final = 65536  # types in a type, those in them counted
MAX_CONTENT: Final = 1024  # elements of a tensor whose content its type carries
_KEPT: Final = 4096

Value: TypeAlias = "Dim | tuple[Value, ...]"


class Type:
    """What a value of the graph may be. The base of all types; none of its own."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Type, ...]:
        """The types this one is made of."""
        return ()

    @property
    def depth(self) -> int:
        """How deep types are nested in this one; 1 where there are no parts."""
        return 1

    def text(self, symbols: Symbols | None = None) -> str:
        """The written form; `symbols` numbers dims without a name."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.text()


class TensorType(Type):
    """Elements of one type in a shape.

    - `dtype`: a DType, also `unknown`, or a Quantized
    - `axes`: a name or None for each dim, or None where no axis has a name
    - `value`: known content of a small integer or bool tensor of known shape, as nested
      tuples; its elements may be symbols, so a computed shape stays known

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

    def __new__(  # noqa: PYI034 - seldom a new one
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
            found = _plain.get(key)
            if found is None:
                if len(_plain) >= _KEPT:
                    _plain.clear()
                found = _plain[key] = _tensor_type(dtype, shape, None, None)
            return found
        names = None if axes is None else _checked_axes(axes, shape)
        content = None if value is None else _checked_value(value, dtype, shape)
        return _tensor_type(dtype, shape, names, content)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a type cannot be changed ({name})")

    @property
    def elements(self) -> tuple[Dim, ...] | None:
        """The known content in row-major order, None where it is not known."""
        return None if self.value is None else tuple(_flat(self.value))

    def text(self, symbols: Symbols | None = None) -> str:
        dtype = "?" if self.dtype is unknown else str(self.dtype)
        if self.axes is None:
            shape = self.shape.text(symbols)
        else:
            dims = [
                dim_text(dim, symbols)
                if name is None
                else f"{word(name)}={dim_text(dim, symbols)}"
                for name, dim in zip(self.axes, self.shape, strict=True)
            ]
            shape = f"[{', '.join(dims)}]"
        if self.value is None:
            return dtype + shape
        return f"{dtype}{shape} = {_value_text(self.value, symbols)}"

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


_plain: dict[tuple[ElementType, Shape], TensorType] = {}  # a memo: most types recur


def _tensor_type(
    dtype: ElementType,
    shape: Shape,
    axes: tuple[str | None, ...] | None,
    value: Value | None,
) -> TensorType:
    made = object.__new__(TensorType)
    key = (dtype, shape, axes, None if value is None else _value_key(value))
    fields = (key, axes, dtype, shape, value)
    for name, field in zip(TensorType.__slots__, fields, strict=True):
        object.__setattr__(made, name, field)
    return made


def _checked_axes(
    axes: Iterable[str | None], shape: Shape
) -> tuple[str | None, ...] | None:
    names = tuple(axes)
    if not shape.has_rank or len(names) != shape.rank:
        raise InvalidTypeError(
            "axis names do not fit the shape", expected=f"names for {shape}", got=names
        )
    for name in names:
        if name is not None:
            check_text(name, "an axis name")
            if not name:
                raise InvalidTypeError("an axis name is not empty; None is no name")
    return names if any(name is not None for name in names) else None


def _checked_value(value: Any, dtype: ElementType, shape: Shape) -> Value:
    who = f"{dtype}{shape}"
    if dtype.kind not in ("int", "uint", "bool"):
        raise InvalidTypeError("only integer and bool tensors carry content", who=who)
    if not shape.is_static:
        raise InvalidTypeError("known content needs a known shape", who=who)
    sizes = [d for d in shape if isinstance(d, int)]
    if prod(sizes) > MAX_CONTENT or len(sizes) > MAX_DEPTH:
        raise InvalidTypeError(
            "too much content for a type", who=who, expected=f"at most {MAX_CONTENT}"
        )
    return _nested(value, sizes, bool if dtype.kind == "bool" else int, who)


def _nested(value: Any, sizes: list[int], kind: type, who: str) -> Value:
    """`value` as nested tuples of these lengths."""
    if sizes:
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        if not is_list or len(value) != sizes[0]:
            raise InvalidTypeError(
                "content does not fit the shape",
                who=who,
                expected=f"{sizes[0]} items",
                got=f"{len(value)} items" if is_list else reprlib.repr(value),
            )
        return tuple(_nested(item, sizes[1:], kind, who) for item in value)
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


def _flat(value: Value) -> Iterator[Dim]:
    if isinstance(value, tuple):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _value_key(value: Value) -> object:
    return tuple(map(_value_key, value)) if isinstance(value, tuple) else dim_key(value)


def _value_text(value: Value, symbols: Symbols | None) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_value_text(item, symbols) for item in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return dim_text(value, symbols)


class _Nested(Type):
    """A type made of types: `keyword<part, ...>`."""

    __slots__ = ("_count", "_depth", "_hash", "_parts")

    keyword: ClassVar[str]
    _parts: tuple[Type, ...]
    _depth: int
    _count: int
    _hash: int

    def _set(self, *parts: Type) -> None:
        """The limits let everything that walks types do so plainly."""
        for part in parts:
            if not isinstance(part, Type):
                raise InvalidTypeError(
                    f"a part of a {self.keyword} is a type", got=reprlib.repr(part)
                )
        depth = 1 + max((part.depth for part in parts), default=0)
        count = 1 + sum(getattr(part, "_count", 1) for part in parts)
        if depth > MAX_DEPTH or count > MAX_PARTS:
            raise LimitError(
                "a type is nested absurdly deep or has absurdly many parts",
                who=self.keyword,
                expected=f"at most {MAX_DEPTH} levels and {MAX_PARTS} parts",
            )
        fields = (count, depth, hash((self.keyword, parts)), parts)
        for name, field in zip(_Nested.__slots__, fields, strict=True):
            object.__setattr__(self, name, field)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a type cannot be changed ({name})")

    @property
    def parts(self) -> tuple[Type, ...]:
        return self._parts

    @property
    def depth(self) -> int:
        return self._depth

    def text(self, symbols: Symbols | None = None) -> str:
        return f"{self.keyword}<{', '.join(p.text(symbols) for p in self._parts)}>"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, _Nested)
        return self is other or self._parts == other._parts

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self._parts)


class _OfElement(_Nested):
    __slots__ = ()

    def __init__(self, element: Type) -> None:
        self._set(element)

    @property
    def element(self) -> Type:
        """The type of what is inside."""
        return self._parts[0]


class SequenceType(_OfElement):
    """Any number of values of one type.

    >>> SequenceType(TensorType("float32"))
    sequence<float32[...]>
    """

    __slots__ = ()
    keyword = "sequence"


class OptionalType(_OfElement):
    """A value of a type, or nothing."""

    __slots__ = ()
    keyword = "optional"


class RefType(_OfElement):
    """A place that holds a value, and that ops may write to."""

    __slots__ = ()
    keyword = "ref"


class TupleType(_Nested):
    """Some values, each with its own type."""

    __slots__ = ()
    keyword = "tuple"

    def __init__(self, items: Iterable[Type] = ()) -> None:
        self._set(*items)

    @property
    def items(self) -> tuple[Type, ...]:
        return self._parts

    def __reduce__(self) -> tuple[Any, ...]:
        return (TupleType, (self._parts,))


class MapType(_Nested):
    """Values of one type under keys of an element type, or of any other type.

    >>> MapType("int64", TensorType("float32", []))
    map<int64, float32[]>
    """

    __slots__ = ("key",)
    keyword = "map"

    key: DType | Type

    def __init__(self, key: DType | Type | str, value: Type) -> None:
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

    __hash__ = _Nested.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return (MapType, (self.key, self.value))


class _Leaf(Type):
    """A type without parts and dims."""

    __slots__ = ()

    keyword: ClassVar[str]

    def text(self, symbols: Symbols | None = None) -> str:  # noqa: ARG002 - no dims
        return self._written()

    def _written(self) -> str:
        return self.keyword


@dataclass(frozen=True, slots=True, repr=False)
class ResourceType(_Leaf):
    """A handle of the runtime (a table, a queue, a pointer), maybe of a known kind."""

    name: str = ""

    keyword: ClassVar[str] = "resource"

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a resource type")

    def _written(self) -> str:
        return f"resource<{quoted(self.name)}>" if self.name else self.keyword


@dataclass(frozen=True, slots=True, repr=False)
class OpaqueType(_Leaf):
    """A type of some framework that nothing here stands for, in its own words."""

    content: str

    keyword: ClassVar[str] = "opaque"

    def __post_init__(self) -> None:
        check_text(self.content, "the text of an opaque type")

    def _written(self) -> str:
        return f"opaque<{quoted(self.content)}>"


@dataclass(frozen=True, slots=True, repr=False)
class TokenType(_Leaf):
    """No data: a value that only orders effects."""

    keyword: ClassVar[str] = "token"


@dataclass(frozen=True, slots=True, repr=False)
class VoidType(_Leaf):
    """Nothing at all."""

    keyword: ClassVar[str] = "void"
