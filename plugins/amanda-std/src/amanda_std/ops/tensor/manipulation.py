"""Concatenation, splitting, slicing, padding, tiling and flipping."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, Undecided
from amanda.types import Dim, Shape, Sym, TensorType, maximum, minimum
from amanda_std.engine.annotations import Array, ShapeArg
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array
from amanda_std.engine.traits import Trait
from amanda_std.inference import shapes
from amanda_std.inference.shape_arguments import (
    UnknownShapeArg,
    may_be_negative,
    normalize_axes,
    normalize_axis,
)
from amanda_std.ops.math.arithmetic import negative
from amanda_std.ops.math.reduction import sum_, sum_to
from amanda_std.ops.tensor.creation import arange, zeros, zeros_like
from amanda_std.ops.tensor.scatter import scatter_nd
from amanda_std.ops.tensor.shape import expand_dims, reshape, squeeze, transpose


def _concat_shape(*xs: TensorType, axis: int = 0) -> Shape:
    if not xs:
        raise InvalidTypeError("concat needs at least one tensor")
    rows = [x.shape.dims for x in xs]
    at = normalize_axis(axis, len(rows[0]))
    if len({len(row) for row in rows}) > 1:
        raise InvalidTypeError("concat needs tensors of the same rank", got=rows)
    result = list(rows[0])
    for row in rows[1:]:
        for i, d in enumerate(row):
            if i == at:
                result[i] = result[i] + d
            else:
                result[i] = shapes.expect_same(
                    result[i], d, f"the dims of axis {i} differ"
                )
    return Shape(result)


@primitive(shape=_concat_shape, content=True)
def concat(*xs: Array, axis: int = 0) -> Array:
    """Concatenate tensors along an axis"""
    return xp(*xs).concat(xs, axis=axis)


concat.trait(
    Trait.KEEPS_NON_NEGATIVE, Trait.ALONG_AXES, Trait.PARTWISE, Trait.SPREADS_NON_FINITE
)


@concat.gradient
def _(g: Any, *xs: Any, axis: int) -> Any:
    if len(xs) == 1:
        return [g]
    return split(g, [x.shape[axis] for x in xs], axis=axis, outputs=len(xs))


@concat.samples
def _() -> Samples:
    a, b = array([[1.0, 2.0]]), array([[3.0, 4.0]])
    yield Sample((a, b), array([[1.0, 2.0], [3.0, 4.0]]))
    yield Sample((a, b, a), array([[1.0, 2.0, 3.0, 4.0, 1.0, 2.0]]), {"axis": -1})
    yield Sample((a,), a)
    yield Sample((a, a[:0]), a, smooth=False)
    flags = array([True], "bool")
    yield Sample((flags, ~flags), array([True, False], "bool"))


def _stack_shape(*xs: TensorType, axis: int = 0) -> Shape:
    if not xs:
        raise InvalidTypeError("stack needs at least one tensor")
    result = list(xs[0].shape.dims)
    for x in xs[1:]:
        pairs = zip(result, x.shape.dims, strict=True)
        result = [
            shapes.expect_same(a, b, "stack needs tensors of the same shape")
            for a, b in pairs
        ]
    at = normalize_axis(axis, len(result) + 1)
    return Shape([*result[:at], len(xs), *result[at:]])


@primitive(shape=_stack_shape, content=True)
def stack(*xs: Array, axis: int = 0) -> Array:
    """Stack tensors of the same shape along a new axis"""
    return xp(*xs).stack(xs, axis=axis)


stack.trait(Trait.KEEPS_NON_NEGATIVE, Trait.PARTWISE, Trait.SPREADS_NON_FINITE)


@stack.gradient
def _(g: Any, *xs: Any, axis: int) -> Any:
    parts = split(g, (1,) * len(xs), axis=axis, outputs=len(xs))
    return [squeeze(part, (axis,)) for part in parts]


@stack.samples
def _() -> Samples:
    a, b = array([1.0, 2.0]), array([3.0, 4.0])
    yield Sample((a, b), array([[1.0, 2.0], [3.0, 4.0]]))
    yield Sample((a, b), array([[1.0, 3.0], [2.0, 4.0]]), {"axis": -1})
    yield Sample((array(1, "int64"), array(2, "int64")), array([1, 2], "int64"))
    yield Sample((np.zeros((0,), "int8"),), np.zeros((1, 0), "int8"))


# -- split ---------------------------------------------------------------------


def _split_shapes(
    x: TensorType, sizes: Any = None, *, axis: int = 0, outputs: int = 0
) -> list[Shape]:
    if not x.shape.has_rank and (outputs or isinstance(sizes, tuple)):
        return [Shape(None)] * (outputs or len(sizes))
    at = normalize_axis(axis, x.shape.rank)
    whole = x.shape.dims[at]
    if sizes is None:
        if not outputs:
            raise InvalidTypeError("split needs sizes, or the number of outputs")
        each = -(-whole // outputs)
        sizes = [each] * (outputs - 1) + [whole - each * (outputs - 1)]
    elif isinstance(sizes, UnknownShapeArg):
        sizes = [Sym.unknown() for _ in range(outputs)]
    elif not any(isinstance(n, Sym) for n in sizes):
        shapes.expect_same(sum(sizes), whole, "the sizes do not add up to the dim")
    requested = [Sym.unknown() if may_be_negative(n) else n for n in sizes]
    return [
        Shape([n if i == at else d for i, d in enumerate(x.shape.dims)])
        for n in requested
    ]


@primitive(shape=_split_shapes, content=True)
def split(
    x: Array, sizes: ShapeArg = None, *, axis: int = 0, outputs: int = 0
) -> tuple[Array, ...]:
    """Split along an axis by sizes, or equally (the last part may be smaller)"""
    if sizes is None:
        step = -(-x.shape[axis] // outputs)
        cuts = [step * i for i in range(1, outputs)]
    else:
        if sum(sizes) != x.shape[axis]:
            raise ValueError(f"split of {x.shape[axis]} into {list(sizes)}")
        cuts = [sum(sizes[:i]) for i in range(1, len(sizes))]
    at = axis % x.ndim
    edges = [0, *cuts, x.shape[axis]]
    spans = itertools.pairwise(edges)
    return tuple(x[(slice(None),) * at + (slice(a, b),)] for a, b in spans)


split.trait(Trait.PARTWISE)


@split.gradient
def _(g: Any, y: Any, *, axis: int) -> Any:
    parts = [zeros_like(v) if d is None else d for d, v in zip(g, y, strict=True)]
    return [concat(*parts, axis=axis), None]


@split.samples
def _() -> Samples:
    x = arange_of_shape(5, dtype="float64")
    yield Sample((x, (2, 3)), [array([0.0, 1.0]), array([2.0, 3.0, 4.0])])
    three = [array([0.0, 1.0]), array([2.0, 3.0]), array([4.0])]
    yield Sample((x,), three, {"outputs": 3})
    rows = arange_of_shape(2, 2, dtype="int32")
    halves = [array([[0], [2]], "int32"), array([[1], [3]], "int32")]
    yield Sample((rows, (1, 1)), halves, {"axis": -1})
    yield Sample((x, (5, 0)), [x, x[:0]], smooth=False)


# -- slice ---------------------------------------------------------------------

_END_OF_AXIS = 2**31 - 1
"""Sentinel for the end of an axis: frameworks write this or more."""


def _clamp_index(at: Dim, d: Dim) -> Dim:
    """Clamp a start or stop to an axis of d elements."""
    if isinstance(at, Sym):
        if not at >= 0:
            return maximum(d + at, 0)
        return minimum(at, d)
    if at >= _END_OF_AXIS:
        return d
    return minimum(at, d) if at >= 0 else maximum(d + at, 0)


def _slice_length(d: Dim, start: Dim, stop: Dim, step: Dim) -> Dim:
    """Number of elements in a slice; a fresh symbol if it is not known."""
    if any(isinstance(n, Sym) and may_be_negative(n) for n in (start, stop, step)):
        return Sym.unknown()
    if isinstance(step, Sym):
        return Sym.unknown()
    known = isinstance(start, int) and isinstance(stop, int)
    if known and isinstance(d, int):
        return len(range(d)[slice(start, stop, step)])
    if step < 0:
        whole = known and start in (
            -1,
            *range(_END_OF_AXIS, _END_OF_AXIS + 2),
            2**63 - 1,
        )
        return -(-d // -step) if whole and stop <= -_END_OF_AXIS else Sym.unknown()
    try:
        length = maximum(_clamp_index(stop, d) - _clamp_index(start, d), 0)
    except Undecided:
        return Sym.unknown()
    return -(-length // step)


def _slice_shape(
    x: TensorType, starts: Any, stops: Any, axes: Any = None, steps: Any = None
) -> Shape:
    result = list(x.shape.dims)
    if any(isinstance(h, UnknownShapeArg) for h in (starts, stops, axes, steps)):
        return shapes.unknown_dims(len(result))
    try:
        at = normalize_axes(
            axes if axes is not None else tuple(range(len(starts))), len(result)
        )
    except Undecided:
        return shapes.unknown_dims(len(result))
    rows = zip(at, starts, stops, steps or (1,) * len(starts), strict=True)
    for axis, start, stop, step in rows:
        if isinstance(step, int) and step == 0:
            raise InvalidTypeError("the step of a slice is 0")
        result[axis] = _slice_length(result[axis], start, stop, step)
    return Shape(result)


@primitive(shape=_slice_shape, content=True, name="slice")
def slice_(
    x: Array,
    starts: ShapeArg,
    stops: ShapeArg,
    axes: ShapeArg = None,
    steps: ShapeArg = None,
) -> Array:
    """Slice with Python semantics: from start up to stop, by step, along axes"""
    at: list[Any] = [slice(None)] * x.ndim
    for i, axis in enumerate(range(len(starts)) if axes is None else axes):
        at[axis] = slice(starts[i], stops[i], steps[i] if steps else None)
    return x[tuple(at)]


slice_.trait(Trait.SIZED_BY_ARGUMENT, Trait.MOVES_ELEMENTS)


@slice_.gradient
def _(
    g: Any, x: Any, starts: Any, stops: Any, axes: Any = None, steps: Any = None
) -> Any:
    """Slice the indices to see which elements were read, then scatter to them."""
    rank = x.ndim
    if isinstance(axes, tuple) or axes is None:
        count = len(starts) if axes is None and isinstance(starts, tuple) else rank
        named = normalize_axes(tuple(range(count)) if axes is None else axes, rank)
    else:
        raise Undecided("the axes of the slice are unknown until run time")
    for i, axis in enumerate(named):
        picked = [None if h is None else (h[i],) for h in (starts, stops, steps)]
        positions = slice_(
            arange(0, x.shape[axis]), picked[0], picked[1], None, picked[2]
        )
        g = scatter_along_axis(g, positions, x.shape[axis], axis, rank)
    return [g, None, None, None, None]


def scatter_along_axis(
    g: Any, indices: Any, length: Any, axis: int, rank: int, reduction: str = "none"
) -> Any:
    """Zeros of a length along an axis, with g at some indices of it."""
    order = (axis, *(i for i in range(rank) if i != axis))
    back = tuple(int(i) for i in np.argsort(order))
    front = transpose(g, perm=order)
    zero = zeros([length, *front.shape[1:]], dtype=g.dtype)
    row = expand_dims(indices, (1,))
    filled = scatter_nd(zero, row, front, reduction=reduction)
    return transpose(filled, perm=back)


@slice_.samples
def _() -> Samples:
    x = arange_of_shape(3, 4, dtype="float64")
    yield Sample((x, (1,), (3,)), array([[4.0, 5, 6, 7], [8, 9, 10, 11]]))
    yield Sample((x, (0, 1), (2, 4), (0, 1), (1, 2)), array([[1.0, 3], [5, 7]]))
    yield Sample((x, (-2,), (2**63 - 1,), (1,)), array([[2.0, 3], [6, 7], [10, 11]]))
    yield Sample((x, (-1,), (-(2**63),), (0,), (-1,)),
                 array([[8.0, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3]]))  # fmt: skip
    yield Sample((x, (2,), (1,)), np.zeros((0, 4)), smooth=False)
    yield Sample((array([5, 6], "int32"), (1,), (2,)), array([6], "int32"))


# -- pad -----------------------------------------------------------------------


def _pad_shape(
    x: TensorType,
    pads: Any,
    axes: Any = None,
) -> Shape:
    result = list(x.shape.dims)
    if isinstance(pads, UnknownShapeArg):
        return shapes.unknown_dims(len(result))
    try:
        at = normalize_axes(axes, len(result))
    except Undecided:
        return shapes.unknown_dims(len(result))
    if len(at) != len(pads):
        raise InvalidTypeError(
            "expected a (low, high) pair for each axis", expected=len(at), got=len(pads)
        )
    for axis, (low, high) in zip(at, pads, strict=True):
        total = result[axis] + low + high
        result[axis] = Sym.unknown() if may_be_negative(total) else total
    return Shape(result)


@primitive(shape=_pad_shape, numpy_only=True)
def pad(
    x: Array,
    pads: ShapeArg,
    value: Array = None,
    axes: ShapeArg = None,
    *,
    mode: str = "constant",
) -> Array:
    """Pad each axis by (low, high) elements; negative numbers crop"""
    full = [(0, 0)] * x.ndim
    for i, axis in enumerate(range(x.ndim) if axes is None else axes):
        full[axis] = tuple(pads[i])
    crop = tuple(
        slice(max(-low, 0), n - max(-high, 0))
        for (low, high), n in zip(full, x.shape, strict=True)
    )
    grow = [(max(low, 0), max(high, 0)) for low, high in full]
    x = x[crop]
    if not any(map(any, grow)):
        return x
    if mode == "constant":
        fill = np.asarray(0, x.dtype) if value is None else value.reshape(())
        return np.pad(x, grow, constant_values=fill)
    modes: Any = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
    return np.pad(x, grow, mode=modes[mode])


pad.trait(Trait.PARTWISE)


@pad.gradient
def _(
    g: Any, x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: str
) -> Any:
    if mode != "constant":
        return [_gradient_of_copies(g, x, pads, axes, mode), None, None, None]
    back = (
        negative(pads)
        if not isinstance(pads, tuple)
        else tuple((-a, -b) for a, b in pads)
    )
    inner = pad(g, back, None, axes)
    if value is None:
        return [inner, None, None, None]
    rest = sum_(g) - sum_(inner)
    return [inner, None, sum_to(rest, value), None]


def _gradient_of_copies(g: Any, x: Any, pads: Any, axes: Any, mode: str) -> Any:
    """Add the gradients of copies to those of their elements, axis by axis.

    Padding the indices shows which element each is a copy of."""
    if axes is not None and not isinstance(axes, tuple):
        raise Undecided("the padded axes are unknown until run time")
    for i, axis in enumerate(normalize_axes(axes, x.ndim)):
        if isinstance(pads, tuple):
            if not any(pads[i]):
                continue
            pair: Any = (pads[i],)
        else:
            pair = slice_(pads, (i,), (i + 1,), (0,))
        positions = pad(arange(0, x.shape[axis]), pair, mode=mode)
        g = scatter_along_axis(g, positions, x.shape[axis], axis, x.ndim, "add")
    return g


@pad.samples
def _() -> Samples:
    x = array([[1.0, 2.0, 3.0]])
    yield Sample((x, ((1, 0), (0, 2))), array([[0.0] * 5, [1, 2, 3, 0, 0]]))
    yield Sample((x, ((0, 0), (1, -2)), array(7.0)), array([[7.0, 1]]))
    yield Sample((x, ((1, 1),), None, (-1,)), array([[0.0, 1, 2, 3, 0]]))
    for mode, expected in (("reflect", [3, 2, 1, 2, 3, 2]),
                           ("edge", [1, 1, 1, 2, 3, 3]),
                           ("wrap", [2, 3, 1, 2, 3, 1])):  # fmt: skip
        yield Sample((x, ((0, 0), (2, 1))), array([expected]), {"mode": mode})
        last = (x, ((2, 1),), None, (-1,))
        yield Sample(last, array([expected]), {"mode": mode})
        cut = {"reflect": [[2, 1, 2]], "edge": [[1, 1, 2]], "wrap": [[2, 1, 2]]}[mode]
        yield Sample((x, ((0, 0), (1, -1))), array(cut), {"mode": mode})
    yield Sample(
        (array([5], "int32"), ((1, 0),), array(9, "int32")), array([9, 5], "int32")
    )
    yield Sample((np.zeros((0,)), ((1, 1),)), array([0.0, 0.0]), smooth=False)


# -- tile, flip -----------------------------------------------------------------


def _tile_shape(x: TensorType, repeats: Any) -> Shape:
    if isinstance(repeats, UnknownShapeArg):
        raise Undecided("the repeats are unknown until run time")
    rows = zip(x.shape.dims, repeats, strict=True)
    return Shape([Sym.unknown() if may_be_negative(n) else d * n for d, n in rows])


@primitive(shape=_tile_shape, content=True)
def tile(x: Array, repeats: ShapeArg) -> Array:
    """Repeat the whole tensor along each axis"""
    return xp(x).tile(x, tuple(repeats))


tile.trait(Trait.MOVES_ELEMENTS)


@tile.gradient
def _(g: Any, x: Any, repeats: Any) -> Any:
    if not isinstance(repeats, tuple):
        raise Undecided("the repeats are unknown until run time")
    pairs = [n for d, r in zip(x.shape, repeats, strict=True) for n in (r, d)]
    return [
        sum_(reshape(g, pairs), tuple(range(0, 2 * len(repeats), 2))),
        None,
    ]


@tile.samples
def _() -> Samples:
    x = array([[1.0, 2.0]])
    yield Sample((x, (2, 1)), array([[1.0, 2.0]] * 2))
    yield Sample((x, (1, 3)), array([[1.0, 2.0] * 3]))
    yield Sample((x, (0, 1)), np.zeros((0, 2)), smooth=False)
    yield Sample((np.zeros((2, 0)), (2, 3)), np.zeros((4, 0)), smooth=False)
    yield Sample((array(4, "int64"), ()), array(4, "int64"))


def _flip_shape(x: TensorType, axes: Any = None) -> Shape:
    if x.shape.rank is not None:
        normalize_axes(axes, x.shape.rank)
    return x.shape


@primitive(shape=_flip_shape, content=True)
def flip(x: Array, axes: ShapeArg = None) -> Array:
    """Reverse the order of elements along axes"""
    return xp(x).flip(x, axis=axes)


flip.trait(Trait.MOVES_ELEMENTS, Trait.SPREADS_NON_FINITE)
flip.gradient(lambda g, axes=None: [flip(g, axes), None])


@flip.samples
def _() -> Samples:
    x = array([[1.0, 2.0], [3.0, 4.0]])
    yield Sample((x, (0,)), array([[3.0, 4.0], [1.0, 2.0]]))
    yield Sample((x, (-1,)), array([[2.0, 1.0], [4.0, 3.0]]))
    yield Sample((x,), array([[4.0, 3.0], [2.0, 1.0]]))
    yield Sample((array([], "bool"), (0,)), array([], "bool"))
