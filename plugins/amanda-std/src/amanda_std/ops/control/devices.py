"""Device placement: transfers, allocation and views.

A device is identified by its name, as a backend lists it: `cpu`, `gpu:0`. A backend
with one device ignores placement and copies nothing; plans and reports still show it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda.types import DType, Shape, Sym, TensorType
from amanda_std.engine.annotations import Array, Cast, ShapeArg
from amanda_std.engine.operation import composite, primitive
from amanda_std.engine.samples import Sample, Samples, arange_of_shape, array
from amanda_std.engine.traits import Trait
from amanda_std.inference.shape_arguments import UnknownShapeArg, may_be_negative
from amanda_std.ops.tensor.creation import arange, zeros_like
from amanda_std.ops.tensor.creation import zeros as zeros_
from amanda_std.ops.tensor.scatter import scatter_nd
from amanda_std.ops.tensor.shape import reshape
from amanda_std.ops.tensor.shape import size as size_


def _transfer_shape(x: TensorType, to: str) -> Shape:
    if not to:
        raise InvalidTypeError(
            "a transfer has no target device",
            expected="to=, the name of a device",
            got=repr(to),
        )
    return x.shape


@primitive(shape=_transfer_shape, content=lambda x: x.value)
def transfer(x: Array, *, to: str, source: str = "") -> Array:  # noqa: ARG001
    """x on another device; copied only if it is elsewhere

    `source` is its current device, if known: gradients are transferred back to it."""
    return x


@transfer.gradient
def _(g: Any, to: str, source: str) -> Any:
    return [transfer(g, to=source, source=to) if source else g]


@composite
def allocate(shape: ShapeArg, *, dtype: Any, device: str = "") -> Cast:
    """Allocate zero-initialized memory on a device"""
    outputs = zeros_(shape, dtype=dtype)
    return transfer(outputs, to=device) if device else outputs


transfer.trait(Trait.NOT_FOLDED, Trait.PARTWISE)  # a constant would have no device
allocate.trait(Trait.NOT_FOLDED)
transfer.label_attribute = ("to", "to")
allocate.label_attribute = ("device", "on")


def _view_shape(x: TensorType, shape: Any, strides: Any, offset: Any) -> Shape:
    if isinstance(shape, UnknownShapeArg):
        return Shape(None)
    dims = [Sym.unknown() if may_be_negative(d) else d for d in shape]
    given = _static_view(shape, strides, offset)
    if given is not None and x.shape.is_static:
        size = int(np.prod([int(d) for d in x.shape.dims], dtype=np.int64))
        _expect_inside(size, *given)
    return Shape(dims)


def _static_view(shape: Any, strides: Any, offset: Any) -> tuple[Any, Any, int] | None:
    """Sizes, strides and offset as numbers; None if unknown until run time."""
    rows = [shape, strides, (offset,)]
    if any(isinstance(r, UnknownShapeArg) for r in rows) or isinstance(
        offset, UnknownShapeArg
    ):
        return None
    if not all(isinstance(n, int) for row in rows for n in row):
        return None
    return tuple(shape), tuple(strides), offset


def _expect_inside(size: int, shape: Any, strides: Any, offset: int) -> None:
    if len(shape) != len(strides):
        raise InvalidTypeError(
            "a view needs one stride for each axis",
            expected=f"{len(shape)} strides",
            got=list(strides),
        )
    if not all(shape):
        return
    ends = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    low = offset + sum(min(e, 0) for e in ends)
    high = offset + sum(max(e, 0) for e in ends)
    if low < 0 or high >= size:
        raise InvalidTypeError(
            "the view reaches outside its memory",
            expected=f"elements 0 to {size - 1}",
            got=f"elements {low} to {high}",
            hint="change shape, strides or offset",
        )


@primitive(shape=_view_shape)
def view(x: Array, shape: ShapeArg, strides: ShapeArg, offset: ShapeArg = 0) -> Array:
    """Strided view of x: another shape over the same elements in row-major order

    `strides` and `offset` count elements. A backend may return it without a copy."""
    np_ = np if isinstance(x, np.ndarray | np.generic) else x.__array_namespace__()
    flat = np_.reshape(np_.asarray(x), (-1,))
    _expect_inside(int(flat.shape[0]), shape, strides, offset)
    positions = np.asarray(offset)
    for axis, (size, step) in enumerate(zip(shape, strides, strict=True)):
        steps = np.arange(size) * step
        positions = positions + steps.reshape([-1] + [1] * (len(shape) - axis - 1))
    positions = np.broadcast_to(positions, tuple(shape))
    return np_.reshape(np_.take(flat, np_.asarray(positions.reshape(-1))), tuple(shape))


view.trait(Trait.PARTWISE)


@view.gradient
def _(g: Any, x: Any, shape: Any, strides: Any, offset: Any) -> Any:
    """Each element gets the sum of the gradients of its occurrences."""
    flat = reshape(zeros_like(x), (-1,))
    count = size_(x)
    where = view(arange(0, count), shape, strides, offset)
    rows = reshape(where, (-1, 1))
    outputs = scatter_nd(flat, rows, reshape(g, (-1,)), reduction="add")
    return [reshape(outputs, x.shape), None, None, None]


# -- samples -----------------------------------------------------------------------


@transfer.samples
def _() -> Samples:
    for dtype in ("float64", "int64", "bool"):
        for x in (array([1, 0], dtype), array([], dtype), array(1, dtype)):
            yield Sample((x,), x, {"to": "cpu"})
    x = array([0.5, -2.0], "float32")
    yield Sample((x,), x, {"to": "gpu:0", "source": "cpu"})


@allocate.samples
def _() -> Samples:
    for dtype, device in (("float32", "cpu"), ("int64", "")):
        for shape in ((2, 3), (0, 2), ()):
            attrs = {"dtype": DType(dtype), "device": device}
            zeros = arange_of_shape(*shape, dtype=dtype) * array(0, dtype)
            yield Sample((shape,), zeros.astype(dtype), attrs)


@view.samples
def _() -> Samples:
    """Element by element, from the flat list."""
    forms = [
        ((2, 3), (3, 1), 0), ((3, 2), (1, 3), 0), ((2, 2, 2), (2, 1, 1), 1),
        ((3,), (-2,), 5), ((4,), (0,), 2), ((), (), 3), ((0, 2), (1, 1), 0),
    ]  # fmt: skip
    for dtype in ("float64", "int32"):
        x = arange_of_shape(2, 3, dtype=dtype, start=1)
        row = x.reshape(-1).tolist()
        for shape, strides, offset in forms:
            seen = np.zeros(shape, dtype)
            for at in np.ndindex(*shape):
                seen[at] = row[offset + sum(map(int.__mul__, at, strides))]
            yield Sample((x, shape, strides, offset), seen, smooth=bool(seen.size))
