"""How gathers propagate padding: it does not affect non-negative indices."""

from __future__ import annotations

from typing import Any

from amanda.graph import Op, OutputPort, Parameter
from amanda.types import Sym, TensorType
from amanda_jax.shapes.padding import (
    PaddedOp,
    PaddedState,
    PaddingError,
    expect_unpadded_axes,
    with_axes,
)
from amanda_std.backends import Trait, has_trait, is_std, op_arguments

__all__ = ["gather", "gather_elements", "gather_nd"]


def gather(node: PaddedOp) -> list[PaddedState]:
    x, indices, axis = node.args
    [gathered_axis] = node.axis_numbers(axis, len(node.dims(x)))
    if not _is_non_negative(indices):
        expect_unpadded_axes(node, x, [gathered_axis], "gathers along")
    added = len(node.dims(indices))
    rest = {a: name for a, name in node.padded_axes(x).items() if a != gathered_axis}
    result = {
        a if a < gathered_axis else a + added - 1: name for a, name in rest.items()
    }
    result.update(
        {gathered_axis + a: name for a, name in node.padded_axes(indices).items()}
    )
    return with_axes(node, result)


def gather_nd(node: PaddedOp) -> list[PaddedState]:
    x, indices = node.args
    batch_dims = node.attrs["batch_dims"]
    last = len(node.dims(indices)) - 1
    expect_unpadded_axes(node, indices, [last], "has as an index")
    index_length = node.dims(indices)[last]
    if isinstance(index_length, Sym):
        raise PaddingError("gathers with indices of unknown length")
    if not _is_non_negative(indices):
        expect_unpadded_axes(
            node, x, range(batch_dims, batch_dims + index_length), "gathers along"
        )
    for axis in range(batch_dims):
        are_equal = node.padding.are_equal(node.dims(x)[axis], node.dims(indices)[axis])
        if (
            node.padded_axes(x).get(axis) != node.padded_axes(indices).get(axis)
            or not are_equal
        ):
            raise PaddingError(
                "gathers from a value that is padded differently from the indices"
            )
    result = dict(node.padded_axes(indices))
    for axis, name in node.padded_axes(x).items():
        if axis >= batch_dims + index_length:
            result[axis - batch_dims - index_length + last] = name
    return with_axes(node, result)


def _is_non_negative(value: Any) -> bool:
    """Whether integers are non-negative for all feeds: indices from the front, which
    padding at the end does not change. Those beyond the end are an error without it."""
    pending, seen = [value], set()
    while pending:
        current = pending.pop()
        if not isinstance(current, OutputPort) or type(current) is Parameter:
            return False
        if current in seen:
            continue
        seen.add(current)
        op = current.op
        if op.is_constant:
            if op.attrs["value"].size and op.attrs["value"].numpy().min() < 0:
                return False
        elif has_trait(op, Trait.MOVES_ELEMENTS) or _is_wide_cast(op):
            pending.append(op.inputs[0])
        elif has_trait(op, Trait.KEEPS_NON_NEGATIVE):
            pending += op.inputs
        elif not _is_increasing_from_zero(op):
            return False
    return True


def _is_wide_cast(op: Op) -> bool:
    """Whether this is a cast to a type that can hold every number of elements."""
    return has_trait(op, Trait.CASTS) and _is_wide_enough(op)


def _is_wide_enough(op: Op) -> bool:
    """Whether the target type of a cast can hold every number of elements."""
    result = op.output.type
    dtype = result.dtype if isinstance(result, TensorType) else None
    return dtype is not None and dtype.kind in ("int", "uint") and dtype.bits >= 32


def _is_increasing_from_zero(op: Op) -> bool:
    if op.type != "arange" or not is_std(op):
        return False
    (start, _, step), _ = op_arguments(op, lambda port: port)
    return type(start) is int and start >= 0 and type(step) is int and step > 0


def gather_elements(node: PaddedOp) -> list[PaddedState]:
    x, indices = node.args
    axis = node.attrs["axis"] % len(node.dims(x))
    expect_unpadded_axes(node, x, [axis], "gathers along")
    along = dict(node.padded_axes(indices))
    along.pop(axis, None)
    rows = enumerate(zip(node.dims(x), node.dims(indices), strict=True))
    are_equal = all(node.padding.are_equal(a, b) for i, (a, b) in rows if i in along)
    if along != node.padded_axes(x) or not are_equal:
        raise PaddingError(
            "gathers from a value that is padded differently from the indices"
        )
    return with_axes(node, node.padded_axes(indices))
