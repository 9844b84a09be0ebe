"""Regions of `torch.vmap` that an exported program has as ops, as maps over rows.

Between `_vmap_increment_nesting` and `_vmap_decrement_nesting`, ops see tensors without
their batch axis, which `_add_batch_dim` takes away and `_remove_batch_dim` puts back.
"""

from __future__ import annotations

from typing import Any, Final

from amanda.errors import ConversionError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType

__all__ = ["add_maps"]

_SPACE: Final = "torch._functorch.predispatch."
_ENTER: Final = f"{_SPACE}_vmap_increment_nesting"
_LEAVE: Final = f"{_SPACE}_vmap_decrement_nesting"
_ADD: Final = f"{_SPACE}_add_batch_dim"
_REMOVE: Final = f"{_SPACE}_remove_batch_dim"


def add_maps(graph: Graph) -> None:
    """Replace each region, inner ones first, by an op `map_impl`."""
    for part in list(graph.graphs()):
        open_regions: list[list[Op]] = []
        for op in list(part):
            if op.type == _ENTER:
                open_regions.append([])
            if not open_regions:
                continue
            open_regions[-1].append(op)
            if op.type == _LEAVE:
                mapped = _replace_region(part, open_regions.pop())
                if open_regions and mapped is not None:
                    open_regions[-1].extend(mapped)


def _replace_region(graph: Graph, region: list[Op]) -> list[Op] | None:
    """Replace the ops of a region; returns those that stand for it."""
    entries = [op for op in region if op.type == _ADD]
    ends = [op for op in region if op.type == _REMOVE]
    inner = [op for op in region if not (op.type or "").startswith(_SPACE)]
    before = [_move_axis(graph, op, op.inputs[0], _axis(op, 1), 0) for op in entries]
    body, captured = _make_body(graph, entries, ends, inner)
    args: dict[str, Any] = {"args": [[None] * len(entries), [None] * len(captured)]}
    with graph.before(region[-1]):
        call = graph.add(
            "higher_order.map_impl", [*before, *captured], args,
            bodies={"f": body}, outputs=len(ends),
        )  # fmt: skip
    labels = [(0, i) for i in range(len(before))] + [
        (1, i) for i in range(len(captured))
    ]
    for port, (which, i) in zip(call.input_ports, labels, strict=True):
        port.set_name(f"args.{which}.{i}")
    made = [call]
    for op, value in zip(ends, call.outputs, strict=True):
        value.type = _with_axis(op, op.outputs[0].type)
        result = _move_axis(graph, region[-1], value, 0, _axis(op, 3))
        made += [result.op] if result.op is not call else []
        graph.replace_uses(op.output, result)
    for op in reversed(region):
        graph.remove(op)
    return made


def _axis(op: Op, place: int) -> int:
    axis = op.attrs.get(f"arg{place}")
    if not isinstance(axis, int):
        raise ConversionError(
            "a batch axis of vmap is not constant", who=op.label, got=axis
        )
    return axis


def _move_axis(
    graph: Graph, at: Op, value: Any, source: int, destination: int
) -> OutputPort:
    if source == destination:
        return value  # type: ignore[no-any-return]
    attrs = {"source": source, "destination": destination}
    with graph.before(at):
        return graph.add("aten.movedim.int", [value], attrs).output


def _with_axis(op: Op, type: Any) -> Any:
    """The type of a result before its axis is moved from the first place."""
    if not isinstance(type, TensorType) or not type.shape.has_rank:
        return type
    dims = list(type.shape.dims)
    dims.insert(0, dims.pop(_axis(op, 3)))
    return TensorType(type.dtype, dims)


def _make_body(
    graph: Graph, entries: list[Op], ends: list[Op], inner: list[Op]
) -> tuple[Graph, list[OutputPort]]:
    """The ops of a region as a body, and the values from outside that it reads."""
    body = Graph(graph.namespace, "f")
    memo: dict[Any, OutputPort] = {}
    for op in entries:
        memo[op.output] = body.parameter(op.output.type)
    own = {port for op in inner for port in op.outputs} | set(memo)
    sinks = [op.inputs[0] for op in ends]
    read = [v for op in inner for v in op.inputs] + sinks
    captured = list(dict.fromkeys(v for v in read if v is not None and v not in own))
    for value in captured:
        memo[value] = body.parameter(value.type)
    for op in inner:
        _copy_op(body, op, memo)
    for sink in sinks:
        assert sink is not None
        body.result(memo[sink])
    return body, captured


def _copy_op(body: Graph, op: Op, memo: dict[Any, OutputPort]) -> None:
    copy = body.add(
        op.type, [None if v is None else memo[v] for v in op.inputs], dict(op.attrs),
        outputs=len(op.outputs), bodies=dict(op.bodies) or None,
    )  # fmt: skip
    for old, new in zip(op.input_ports, copy.input_ports, strict=True):
        if old.name is not None:
            new.set_name(old.name)
    for port, made in zip(op.outputs, copy.outputs, strict=True):
        made.type = port.type
        memo[port] = made
