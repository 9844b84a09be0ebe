"""LDL factorization of symmetric and Hermitian matrices that may be indefinite.

By the method of Bunch and Kaufman, in the packed form of LAPACK: the blocks of D, of
one or two rows, on the diagonal, and the columns of L below them. Row exchanges are
counted from 1; that of a block of two rows is negative, and stands in both. They are
not applied to the columns before.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from amanda.types import Shape, TensorType
from amanda_std.engine.annotations import Floating, Index
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.engine.traits import Trait
from amanda_std.ops._late import late as ops
from amanda_std.ops._oracles.matrices import matrix_product, sample_matrix
from amanda_std.ops.linalg.elimination import (
    column_of,
    element_size,
    iterate,
    numbers,
    row_of,
    swap_rows,
)
from amanda_std.ops.linalg.matrices import (
    adjoint,
    call_lapack,
    conjugate,
    is_complex,
    square_dims,
)

_ALPHA = (1 + math.sqrt(17)) / 8
"""The ratio that bounds how much elements grow by either kind of block."""


def _ldl_shapes(x: TensorType) -> list[Shape]:
    whole = square_dims(x)
    return [Shape(whole), Shape(whole[:-1])]


@primitive(shape=_ldl_shapes, numpy_only=True)
def ldl_factor(x: Floating, *, hermitian: bool = False) -> tuple[Floating, Index]:
    """LDL factorization: L and the blocks of D in one matrix, and the row exchanges

    Both are packed as by LAPACK; only the lower triangle of x is read. `hermitian`:
    complex matrices are Hermitian, else symmetric. See `ldl_solve`."""
    from scipy.linalg import get_lapack_funcs

    def factor(x: Any) -> Any:
        name = "hetrf" if hermitian and x.dtype.kind == "c" else "sytrf"
        function = get_lapack_funcs(name, (x,))
        packed, pivots = np.zeros_like(x), np.zeros(x.shape[:-1], "int64")
        for at in np.ndindex(x.shape[:-2]):
            if x[at].size:
                packed[at], pivots[at], _ = function(x[at], lower=1)
        return np.tril(packed), pivots

    outputs: tuple[Any, Any] = call_lapack(factor, x, first=True)
    return outputs


ldl_factor.not_differentiable("its form depends on comparisons of elements")


class _Step(NamedTuple):
    """The matrix that remains, what is packed, and the next column of each matrix."""

    rest: Any
    packed: Any
    pivots: Any
    column: Any


@ldl_factor.decomposition
def factor_by_bunch_and_kaufman(x: Any, *, hermitian: bool) -> Any:
    """One block of each matrix in an iteration."""
    places = numbers(x, -1)
    below = ops.tril(x, -1)
    line = ops.triu(ops.tril(x))
    if hermitian and is_complex(x):
        line = _without_imaginary_part(line)
    whole = below + (adjoint(below) if hermitian else ops.swap_last(below)) + line
    none = ops.astype(ops.zeros_like(ops.sum(element_size(x), (-1,))), dtype="int64")
    start = _Step(whole, ops.zeros_like(x), none, ops.sum(none, (-1,), keepdims=True))

    def step(i: Any, *state: Any) -> Any:
        del i
        return tuple(_eliminate_block(places, _Step(*state), hermitian))

    done = _Step(*iterate(ops.dim(x, axis=-1), step, *start))
    return done.packed, done.pivots


def _without_imaginary_part(x: Any) -> Any:
    part = ops.real(x)
    return ops.complex(part, ops.zeros_like(part))


def _eliminate_block(places: Any, now: _Step, hermitian: bool) -> _Step:
    """Choose a block of one or two rows, and subtract its product from what remains."""
    first = ops.equal(places, now.column)
    two, partner = _choose_block(places, now, first)
    step = ops.astype(two, dtype="int64")
    last = ops.equal(places, now.column + step)
    rest = _exchange_both(now.rest, last, ops.equal(places, partner))
    second = ops.logical_and(ops.equal(places, now.column + 1), two)
    after = ops.greater(places, now.column + step)
    columns = _pick_column(rest, first), _pick_column(rest, second)
    weights = _weights(columns, first, second, two, after, hermitian)
    rest = _outside(rest, after)
    for weight, column in zip(weights, columns, strict=True):
        factor = _where(after, conjugate(column) if hermitian else column)
        rest = rest - _down(weight) * _across(factor)
    if hermitian and is_complex(rest):
        diagonal = ops.equal(ops.expand_dims(places, (1,)), places)
        rest = ops.where(diagonal, _without_imaginary_part(rest), rest)
    packed = now.packed
    kept = ops.greater_equal(places, now.column), second
    for weight, column, hit, rows in zip(
        weights, columns, (first, second), kept, strict=True
    ):
        whole = ops.where(after, weight, _where(rows, column))
        packed = ops.where(_across(hit), _down(whole), packed)
    number = ops.where(two, -1 - partner, partner + 1)
    pivots = ops.where(ops.logical_or(first, second), number, now.pivots)
    return _Step(rest, packed, pivots, now.column + step + 1)


def _choose_block(places: Any, now: _Step, first: Any) -> tuple[Any, Any]:
    """Whether the next block has two rows, and the row that its last one is exchanged
    with."""
    sizes = element_size(_pick_column(now.rest, first))
    own = _largest(sizes, first)
    later = ops.greater(places, now.column)
    in_column = _largest(sizes, later)
    row = ops.argmax(ops.where(later, sizes, -1.0), -1, keepdims=True)
    there = ops.equal(places, row)
    others = element_size(_pick_column(now.rest, there))
    in_row = _largest(others, ops.logical_not(there))
    enough = ops.greater_equal(own, in_column * _ALPHA)
    ratio = in_column / ops.where(ops.equal(in_row, 0.0), 1.0, in_row)
    stays = ops.logical_or(enough, ops.greater_equal(own, in_column * ratio * _ALPHA))
    alone = ops.greater_equal(_largest(others, there), in_row * _ALPHA)
    two = ops.logical_not(ops.logical_or(stays, alone))
    return two, ops.where(stays, now.column, row)


def _weights(
    columns: Any, first: Any, second: Any, two: Any, after: Any, hermitian: bool
) -> tuple[Any, Any]:
    """The columns of L: those of what remains, times the inverse of the block."""
    a, b = columns
    top, low, end = (
        _element_at(a, first),
        _element_at(a, second),
        _element_at(b, second),
    )
    right = conjugate(low) if hermitian else low
    low, right = (_or_one(v, two) for v in (low, right))
    above, under = end / low, top / right
    scale = _or_one(above * under - 1.0, two)
    both = (a * above - b) / right / scale, (b * under - a) / low / scale
    single = a / ops.where(ops.equal(top, 0.0), ops.ones_like(top), top)
    left = ops.where(two, both[0], single)
    return _where(after, left), _where(ops.logical_and(after, two), both[1])


def _or_one(x: Any, condition: Any) -> Any:
    return ops.where(condition, x, ops.ones_like(x))


def _where(condition: Any, x: Any) -> Any:
    return ops.where(condition, x, ops.zeros_like(x))


def _down(x: Any) -> Any:
    return ops.expand_dims(x, (-1,))


def _across(x: Any) -> Any:
    return ops.expand_dims(x, (-2,))


def _outside(x: Any, kept: Any) -> Any:
    """Zeros in the rows and columns of matrices that are not kept."""
    return _where(ops.logical_and(_down(kept), _across(kept)), x)


def _element_at(x: Any, at: Any) -> Any:
    """The element at a place, as an axis of length 1."""
    return ops.sum(_where(at, x), (-1,), keepdims=True)


def _pick_column(x: Any, at: Any) -> Any:
    return ops.sum(_where(_across(at), x), (-1,))


def _largest(sizes: Any, among: Any) -> Any:
    return ops.max(_where(among, sizes), (-1,), keepdims=True)


def _exchange_both(x: Any, a: Any, b: Any) -> Any:
    """Exchange two rows, and the columns of the same numbers."""
    for _ in range(2):
        x = ops.swap_last(_exchange_rows(x, a, b))
    return x


def _exchange_rows(x: Any, a: Any, b: Any) -> Any:
    rows = [ops.sum(_where(_down(at), x), (-2,), keepdims=True) for at in (a, b)]
    return ops.where(_down(a), rows[1], ops.where(_down(b), rows[0], x))


# -- solving -----------------------------------------------------------------------


class _Blocks(NamedTuple):
    """What is packed: L without the blocks of D, and where these have two rows."""

    low: Any
    main: Any
    side: Any
    """The elements below the diagonal of blocks of two rows; 1 elsewhere."""
    row: Any
    """The row that each one is exchanged with."""
    first: Any
    second: Any


@composite
def ldl_solve(
    packed: Floating, pivots: Index, b: Floating, *, hermitian: bool = False
) -> Floating:
    """Solve a @ x = b, for a as factored by `ldl_factor`"""
    blocks = _unpack(packed, pivots)
    places = numbers(packed, -1)
    last = ops.dim(packed, axis=-1) - 1
    start = b + ops.matmul(ops.zeros_like(packed), ops.zeros_like(b))

    def forward(i: Any, y: Any) -> Any:
        return _solve_forward(places, i, blocks, y, hermitian)

    def backward(i: Any, y: Any) -> Any:
        return _solve_backward(places, last - i, blocks, y, hermitian)

    return iterate(last + 1, backward, iterate(last + 1, forward, start))


ldl_solve.trait(Trait.EXPAND_EARLY)


def _unpack(packed: Any, pivots: Any) -> _Blocks:
    places = numbers(packed, -1)
    negative = ops.less(pivots, 0)
    count = ops.astype(negative, dtype="int64")
    before = ops.cumulative_sum(count, -1, exclusive=True)
    odd = ops.equal(ops.remainder(before, 2), 1)
    first = ops.logical_and(negative, ops.logical_not(odd))
    under = ops.equal(_down(places), _across(places + 1))
    inside = ops.logical_and(_across(first), under)
    zero = ops.zeros_like(packed)
    side = ops.sum(ops.where(inside, packed, zero), (-2,))
    here = ops.equal(_down(places), places)
    return _Blocks(
        ops.tril(ops.where(inside, zero, packed), -1),
        ops.sum(ops.where(here, packed, zero), (-2,)),
        _or_one(side, first),
        ops.astype(ops.abs(pivots), dtype="int64") - 1,
        first,
        ops.logical_and(negative, odd),
    )


def _matrix_at(x: Any, i: Any) -> Any:
    """Element i of the last axis, as a matrix of one element."""
    return _down(_down(column_of(x, i)))


def _rows_before(i: Any) -> Any:
    return ops.maximum(i - 1, 0)


def _solve_forward(
    places: Any, i: Any, blocks: _Blocks, y: Any, hermitian: bool
) -> Any:
    """Row i of D @ adjoint(L) @ x, and with it the row before in a block of two."""
    second = _matrix_at(blocks.second, i)
    waits = _matrix_at(blocks.first, i)
    moved = swap_rows(y, places, i, _matrix_at(blocks.row, i))
    y = ops.where(waits, y, moved)
    h, down = _rows_before(i), _down(places)
    own, last = _across(row_of(y, i)), _across(row_of(y, h))
    left = y - _down(column_of(blocks.low, i)) * own
    left = left - _where(second, _down(column_of(blocks.low, h)) * last)
    main = _matrix_at(blocks.main, i)
    side = _or_one(_matrix_at(blocks.side, h), second)
    other = conjugate(side) if hermitian else side
    top, end = _matrix_at(blocks.main, h) / other, main / side
    scale = _or_one(top * end - 1.0, second)
    upper = (end * (last / other) - own / side) / scale
    lower = (top * (own / side) - last / other) / scale
    single = own / _or_one(main, ops.logical_not(ops.logical_or(waits, second)))
    found = ops.where(ops.equal(down, i), ops.where(second, lower, single), left)
    in_pair = ops.logical_and(second, ops.equal(down, h))
    return ops.where(waits, y, ops.where(in_pair, upper, found))


def _solve_backward(
    places: Any, i: Any, blocks: _Blocks, y: Any, hermitian: bool
) -> Any:
    """Row i of x, and with it the row before in a block of two."""
    second, down = _matrix_at(blocks.second, i), _down(places)
    waits, h = _matrix_at(blocks.first, i), _rows_before(i)
    back = conjugate(blocks.low) if hermitian else blocks.low
    rows = [
        ops.sum(_down(column_of(back, j)) * y, (-2,), keepdims=True) for j in (i, h)
    ]
    in_pair = ops.logical_and(second, ops.equal(down, h))
    change = ops.where(ops.equal(down, i), rows[0], _where(in_pair, rows[1]))
    found = swap_rows(y - change, places, i, _matrix_at(blocks.row, i))
    return ops.where(waits, y, found)


# -- samples -----------------------------------------------------------------------


def _known_factors(dtype: str, hermitian: bool) -> list[tuple[Any, Any, list[int]]]:
    """Matrices of known factors, each with what is packed, and the exchanges."""
    i = 1j if dtype.startswith("c") else 1
    d = 1 if hermitian or i == 1 else 1 + 0.25j
    low = np.array([[1, 0, 0], [0.5 * i, 1, 0], [0.25, -0.5 * i, 1]])
    block = np.array([[1, 0, 0], [0, 1, 0], [0.25, -0.5 * i, 1]])
    side = 2 + 1j if i == 1j else 2.0
    pair = np.array([[0.5, np.conj(side) if hermitian else side, 0],
                     [side, 0.25, 0], [0, 0, -2]])  # fmt: skip
    made: list[tuple[Any, Any, list[int]]] = []
    for left, middle, swap, pivots in (
        (low, np.diag([4.0 * d, 3, -2]), [0, 1, 2], [1, 2, 3]),
        (low, np.diag([8.0 * d, -1 if d == 1 else 1, -2]), [1, 0, 2], [2, 2, 3]),
        (block, pair, [0, 1, 2], [-2, -2, 3]),
        (block, pair, [0, 2, 1], [-3, -3, 3]),
    ):
        right = left.conj().T if hermitian else left.T
        x = matrix_product(matrix_product(left + 0 * side, middle + 0 * side), right)
        packed = np.tril(left, -1) + np.tril(middle)
        made.append((x[swap][:, swap].astype(dtype), packed.astype(dtype), pivots))
    return made


def _kinds() -> list[tuple[str, bool]]:
    return [("float64", False), ("float32", True), ("complex128", True),
            ("complex128", False), ("complex64", True)]  # fmt: skip


@ldl_factor.samples
def _() -> Samples:
    for dtype, hermitian in _kinds():
        attrs = {"hermitian": hermitian}
        known = _known_factors(dtype, hermitian)
        for x, packed, pivots in known:
            parts = [packed, array(pivots, "int64")]
            yield Sample((np.tril(x),), parts, attrs)
        many = [np.stack(row) for row in zip(*known, strict=True)]
        yield Sample((many[0],), [many[1], many[2]], attrs)
    empty = np.zeros((0, 2, 2))
    yield Sample((empty,), [empty, np.zeros((0, 2), "int64")])


@ldl_solve.samples
def _() -> Samples:
    for dtype, hermitian in _kinds():
        attrs = {"hermitian": hermitian}
        known = _known_factors(dtype, hermitian)
        tolerance = 1e-4 if dtype in ("float32", "complex64") else None
        y = sample_matrix(3, 2).astype(dtype)
        for i, (x, packed, pivots) in enumerate(known):
            smooth = i == 3 and dtype in ("float64", "complex128")
            args = packed, array(pivots, "int64"), matrix_product(x, y)
            yield Sample(args, y, attrs, tolerance, smooth)
        many = [np.stack(row) for row in zip(*known, strict=True)]
        args = many[1], many[2], matrix_product(many[0], np.stack([y] * 4))
        yield Sample(args, np.stack([y] * 4), attrs, tolerance, smooth=False)
    empty = np.zeros((0, 2, 2))
    args = empty, np.zeros((0, 2), "int64"), empty
    yield Sample(args, empty, smooth=False)
