"""Shape arguments: integers that decide shapes, constant or computed.

A kernel receives them as Python integers in nested tuples, an inference rule as
dims. A computed integer is `unknown_integer()` for a rule: an expression of which
nothing can be proved. It keeps the length of a shape known even if its elements are
not."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final, NoReturn

from amanda.errors import InvalidTypeError, Undecided
from amanda.types import Dim, Sym, TensorType

MAX_KNOWN_ELEMENTS: Final = 64
"""The largest tensor whose content is tracked in types."""


def unknown_integer() -> Dim:
    """An arbitrary integer, possibly negative; a plain symbol stands for a size."""
    return Sym.unknown() - Sym.unknown()


def may_be_negative(dim: Dim) -> bool:
    """Whether a dim expression may be negative, and so not a size.

    `unknown_integer()` subtracts an anonymous symbol, which expressions of sizes
    hardly ever do.

    >>> may_be_negative(unknown_integer()), may_be_negative(Sym.named("n") - 1)
    (True, False)
    """
    if not isinstance(dim, Sym) or dim.is_anonymous:
        return False
    nameless = {symbol.key[0][0] for symbol in dim.free if symbol.is_anonymous}
    return any(factor < 0 and nameless & {part} for part, factor in dim.terms)


class UnknownShapeArg:
    """A computed shape argument of unknown length."""

    __slots__ = ("type",)

    def __init__(self, type: TensorType) -> None:
        self.type = type

    def _raise_undecided(self, *_: object) -> NoReturn:
        raise Undecided("a shape decides that is known at run time only")

    def __iter__(self) -> Iterator[Any]:
        self._raise_undecided()

    __len__ = __getitem__ = __index__ = __bool__ = _raise_undecided


def to_integers(value: Any) -> Any:
    """A shape argument as a kernel expects it: integers in nested tuples.

    >>> import numpy as np
    >>> to_integers(np.array([1, 2])), to_integers([[1, 0]]), to_integers(np.int64(3))
    ((1, 2), ((1, 0),), 3)
    """
    if value is None or type(value) is int:
        return value
    if isinstance(value, list | tuple):
        return tuple(map(to_integers, value))
    if hasattr(value, "tolist"):
        return _nested_integers(value.tolist())
    if hasattr(value, "__array__"):
        import numpy as np

        return _nested_integers(np.asarray(value).tolist())
    if isinstance(value, type) or not hasattr(value, "__index__"):
        raise InvalidTypeError("a shape argument holds integers", got=repr(value))
    return value.__index__()


def _nested_integers(value: Any) -> Any:
    if isinstance(value, list):
        if all(type(item) is int for item in value):
            return tuple(value)
        return tuple(map(_nested_integers, value))
    if type(value) is not int:
        raise InvalidTypeError("a shape argument holds integers", got=value)
    return value


def to_dims(value: Any) -> Any:
    """A shape argument as an inference rule expects it: dims in tuples, None, or
    `UnknownShapeArg`."""
    if value is None or type(value) is int or isinstance(value, Sym | UnknownShapeArg):
        return value
    if isinstance(value, list | tuple):
        return tuple(map(_one_dim, value))
    own = getattr(value, "type", value)
    if own is None:  # a value whose type is not known
        return UnknownShapeArg(TensorType())
    return dims_of_type(own) if isinstance(own, TensorType) else to_integers(value)


def _one_dim(value: Any) -> Any:
    found = to_dims(value)
    return unknown_integer() if isinstance(found, UnknownShapeArg) else found


def dims_of_type(type: TensorType) -> Any:
    """The dims that a tensor type holds, for use as a shape argument."""
    if type.value is not None:
        return type.value
    sizes = [d for d in type.shape if isinstance(d, int)] if type.shape.has_rank else []
    if not type.shape.is_static or prod(sizes) > MAX_KNOWN_ELEMENTS:
        return UnknownShapeArg(type)
    return _unknown_integers(sizes)


def _unknown_integers(sizes: list[int]) -> Any:
    if not sizes:
        return unknown_integer()
    return tuple(_unknown_integers(sizes[1:]) for _ in range(sizes[0]))


def is_static(value: Any) -> bool:
    """Whether the result of `to_dims` holds nothing but numbers."""
    if isinstance(value, tuple):
        return all(map(is_static, value))
    return value is None or type(value) is int


def normalize_axis(axis: Any, rank: int, what: str = "axis") -> int:
    """A possibly negative axis as 0 <= axis < rank; Undecided if computed."""
    if not hasattr(axis, "__index__"):
        raise InvalidTypeError(f"the {what} is an integer", got=repr(axis))
    number = int(axis.__index__())
    if not -rank <= number < rank:
        raise InvalidTypeError(
            f"there is no such {what}",
            expected=f"{-rank} to {rank - 1}" if rank else "a tensor with axes",
            got=number,
        )
    return number % rank


def normalize_axes(axes: Any, rank: int) -> tuple[int, ...]:
    """Axes as 0 <= axis < rank, all of them if `axes` is None.

    >>> normalize_axes((-1, 0), 3), normalize_axes(None, 2)
    ((2, 0), (0, 1))
    """
    if axes is None:
        return tuple(range(rank))
    given = axes if isinstance(axes, tuple | list | UnknownShapeArg) else (axes,)
    found = tuple(normalize_axis(axis, rank) for axis in given)
    if len(set(found)) != len(found):
        raise InvalidTypeError("an axis is named twice", got=list(given))
    return found
