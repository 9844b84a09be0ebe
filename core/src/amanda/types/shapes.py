"""Shapes: the dims of a tensor, or an unknown rank."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, overload

from amanda.errors import InvalidTypeError, Undecided
from amanda.types.dims import Dim, Sym, Symbols, dim_key, product

__all__ = ["MAX_DIM", "Shape"]

MAX_DIM: Final = 2**63 - 1
_CACHE_SIZE: Final = 4096

_static_shapes: dict[
    tuple[int, ...], Shape
] = {}  # a cache: most shapes occur many times


class Shape:
    """The dims of a tensor; `Shape(None)` if the rank is unknown.

    Equality and hash use the text and never raise; an anonymous dim equals only itself.
    `amanda.types.lattice` compares by value.

    >>> Shape([2, Sym.named("n")])
    [2, n]
    >>> Shape(None)
    [...]
    """

    __slots__ = ("_dims", "_hash", "_key")

    _dims: tuple[Dim, ...] | None
    _key: Any
    _hash: int

    def __new__(  # noqa: PYI034 - usually cached
        cls, dims: Iterable[Dim] | Shape | None = None
    ) -> Shape:
        if dims is None:
            return _UNKNOWN
        if type(dims) is Shape:
            return dims
        given: Any = dims if type(dims) is tuple else _as_tuple(dims)
        for dim in given:
            if type(dim) is not int or not 0 <= dim <= MAX_DIM:
                given = tuple(map(_check_dim, given))
                # Only ints may be dict keys: comparing symbols could raise.
                if any(isinstance(dim, Sym) for dim in given):
                    return _shape(given, tuple(map(dim_key, given)))
                break
        found = _static_shapes.get(given)
        if found is None:
            if len(_static_shapes) >= _CACHE_SIZE:
                _static_shapes.clear()
            found = _static_shapes[given] = _shape(given, given)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Shape cannot be changed ({name})")

    @property
    def has_rank(self) -> bool:
        """True if the number of dims is known."""
        return self._dims is not None

    @property
    def is_static(self) -> bool:
        """True if every dim is a known number."""
        return self._dims is not None and self._dims is self._key

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims; raises `Undecided` if the rank is unknown."""
        if self._dims is None:
            raise Undecided("the rank of this tensor is not known")
        return self._dims

    @property
    def rank(self) -> int:
        """The number of dims; raises `Undecided` if it is unknown."""
        return len(self.dims)

    @property
    def size(self) -> Dim:
        """The number of elements; raises `Undecided` if the rank is unknown."""
        return product(self.dims)

    @property
    def key(self) -> tuple[object, ...] | None:
        """Hashable; equal for shapes with the same text. Never raises."""
        return self._key  # type: ignore[no-any-return]

    def map(self, change: Callable[[Sym], Dim]) -> Shape:
        """Apply a function to every symbolic dim."""
        if self._dims is None or self.is_static:
            return self
        return Shape([change(d) if isinstance(d, Sym) else d for d in self._dims])

    def __iter__(self) -> Iterator[Dim]:
        return iter(self.dims)

    def __len__(self) -> int:
        return len(self.dims)

    @overload
    def __getitem__(self, index: int) -> Dim: ...
    @overload
    def __getitem__(self, index: slice) -> Shape: ...
    def __getitem__(self, index: int | slice) -> Dim | Shape:
        found = self.dims[index]
        return Shape(found) if isinstance(found, tuple) else found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Shape):
            return NotImplemented
        return bool(self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def text(self, symbols: Symbols | None = None) -> str:
        """The text; `symbols` numbers anonymous dims."""
        if self._dims is None:
            return "[...]"
        return f"[{', '.join(format_dim(dim, symbols) for dim in self._dims)}]"

    def __repr__(self) -> str:
        return self.text()

    def __reduce__(self) -> tuple[type[Shape], tuple[tuple[Dim, ...] | None]]:
        return (Shape, (self._dims,))


def format_dim(dim: Dim, symbols: Symbols | None) -> str:
    return dim.text(symbols) if isinstance(dim, Sym) else str(dim)


def _as_tuple(dims: Any) -> tuple[Any, ...]:
    try:
        return tuple(dims)
    except TypeError:
        raise InvalidTypeError(
            "a shape is a sequence of dims", got=reprlib.repr(dims)
        ) from None


def _check_dim(dim: Any) -> Dim:
    if isinstance(dim, Sym):
        return dim
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise InvalidTypeError("a dim is an int or a Sym", got=reprlib.repr(dim))
    try:
        value = int(dim.__index__())
    except TypeError:  # an array
        raise InvalidTypeError(
            "a dim is an int or a Sym", got=reprlib.repr(dim)
        ) from None
    if not 0 <= value <= MAX_DIM:
        raise InvalidTypeError(
            "a dim is out of range",
            expected=f"0 to {MAX_DIM}",
            got=_format_int(value),
        )
    return value


def _format_int(value: int) -> str:
    """An int as text, unless it is too large to print."""
    bits = value.bit_length()
    return str(value) if bits <= 256 else f"a number of {bits} bits"


def _shape(dims: tuple[Dim, ...] | None, key: object) -> Shape:
    shape = object.__new__(Shape)
    object.__setattr__(shape, "_dims", dims)
    object.__setattr__(shape, "_key", key)
    object.__setattr__(shape, "_hash", hash(key))
    return shape


_UNKNOWN = _shape(None, None)
