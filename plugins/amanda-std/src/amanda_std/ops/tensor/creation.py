"""Creation of tensors: fill, ranges, identity, triangles, one-hot."""

from __future__ import annotations

import builtins
from functools import partial
from typing import Any

import numpy as np

from amanda.types import DType, Shape, Sym, TensorType, maximum
from amanda_std.engine.annotations import Array, Cast, Index, Other, Real, ShapeArg
from amanda_std.engine.arrays import xp
from amanda_std.engine.literals import as_tensor
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import dims_of
from amanda_std.inference import shapes
from amanda_std.inference.shape_arguments import UnknownShapeArg, may_be_negative
from amanda_std.ops._late import late
from amanda_std.ops.math.arithmetic import add, floor_divide, multiply, where
from amanda_std.ops.math.arithmetic import maximum as maximum_
from amanda_std.ops.math.comparison import equal, less
from amanda_std.ops.tensor.shape import astype, dim, expand_dims, reshape

_INTEGERS_ONLY = "it depends on integers only"


def scalar_like(value: float, like: Any) -> Any:
    """A scalar array of the element type of another tensor, in any representation."""
    dtype = DType.of(like.dtype)
    return np.asarray(value, dtype.numpy)


def _full_shape(shape: Any) -> Shape:
    return Shape([Sym.unknown() if may_be_negative(d) else d for d in shape])


def _full_content(shape: Any, value: TensorType) -> Any:
    return None if value.value is None else np.full(shape, value.value, object)


@primitive(shape=_full_shape, content=_full_content)
def full(shape: ShapeArg, value: Array) -> Array:
    """Tensor of the given shape filled with one value"""
    return xp(value).broadcast_to(xp(value).asarray(value), tuple(shape))


full.trait(Trait.SIZED_BY_ARGUMENT, Trait.PARTWISE)


@full.gradient
def _(g: Any) -> Any:
    return [None, late.sum(g)]


@full.samples
def _() -> Samples:
    yield Sample(((2, 2), array(1.5)), array([[1.5, 1.5]] * 2))
    yield Sample(((), array(3, "int32")), array(3, "int32"))
    yield Sample(((0, 2), array(True, "bool")), np.zeros((0, 2), "bool"))


@composite
def zeros(shape: ShapeArg, *, dtype: Any) -> Cast:
    """Tensor of zeros"""
    return full(shape, np.asarray(0, DType(dtype).numpy))


zeros.samples(
    lambda: iter([
        Sample(((2,),), array([0.0, 0.0]), {"dtype": DType("float64")}),
        Sample(((0, 2),), np.zeros((0, 2), "int8"), {"dtype": DType("int8")}),
        Sample(((),), array(False, "bool"), {"dtype": DType("bool")}),
    ])
)  # fmt: skip


@composite
def zeros_like(x: Array) -> Array:
    """Zeros with the shape and type of x"""
    return full(x.shape, scalar_like(0, x))


@composite
def ones_like(x: Array) -> Array:
    """Ones with the shape and type of x"""
    return full(x.shape, scalar_like(1, x))


@composite
def number_like(x: Array, *, value: complex) -> Array:
    """Scalar with the element type of x"""
    dtype = DType.of(x.dtype)
    return as_tensor(value, dtype).numpy()


@number_like.infer
def _(x: TensorType) -> Any:
    return [TensorType(x.dtype, ())]


number_like.gradient(lambda: [None])


@number_like.samples
def _() -> Samples:
    yield Sample(
        (arange_of_shape(2, dtype="float32"),), array(2.5, "float32"), {"value": 2.5}
    )
    yield Sample((np.zeros((0, 2)),), array(-1.0), {"value": -1})
    yield Sample((array([1, 2], "int8"),), array(7, "int8"), {"value": 7})
    yield Sample((array(True, "bool"),), array(False, "bool"), {"value": False})


def _fill_samples(value: int) -> Samples:
    yield Sample((arange_of_shape(2, dtype="float32"),), array([value] * 2, "float32"))
    yield Sample((array(5, "int64"),), array(value, "int64"))
    yield Sample((np.zeros((0, 2)),), np.zeros((0, 2)))


for _op, _value in ((zeros_like, 0), (ones_like, 1)):
    _op.samples(partial(_fill_samples, _value))
    _op.gradient(lambda: [None])


def _arange_shape(start: Any, stop: Any, step: Any = 1) -> Shape:
    if any(
        isinstance(h, UnknownShapeArg) or (isinstance(h, Sym) and may_be_negative(h))
        for h in (start, stop, step)
    ):
        return Shape([Sym.unknown()])
    if isinstance(step, Sym):
        return Shape([Sym.unknown()])
    length = -((start - stop) // step) if step > 0 else -((stop - start) // -step)
    return Shape([maximum(length, 0)])


@primitive(
    shape=_arange_shape,
    content=lambda start, stop, step=1: [
        start + i * step
        for i in builtins.range(int(_arange_shape(start, stop, step)[0]))
    ],
)
def arange(start: ShapeArg, stop: ShapeArg, step: ShapeArg = 1) -> Index:
    """Integers from start up to, but not including, stop"""
    return np.arange(start, stop, step, dtype="int64")


arange.trait(Trait.SIZED_BY_ARGUMENT)
arange.not_differentiable(_INTEGERS_ONLY)


@arange.samples
def _() -> Samples:
    for args in ((0, 4), (2, 9, 3), (5, 0, -2), (3, 3), (3, 1)):
        yield Sample(args, array(list(builtins.range(*args)), "int64"))


@composite
def range(start: Real, stop: Real, step: Real) -> Real:
    """Numbers from start up to, but not including, stop, of any element type"""
    steps = -floor_divide(start - stop, step)
    count = maximum_(astype(steps, dtype=DType("int64")), np.asarray(0, "int64"))
    positions = astype(arange(0, count), dtype=start.dtype)
    return start + multiply(positions, step)


range.trait(Trait.EXPAND_EARLY)


@range.samples
def _() -> Samples:
    yield Sample((array(0.5), array(2.2), array(0.5)), array([0.5, 1.0, 1.5, 2.0]))
    exact = array(0.5), array(2.0), array(0.5)
    yield Sample(
        exact, array([0.5, 1.0, 1.5]), smooth=False
    )  # the offset makes it one element longer
    yield Sample((array(3, "int32"), array(-2, "int32"), array(-2, "int32")),
                 array([3, 1, -1], "int32"))  # fmt: skip
    yield Sample((array(1.0), array(1.0), array(1.0)), np.zeros(0), smooth=False)


@primitive(shape=lambda rows, columns: _eye_shape(rows, columns))
def eye(rows: ShapeArg, columns: ShapeArg = None, *, k: int = 0, dtype: Any) -> Cast:
    """Ones on a diagonal, zeros elsewhere"""
    return np.eye(rows, columns, k, dtype=dtype.numpy)


eye.trait(Trait.SIZED_BY_ARGUMENT, Trait.PARTWISE)


def _eye_shape(rows: Any, columns: Any) -> Shape:
    requested = [rows, rows if columns is None else columns]
    return Shape(
        [
            Sym.unknown() if isinstance(d, UnknownShapeArg) or may_be_negative(d) else d
            for d in requested
        ]
    )


eye.not_differentiable(_INTEGERS_ONLY)


@eye.samples
def _() -> Samples:
    forms = [(2, None, 0, "float32"), (2, 3, 1, "int64"), (3, 2, -1, "bool"),
             (0, 2, 0, "float64")]  # fmt: skip
    for rows, columns, k, dtype in forms:
        wide = rows if columns is None else columns
        y = np.zeros((rows, wide), DType(dtype).numpy)
        for i, j in np.ndindex(y.shape):
            y[i, j] = j - i == k
        yield Sample((rows, columns), y, {"k": k, "dtype": DType(dtype)})


@primitive(shape=shapes.same_as_first, content=True)
def tril(x: Array, k: ShapeArg = 0) -> Array:
    """Lower triangle: zero above the k-th diagonal"""
    return xp(x).tril(x, k=k)


@primitive(shape=shapes.same_as_first, content=True)
def triu(x: Array, k: ShapeArg = 0) -> Array:
    """Upper triangle: zero below the k-th diagonal"""
    return xp(x).triu(x, k=k)


tril.trait(Trait.PARTWISE)
triu.trait(Trait.PARTWISE)
tril.gradient(lambda g, k=0: [tril(g, k), None])
triu.gradient(lambda g, k=0: [triu(g, k), None])


def _triangle_samples(lower: bool) -> Any:
    def make() -> Samples:
        for dtype in ("float64", "int32"):
            x = arange_of_shape(2, 3, 3, dtype=dtype, start=1)
            for k in (0, 1, -1, 5):
                y = x.copy()
                for at in np.ndindex(x.shape):
                    above = at[2] - at[1] - k
                    y[at] = x[at] if (above <= 0 if lower else above >= 0) else 0
                yield Sample((x, k), y)
        yield Sample((np.zeros((0, 2)),), np.zeros((0, 2)), smooth=False)

    return make


tril.samples(_triangle_samples(True))
triu.samples(_triangle_samples(False))


@composite
def one_hot(
    indices: Other,
    depth: ShapeArg,
    on: Array,
    off: Array,
    *,
    axis: int = -1,
    wrap: bool = False,
) -> Array:
    """One-hot encoding: `on` at the index along a new axis, `off` elsewhere

    `wrap`: negative indices count from the end."""
    rank = len(dims_of(indices)) + 1
    positions = expand_dims(astype(indices, dtype=DType("int64")), (axis,))
    count = arange(0, depth)
    if wrap:
        whole = dim(count, axis=0)
        low = less(positions, np.asarray(0, "int64"))
        positions = where(low, add(positions, whole), positions)
    at = axis % rank
    row = reshape(count, [-1 if i == at else 1 for i in builtins.range(rank)])
    return where(equal(positions, row), on, off)


@one_hot.samples
def _() -> Samples:
    at = array([1, 0, -1, 7], "int64")
    for dtype in ("float64", "int32"):
        on, off = array(5, dtype), array(2, dtype)
        rows = [[2, 5, 2], [5, 2, 2], [2, 2, 2], [2, 2, 2]]
        yield Sample((at, 3, on, off), array(rows, dtype))
        yield Sample((at, 3, on, off), array(rows, dtype).T, {"axis": 0})
        rows[2] = [2, 2, 5]
        yield Sample((at, 3, on, off), array(rows, dtype), {"wrap": True})
    yield Sample((array(1, "int32"), 2, array(1.0), array(0.0)), array([0.0, 1.0]))
    yield Sample(
        (array([], "int32"), 2, array(1.0), array(0.0)), np.zeros((0, 2)), smooth=False
    )
