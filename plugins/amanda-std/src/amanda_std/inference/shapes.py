"""Shape rules shared by many ops. They raise Undecided where a shape is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from amanda.errors import InvalidTypeError, Undecided
from amanda.types import Dim, Shape, Sym, TensorType, dims_equal, minimum
from amanda_std.inference.shape_arguments import (
    UnknownShapeArg,
    normalize_axes,
    normalize_axis,
)

Dims = tuple[Dim, ...]


def same_as_first(x: TensorType) -> Shape:
    """The shape of the first argument."""
    return x.shape


def same_along_axis(x: TensorType, *, axis: int) -> Shape:
    """The shape of the first argument, which has this axis."""
    normalize_axis(axis, x.shape.rank)
    return x.shape


def pointwise(x: TensorType) -> Shape:
    """The shape of the only argument, for ops that are elementwise."""
    return x.shape


def elementwise(*xs: TensorType | None) -> Shape:
    """The shape that all arguments broadcast to."""
    return broadcast(*(x.shape for x in xs if x is not None))


def broadcast(*shapes: Shape) -> Shape:
    """
    >>> n = Sym.named("n")
    >>> broadcast(Shape([n, 1]), Shape([3]))
    [n, 3]
    """
    if any(not shape.has_rank for shape in shapes):
        return Shape(None)
    if all(shape == shapes[0] for shape in shapes[1:]):
        return shapes[0] if shapes else Shape([])
    rank = max(shape.rank for shape in shapes)
    ones: list[Dim] = [1]
    columns = [[*ones * (rank - s.rank), *s.dims] for s in shapes]
    return Shape(
        [_broadcast_dims(column, shapes) for column in zip(*columns, strict=True)]
    )


def _broadcast_dims(dims: Sequence[Dim], shapes: Sequence[Shape]) -> Dim:
    found: Dim = 1
    for dim in dims:
        if _equals(dim, 1) or dims_equal(found, dim):
            continue
        if _equals(found, 1):
            found = dim
        elif isinstance(found, int) and isinstance(dim, int):
            raise InvalidTypeError(
                "the shapes do not broadcast",
                expected="equal dims, or 1",
                got=" and ".join(map(str, shapes)),
            )
        elif isinstance(dim, int):
            found = dim  # a symbol beside a number over 1 is that number, or 1
        elif not isinstance(found, int):
            found = _broadcast_symbols(found, dim)
    return found


def _broadcast_symbols(a: Sym, b: Sym) -> Dim:
    """The dim that two symbols broadcast to: the one that is 1 only if the other is.

    If neither can be proved, the result is unknown.

    >>> n = Sym.named("n")
    >>> _broadcast_symbols(minimum(512, n), n), _broadcast_symbols(n, Sym.named("m"))
    (n, ?)
    """
    for small, large in ((a, b), (b, a)):
        if _is_upper_bound(large, small):
            return large
    return Sym.unknown()


def _is_upper_bound(large: Sym, small: Sym) -> bool:
    """Whether `small` is at most `large`, and 0 only if `large` is.

    Proved directly, or by cases: a symbol is 0, or at least 1."""
    if _is_surely_upper_bound(large, small):
        return True
    for symbol in sorted(large.free & small.free, key=str):
        cases: list[dict[Sym, Dim]] = [{symbol: 0}, {symbol: symbol + 1}]
        if all(_is_upper_bound_where(large, small, case) for case in cases):
            return True
    return False


def _is_upper_bound_where(large: Sym, small: Sym, case: dict[Sym, Dim]) -> bool:
    try:
        return _is_surely_upper_bound(large.substitute(case), small.substitute(case))
    except InvalidTypeError:  # it divides by 0, so there is no such dim
        return True


def _is_surely_upper_bound(large: Dim, small: Dim) -> bool:
    try:
        return bool(minimum(large, 1) <= small <= large)
    except Undecided:
        return False


def _equals(dim: Dim, number: int) -> bool:
    return isinstance(dim, int) and dim == number


def expect_same(a: Dim, b: Dim, what: str) -> Dim:
    """One of two dims that must be equal: the more specific one."""
    if dims_equal(a, b) is False:
        raise InvalidTypeError(what, expected=a, got=b)
    if isinstance(a, int):
        return a
    return b if isinstance(b, int) or a.is_anonymous else a


def reduce(x: TensorType, axes: Any = None, *, keepdims: bool = False) -> Shape:
    """The shape after a reduction; `axes` None reduces over all."""
    rank = x.shape.rank if x.shape.has_rank else None
    if rank is None:
        return Shape([]) if axes is None and not keepdims else Shape(None)
    if isinstance(axes, UnknownShapeArg) or _has_symbols(axes):
        return Shape([Sym.unknown() for _ in range(rank)] if keepdims else None)
    gone = set(normalize_axes(axes, rank))
    kept = enumerate(x.shape.dims)
    return Shape([1 if i in gone else d for i, d in kept if keepdims or i not in gone])


def _has_symbols(axes: Any) -> bool:
    return any(
        isinstance(a, Sym) for a in (axes if isinstance(axes, tuple) else [axes])
    )


def unknown_dims(count: int) -> Shape:
    """A shape of this rank with unknown dims."""
    return Shape([Sym.unknown() for _ in range(count)])


def product(dims: Iterable[Dim]) -> Dim:
    """The product of dims."""
    found: Dim = 1
    for dim in dims:
        found = found * dim
    return found


def matmul(a: TensorType, b: TensorType) -> Shape:
    """As in numpy: vectors lose their axis, leading axes broadcast."""
    if not (a.shape.has_rank and b.shape.has_rank):
        return Shape(None)
    left, right = a.shape.dims, b.shape.dims
    if not left or not right:
        raise InvalidTypeError(
            "matmul takes no scalars", got=f"{a.shape} and {b.shape}"
        )
    inner = right[-2] if len(right) > 1 else right[0]
    expect_same(left[-1], inner, "columns and rows differ")
    batch = broadcast(Shape(left[:-2]), Shape(right[:-2])).dims
    return Shape((*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ())))


def gather(x: TensorType, indices: TensorType, axis: Any = 0) -> Shape:
    from amanda_std.inference.shape_arguments import normalize_axis

    at = normalize_axis(axis, x.shape.rank)
    dims = x.shape.dims
    return Shape((*dims[:at], *indices.shape.dims, *dims[at + 1 :]))
