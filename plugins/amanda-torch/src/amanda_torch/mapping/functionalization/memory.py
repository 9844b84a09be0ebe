"""Ops that see the memory of a tensor, whatever its strides are.

`as_strided` names places in the storage of its operand. It becomes an op on all
elements of the storage in the order of memory: on the tensor that was allocated,
permuted. Where a program does not say how that lies in memory, the op gets a note with
the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType
from amanda_torch.mapping.functionalization.storages import Storages
from amanda_torch.mapping.functionalization.strides import (
    Memory,
    memory_of,
    offset_of,
)
from amanda_torch.mapping.functionalization.views import base_name
from amanda_torch.records import MEMORY_NOTE, NODE_RECORDS

__all__ = ["read_memory", "sees_memory"]

_VIEWS: Final = ("as_strided", "as_strided_", "as_strided_copy")
_SCATTER: Final = "as_strided_scatter"
_RESIZED: Final = ("resize", "resize_", "resize_as", "resize_as_")
_CONJUGATED: Final = ("conj", "_conj", "_neg_view", "adjoint", "mH", "matrix_H")


def sees_memory(op: Op) -> bool:
    """Whether what an op computes depends on the strides of its operand."""
    return base_name(op) in (*_VIEWS, _SCATTER, *_RESIZED)


def read_memory(graph: Graph, storages: Storages, op: Op, source: OutputPort) -> None:
    """Let an op read elements in the order of memory; `source` was its operand."""
    kind = base_name(op)
    if kind in _RESIZED:
        memory = memory_of(source)
        if memory is None or not memory.is_in_rows:
            op.attrs[MEMORY_NOTE] = "the elements of the tensor are not in rows"
    elif kind == _SCATTER:
        _scatter_into_memory(graph, op, source)
    else:
        _view_memory(graph, storages, op, source)


def _view_memory(graph: Graph, storages: Storages, op: Op, source: OutputPort) -> None:
    view = storages.view_of(source)
    origin, memory = view.storage.origin, memory_of(view.storage.origin)
    reason = _reason(op, origin, memory)
    conjugates = any(base_name(step) in _CONJUGATED for step, _ in view.steps)
    if _dtype(origin) != _dtype(source) or conjugates:
        reason = "the tensor is a view with other elements than its storage has"
    place = _first_place(op, source)
    if reason is not None or memory is None or place is None:
        op.attrs[MEMORY_NOTE] = reason or "the offset is known at run time only"
        storages.add_view(op.output, op, 0, source)
        return
    steps = [*_permute_axes(graph, op, view.storage.value, memory.axes), op]
    first = steps[0] if len(steps) > 1 else None
    op.input_ports[0].connect(view.storage.value if first is None else first.output)
    op.attrs["storage_offset"] = place - memory.offset
    if base_name(op) == "as_strided_copy":
        return
    storages.add_view_of_memory(op.output, source, steps)


def _scatter_into_memory(graph: Graph, op: Op, source: OutputPort) -> None:
    """A scatter into the elements of a dense tensor, in the order of memory."""
    memory, place = memory_of(source), _first_place(op, source)
    reason = _reason(op, source, memory)
    if reason is not None or memory is None or place is None:
        op.attrs[MEMORY_NOTE] = reason or "the offset is known at run time only"
        return
    op.attrs["storage_offset"] = place - memory.offset
    if memory.is_in_rows:
        return
    value, axes = op.inputs[0], memory.axes
    assert value is not None
    [turned] = _permute_axes(graph, op, value, axes)
    op.input_ports[0].connect(turned.output)
    users = op.output.users
    inverse = [axes.index(i) for i in range(len(axes))]
    following = _next_op(graph, op)
    with graph.before(following):
        back = graph.add("aten.permute.default", [op.output], {"dims": inverse})
    back.output.type, op.output.type = op.output.type, turned.output.type
    NODE_RECORDS.add(back, values=NODE_RECORDS.of(op).get("values"))
    for user in users:
        user.connect(back.output)


def _next_op(graph: Graph, op: Op) -> Op | None:
    ops = iter(graph)
    return next((next(ops, None) for each in ops if each is op), None)


def _permute_axes(
    graph: Graph, op: Op, value: OutputPort, axes: Sequence[int]
) -> list[Op]:
    """The op before another one that permutes a value; none where nothing changes."""
    if tuple(axes) == tuple(range(len(axes))):
        return []
    with graph.before(op):
        turned = graph.add("aten.permute.default", [value], {"dims": list(axes)})
    if isinstance(value.type, TensorType):
        dims = [value.type.shape.dims[i] for i in axes]
        turned.output.type = TensorType(value.type.dtype, dims)
    return [turned]


def _reason(op: Op, tensor: OutputPort, memory: Memory | None) -> str | None:
    """Why an op cannot read the memory of a tensor; None if it can."""
    if memory is None:
        return "the storage of the tensor is not dense, or not known"
    place = _first_place(op, tensor)
    size, stride = op.attrs.get("size", ()), op.attrs.get("stride", ())
    if place is None or not all(type(n) is int for n in (*size, *stride)):
        return "sizes, strides or the offset are known at run time only"
    count = _count(tensor)
    last = place + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    is_inside = place >= memory.offset and (
        count is None or last < memory.offset + count
    )
    if 0 in size or is_inside:
        return None
    return "it reads memory outside of the tensor that the program has"


def _first_place(op: Op, source: OutputPort) -> int | None:
    """The place in the storage at which an op begins; None if not known."""
    given = op.attrs.get("storage_offset")
    if any(port.name == "storage_offset" for port in op.input_ports):
        return None
    return offset_of(source) if given is None else int(given)


def _count(tensor: OutputPort) -> int | None:
    dims = tensor.type.shape.dims if isinstance(tensor.type, TensorType) else (None,)
    known = [dim for dim in dims if isinstance(dim, int)]
    return prod(known) if len(known) == len(dims) else None


def _dtype(port: OutputPort) -> Any:
    return port.type.dtype if isinstance(port.type, TensorType) else None
