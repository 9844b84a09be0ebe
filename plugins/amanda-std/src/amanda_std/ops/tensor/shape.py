"""Shapes, casts, reshaping and broadcasting."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, Undecided
from amanda.types import Dim, Shape, Sym, TensorType, dims_equal
from amanda_std.engine.annotations import Array, Cast, Index, Other, ShapeArg
from amanda_std.engine.arrays import xp
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array, ramp
from amanda_std.engine.traits import Trait
from amanda_std.inference import shapes
from amanda_std.inference.shape_arguments import (
    UnknownShapeArg,
    may_be_negative,
    normalize_axes,
    normalize_axis,
)
from amanda_std.ops._late import late

_A_SHAPE = "it depends on the shape only"


@primitive(shape=lambda x: Shape([x.shape.rank]), content=lambda x: x.shape.dims)
def shape_of(x: Other) -> Index:
    """Shape of a tensor, as a vector"""
    return np.asarray(x.shape, "int64")


shape_of.trait(Trait.SHAPE_QUERY)


def _dim_content(x: TensorType, axis: int) -> Dim:
    return x.shape.dims[normalize_axis(axis, x.shape.rank)]


@primitive(shape=lambda: Shape([]), content=_dim_content)
def dim(x: Other, *, axis: int) -> Index:
    """Size of one dimension"""
    return np.asarray(x.shape[axis], "int64")


dim.trait(Trait.SHAPE_QUERY)


@primitive(shape=lambda: Shape([]), content=lambda x: x.shape.size)
def size(x: Other) -> Index:
    """Number of elements"""
    return np.asarray(prod(x.shape), "int64")


size.trait(Trait.SHAPE_QUERY)


@shape_of.samples
def _() -> Samples:
    for x in (ramp(2, 3), np.zeros((0, 4), "int8"), array(1.0)):
        yield Sample((x,), array(list(x.shape), "int64"))


@dim.samples
def _() -> Samples:
    for dtype in ("float64", "bool"):
        for axis, expected in ((0, 2), (1, 0), (-1, 0)):
            x = np.zeros((2, 0), dtype)
            yield Sample((x,), array(expected, "int64"), {"axis": axis})


@size.samples
def _() -> Samples:
    for x, expected in (
        (ramp(2, 3), 6),
        (np.zeros((0, 4), "int8"), 0),
        (array(1.0), 1),
    ):
        yield Sample((x,), array(expected, "int64"))


for _op in (shape_of, dim, size):
    _op.not_differentiable(_A_SHAPE)


@primitive(shape=shapes.pointwise, content=lambda x, dtype: _cast_content(x, dtype))
def astype(x: Other, *, dtype: Any) -> Cast:
    """Cast to another type; floats truncate to integers, complex to real parts"""
    x = xp(x).asarray(x)
    if x.dtype.kind == "c" and dtype.kind != "complex":
        x = x != 0 if dtype.kind == "bool" else x.real
    return x.astype(dtype.numpy)


astype.trait(Trait.CASTS)


def _cast_content(x: TensorType, dtype: Any) -> Any:
    if x.value is None or x.dtype.kind == "bool" or dtype.kind == "bool":
        numbers = x.elements
        if numbers is None or any(isinstance(d, Sym) for d in numbers):
            return None
        kind = bool if dtype.kind == "bool" else int
        return np.array([kind(d) for d in numbers], object).reshape(x.shape.dims)
    return x.value


@astype.gradient
def _(g: Any, x: Any) -> Any:
    return [astype(g, dtype=x.dtype) if x.dtype.kind in ("float", "complex") else None]


@astype.samples
def _() -> Samples:
    x = array([-1.5, 0.0, 2.75])
    for dtype, expected in (("float32", [-1.5, 0, 2.75]), ("int32", [-1, 0, 2]),
                        ("bool", [True, False, True]), ("bfloat16", [-1.5, 0, 2.75]),
                        ("int8", [-1, 0, 2])):  # fmt: skip
        y = array(expected, dtype)
        yield Sample((x,), y, {"dtype": dtype}, tolerance=1e-3)
    yield Sample((x,), x, {"dtype": "float64"})
    flags = array([True, False], "bool")
    yield Sample((flags,), array([1, 0], "float64"), {"dtype": "float64"})
    both = array([1.5 - 2.0j, 3.0j], "complex128")
    yield Sample((both,), array([1.5, 0.0]), {"dtype": "float64"})
    yield Sample((both,), array([1, 0], "int32"), {"dtype": "int32"})
    yield Sample((both,), array([True, True], "bool"), {"dtype": "bool"})
    units = array([0, 1, 1j], "complex64")
    yield Sample((units,), array([False, True, True], "bool"), {"dtype": "bool"})
    yield Sample(
        (arange_of_shape(2, 2),),
        array([[0, 1], [2, 3]], "float32"),
        {"dtype": "float32"},
    )
    yield Sample((array(3, "int64"),), array(3.0), {"dtype": "float64"})
    yield Sample((np.zeros((0, 2)),), np.zeros((0, 2), "int64"), {"dtype": "int64"})


def _reshape_shape(x: TensorType, shape: Any, *, copy_zero: bool = False) -> Shape:
    requested = [_requested_dim(x, i, d, copy_zero) for i, d in enumerate(shape)]
    rests = [i for i, d in enumerate(requested) if isinstance(d, int) and d == -1]
    if len(rests) > 1:
        raise InvalidTypeError("only one dim may be -1", got=list(shape))
    if rests:
        requested[rests[0]] = _inferred_dim(
            x, [d for i, d in enumerate(requested) if i != rests[0]]
        )
    elif x.shape.has_rank and not any(map(_is_anonymous, requested)):
        total = shapes.product(requested)
        if dims_equal(total, x.shape.size) is False:
            raise InvalidTypeError(
                "cannot reshape to a shape with another number of elements",
                expected=f"{x.shape.size} elements", got=Shape(requested),
            )  # fmt: skip
    return Shape(requested)


def _requested_dim(x: TensorType, i: int, dim: Dim, copy_zero: bool) -> Dim:
    """A requested dim; 0 may copy the dim of x at that position."""
    if isinstance(dim, Sym):
        return Sym.unknown() if may_be_negative(dim) else dim
    if dim == 0 and copy_zero:
        if not x.shape.has_rank:
            return Sym.unknown()
        return x.shape.dims[normalize_axis(i, x.shape.rank)]
    if dim < -1:
        raise InvalidTypeError(
            "a dim must be at least 0, or -1 to be inferred", got=dim
        )
    return dim


def _is_anonymous(dim: Dim) -> bool:
    return isinstance(dim, Sym) and dim.is_anonymous


def _inferred_dim(x: TensorType, others: list[Dim]) -> Dim:
    if not x.shape.has_rank or any(map(_is_anonymous, others)):
        return Sym.unknown()
    total, rest = x.shape.size, shapes.product(others)
    if isinstance(rest, int) and rest == 0:
        raise InvalidTypeError("cannot infer -1 beside a dim of 0")
    left = total // rest
    if dims_equal(left * rest, total) is False:
        raise InvalidTypeError(
            "the number of elements is not divisible by the other dims",
            expected=f"a multiple of {rest}", got=f"{total} elements",
        )  # fmt: skip
    return left


@primitive(shape=_reshape_shape, content=True)
def reshape(x: Array, shape: ShapeArg, *, copy_zero: bool = False) -> Array:
    """Reshape; -1 is inferred from the rest, 0 copies the dim of x if `copy_zero`"""
    new = [x.shape[i] if d == 0 and copy_zero else d for i, d in enumerate(shape)]
    return xp(x).reshape(x, tuple(new))


reshape.trait(Trait.SIZED_BY_ARGUMENT, Trait.MOVES_ELEMENTS, Trait.SPREADS_NON_FINITE)
reshape.gradient(lambda g, x: [reshape(g, shape_of(x)), None])


@reshape.samples
def _() -> Samples:
    numbers = [float(n) for n in range(12)]
    flat = array(numbers)
    rows = array([numbers[:4], numbers[4:8], numbers[8:]])
    yield Sample((flat, (3, 4)), rows)
    yield Sample((rows, (-1,)), flat)
    yield Sample((rows, (0, 2, -1)), array([[n[:2], n[2:]] for n in rows.tolist()]),
                 {"copy_zero": True})  # fmt: skip
    yield Sample((array([5], "int32"), ()), array(5, "int32"))
    yield Sample((array(True, "bool"), (1, 1)), array([[True]], "bool"))
    yield Sample((np.zeros((0, 3)), (3, 0)), np.zeros((3, 0)), smooth=False)


def _expand_dims_shape(x: TensorType, axes: Any) -> Shape:
    given = axes if isinstance(axes, tuple) else (axes,)
    if isinstance(axes, UnknownShapeArg):
        raise Undecided("the number of new axes is unknown until run time")
    rank = x.shape.rank + len(given)
    try:
        at = set(normalize_axes(given, rank))
    except Undecided:
        return shapes.unknown_dims(rank)
    rest = iter(x.shape.dims)
    return Shape([1 if i in at else next(rest) for i in range(rank)])


@primitive(shape=_expand_dims_shape, content=True)
def expand_dims(x: Array, axes: ShapeArg) -> Array:
    """Insert axes of length 1 at the given positions of the result"""
    return xp(x).expand_dims(x, axis=axes)


expand_dims.trait(Trait.MOVES_ELEMENTS, Trait.SPREADS_NON_FINITE)
expand_dims.gradient(lambda g, x: [reshape(g, shape_of(x)), None])


@expand_dims.samples
def _() -> Samples:
    x = array([[1.0, 2.0]])
    yield Sample((x, (0,)), array([[[1.0, 2.0]]]))
    yield Sample((x, (1, -1)), array([[[[1.0], [2.0]]]]))
    yield Sample((x, -1), array([[[1.0], [2.0]]]))
    yield Sample((array(3, "int32"), (0, 1)), array([[3]], "int32"))
    yield Sample((np.zeros(0), (1,)), np.zeros((0, 1)), smooth=False)


def _squeeze_shape(x: TensorType, axes: Any = None) -> Shape:
    result = x.shape.dims
    if axes is None:
        if any(isinstance(d, Sym) for d in result):
            raise Undecided("which dims are 1 is unknown until run time")
        return Shape([d for d in result if d != 1])
    removed = set(normalize_axes(axes, len(result)))
    for i in removed:
        shapes.expect_same(1, result[i], f"axis {i} is not of length 1")
    return Shape([d for i, d in enumerate(result) if i not in removed])


@primitive(shape=_squeeze_shape, content=True)
def squeeze(x: Array, axes: ShapeArg = None) -> Array:
    """Remove axes of length 1; all of them by default"""
    return xp(x).squeeze(x, axis=axes)


squeeze.trait(Trait.MOVES_ELEMENTS, Trait.SPREADS_NON_FINITE)
squeeze.gradient(lambda g, x: [reshape(g, shape_of(x)), None])


@squeeze.samples
def _() -> Samples:
    x = array([[[1.0, 2.0]]])
    yield Sample((x, (0,)), array([[1.0, 2.0]]))
    yield Sample((x, (-2, 0)), array([1.0, 2.0]))
    yield Sample((x,), array([1.0, 2.0]))
    yield Sample((array([[7]], "int64"),), array(7, "int64"))
    yield Sample((np.zeros((1, 0)), 0), np.zeros(0), smooth=False)


def _transpose_shape(x: TensorType, *, perm: Any = None) -> Shape:
    result = x.shape.dims
    if perm is None:
        return Shape(result[::-1])
    if sorted(p % len(result) if result else p for p in perm) != list(
        range(len(result))
    ):
        raise InvalidTypeError(
            "perm is not a permutation of the axes",
            expected=f"0 to {len(result) - 1}, each once",
            got=list(perm),
        )  # fmt: skip
    return Shape([result[p] for p in perm])


@primitive(shape=_transpose_shape, content=True)
def transpose(x: Array, *, perm: tuple[int, ...] | None = None) -> Array:
    """Permute the axes; reverse them by default"""
    return xp(x).transpose(x, perm)


transpose.trait(Trait.MOVES_ELEMENTS, Trait.PERMUTES_AXES, Trait.SPREADS_NON_FINITE)


@transpose.gradient
def _(g: Any, perm: Any) -> Any:
    if perm is None:
        return [transpose(g)]
    rank = len(perm)
    return [
        transpose(g, perm=tuple(int(i) for i in np.argsort([p % rank for p in perm])))
    ]


@transpose.samples
def _() -> Samples:
    x = ramp(2, 3, 4)
    for perm in (None, (0, 2, 1), (2, 0, 1), (1, -1, 0)):
        order = tuple(p % 3 for p in perm) if perm else (2, 1, 0)
        y = np.zeros([x.shape[i] for i in order])
        for at in np.ndindex(x.shape):
            y[tuple(at[i] for i in order)] = x[at]
        yield Sample((x,), y, {"perm": perm})
    yield Sample((array(1, "int32"),), array(1, "int32"))
    yield Sample((np.zeros((0, 2), "bool"),), np.zeros((2, 0), "bool"))


def _broadcast_to_shape(x: TensorType, shape: Any) -> Shape:
    requested = Shape([Sym.unknown() if may_be_negative(d) else d for d in shape])
    return shapes.broadcast(x.shape, requested)


@primitive(shape=_broadcast_to_shape, content=True)
def broadcast_to(x: Array, shape: ShapeArg) -> Array:
    """Broadcast to a shape"""
    np_ = xp(x)
    return np_.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))


broadcast_to.trait(
    Trait.SIZED_BY_ARGUMENT, Trait.MOVES_ELEMENTS, Trait.SPREADS_NON_FINITE
)


@broadcast_to.gradient
def _(g: Any, x: Any) -> Any:
    return [late.sum_to(g, x), None]


@broadcast_to.samples
def _() -> Samples:
    x = array([[1.0], [2.0]])
    yield Sample((x, (2, 3)), array([[1.0] * 3, [2.0] * 3]))
    yield Sample((x, (2, 2, 1)), array([x.tolist(), x.tolist()]))
    yield Sample((x, (1,)), x)
    yield Sample((array(5, "int32"), (2,)), array([5, 5], "int32"))
    yield Sample((array(5.0), (2, 0)), np.zeros((2, 0)), smooth=False)


@composite
def broadcast_like(x: Array, like: Other) -> Array:
    """Broadcast x to the shape of another tensor"""
    return broadcast_to(x, like.shape)


@broadcast_like.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        yield Sample((array([1], dtype), ramp(2, 2)), array([[1, 1]] * 2, dtype))
    yield Sample((array(1.0), np.zeros((0, 2))), np.zeros((0, 2)), smooth=False)


@composite
def swap_last(x: Array) -> Array:
    """Transpose the last two axes"""
    rank = x.ndim
    return transpose(x, perm=(*range(rank - 2), rank - 1, rank - 2))


@swap_last.samples
def _() -> Samples:
    for dtype in ("float64", "int32"):
        x = array([[[1, 2], [3, 4], [5, 6]]], dtype)
        yield Sample((x,), array([[[1, 3, 5], [2, 4, 6]]], dtype))
    yield Sample((np.zeros((2, 0)),), np.zeros((0, 2)), smooth=False)


@composite
def flatten(x: Array, *, axis: int = 1) -> Array:
    """Flatten to a matrix: the axes before `axis` become rows, the others columns"""
    rank = x.ndim
    at = normalize_axis(axis, rank + 1) if axis >= 0 else normalize_axis(axis, rank)
    rows: Any = 1
    for n in x.shape[:at]:
        rows = n * rows
    columns: Any = 1
    for n in x.shape[at:]:
        columns = n * columns
    return reshape(x, [rows, columns])


@flatten.samples
def _() -> Samples:
    x = arange_of_shape(2, 3, 2, dtype="float64")
    numbers = x.reshape(-1).tolist()
    for axis, rows in ((0, 1), (1, 2), (2, 6), (3, 12), (-1, 6)):
        step = 12 // rows
        expected = [numbers[i : i + step] for i in range(0, 12, step)]
        yield Sample((x,), array(expected), {"axis": axis})
    flag = array(True, "bool")
    yield Sample((flag,), array([[True]], "bool"), {"axis": 0})
    yield Sample((np.zeros((2, 0)),), np.zeros((2, 0)), smooth=False)
