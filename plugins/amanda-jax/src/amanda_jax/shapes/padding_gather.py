"""What ops make of padding that look things up: places from the front stay right."""

from __future__ import annotations

from typing import Any, Final

from amanda.graph import Op, OutputPort, Parameter
from amanda.types import Sym, TensorType
from amanda_jax.shapes.padding import At, MixesError, Padded, alike, expect_whole
from amanda_std.backends import op_arguments

__all__ = ["gather", "gather_elements", "gather_nd"]


def gather(at: At) -> list[Padded]:
    x, indices, axis = at.args
    [place] = at.places(axis, len(at.dims(x)))
    if not _is_natural(indices):
        expect_whole(at, x, [place], "looks up places of")
    more = len(at.dims(indices))
    rest = {a: name for a, name in at.axes(x).items() if a != place}
    found = {a if a < place else a + more - 1: name for a, name in rest.items()}
    found.update({place + a: name for a, name in at.axes(indices).items()})
    return alike(at, found)


def gather_nd(at: At) -> list[Padded]:
    x, indices = at.args
    many = at.attrs["batch_dims"]
    last = len(at.dims(indices)) - 1
    expect_whole(at, indices, [last], "takes as a place")
    deep = at.dims(indices)[last]
    if isinstance(deep, Sym):
        raise MixesError("looks up at places of which nobody knows the axes")
    if not _is_natural(indices):
        expect_whole(at, x, range(many, many + deep), "looks up places of")
    for axis in range(many):
        fine = at.padding.are_same(at.dims(x)[axis], at.dims(indices)[axis])
        if at.axes(x).get(axis) != at.axes(indices).get(axis) or not fine:
            raise MixesError("looks up in what is padded otherwise than the places are")
    found = dict(at.axes(indices))
    for axis, name in at.axes(x).items():
        if axis >= many + deep:
            found[axis - many - deep + last] = name
    return alike(at, found)


_KEEPING: Final = ("reshape", "broadcast_to", "expand_dims", "squeeze", "transpose",
                   "identity", "slice", "tile")  # fmt: skip
_JOINING: Final = ("concat", "stack", "add", "multiply", "maximum")


def _is_natural(value: Any) -> bool:
    """Whether integers are 0 or more for all that is fed: places from the front, which
    are the same with padding behind. Those beyond the end are an error without it."""
    waiting, seen = [value], set()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, OutputPort) or type(one) is Parameter:
            return False
        if one in seen:
            continue
        seen.add(one)
        op = one.op
        if op.is_constant:
            if op.attrs["value"].size and op.attrs["value"].numpy().min() < 0:
                return False
        elif op.type in _KEEPING or (op.type == "astype" and _is_long(op)):
            waiting.append(op.inputs[0])
        elif op.type in _JOINING:
            waiting += op.inputs
        elif op.type != "arange" or not _counts_up(op):
            return False
    return True


def _is_long(op: Op) -> bool:
    """Whether no number of elements is too large for what it is turned into."""
    found = op.output.type
    dtype = found.dtype if isinstance(found, TensorType) else None
    return dtype is not None and dtype.kind in ("int", "uint") and dtype.bits >= 32


def _counts_up(op: Op) -> bool:
    (start, _, step), _ = op_arguments(op, lambda port: port)
    return type(start) is int and start >= 0 and type(step) is int and step > 0


def gather_elements(at: At) -> list[Padded]:
    x, indices = at.args
    axis = at.attrs["axis"] % len(at.dims(x))
    expect_whole(at, x, [axis], "looks up places of")
    along = dict(at.axes(indices))
    along.pop(axis, None)
    rows = enumerate(zip(at.dims(x), at.dims(indices), strict=True))
    fine = all(at.padding.are_same(a, b) for i, (a, b) in rows if i in along)
    if along != at.axes(x) or not fine:
        raise MixesError("looks up in what is padded otherwise than the places are")
    return alike(at, at.axes(indices))
