"""What a conversion copies: constants, foreign ops, fields, control edges, entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from amanda.argument_checks import without_checks
from amanda.graph import (
    Graph,
    Op,
    OutputPort,
    Provenance,
    copy_input_attributes,
    free_notes,
    held_attributes,
)
from amanda.types import TensorType, Type

__all__ = [
    "carry_attributes",
    "copy_control_edges",
    "copy_port_fields",
    "copy_body",
    "copy_input_fields",
    "copy_op",
    "copy_entries",
    "copy_result_edge",
    "declared_type",
    "source_names",
    "start_graph",
]

_held_attributes = without_checks(held_attributes)
PortMap: TypeAlias = "Mapping[OutputPort, OutputPort]"


def start_graph(
    source: Graph,
    made: dict[OutputPort, OutputPort],
    namespace: str | None,
    outer: Graph | None,
) -> Graph:
    """A new graph with the fields and parameters of another, without results yet."""
    target = Graph(namespace, source.name, type=source.type, outer=outer)
    if source.has_attrs:
        target.attrs.update(source.attrs)
    target.provenance = source.provenance
    for old in source.parameters:
        new = target.parameter(old.type, old.name)
        made[old] = new
        copy_port_fields(old, new)
    return target


def copy_port_fields(old: OutputPort, new: OutputPort) -> None:
    """Copy attributes and marks of a value, and its name and type if there is none."""
    if new.name is None:
        new.name = old.name
    if new.type is None:
        new.type = old.type
    more = old.op.side_record
    if old.__class__ is OutputPort and not (more and (more.extras or more.marks)):
        return
    if old.has_attrs:
        new.attrs.update({**old.attrs, **new.attrs} if new.has_attrs else old.attrs)
    for label in old.marks:
        new.mark(label)


def copy_op(
    op: Op,
    target: Graph,
    inputs: Sequence[OutputPort | None],
    *,
    name: str | None,
    namespace: str | None,
    bodies: Mapping[str, Graph] | None = None,
    provenance: Provenance | None = None,
) -> Op:
    """A copy of an op with other inputs."""
    new = target.add(
        op.type,
        inputs,
        op.attrs if op.has_attrs else None,
        name=name,
        outputs=len(op.outputs),
        bodies=bodies,
        namespace=namespace,
        feedback=op.feedback,
    )
    for old_port, new_port in zip(op.outputs, new.outputs, strict=True):
        copy_port_fields(old_port, new_port)
    if (more := op.side_record) is not None and (more.input_names or more.extras):
        copy_input_fields(op, new)
    if provenance is not None:
        new.provenance = provenance
    return new


def copy_input_fields(op: Op, new: Op) -> None:
    """Copy names and attributes of input ports."""
    for place, twin in zip(op.input_ports, new.input_ports, strict=True):
        if place.name is not None:
            twin.set_name(place.name)
        if place.has_attrs:
            twin.attrs.update(place.attrs)
        if place.has_edge_attrs:
            twin.edge_attrs.update(place.edge_attrs)


def copy_result_edge(source: Graph, target: Graph, i: int) -> None:
    """Copy the attributes of the edge to a result."""
    old = source.result_ports[i]
    if old.has_edge_attrs:
        target.result_ports[i].edge_attrs.update(old.edge_attrs)


def carry_attributes(ops: Sequence[Op], made: Sequence[Op], values: PortMap) -> None:
    """Copy notes, and attributes of inputs and edges, to the ops built for `ops`.

    Notes go to the op that computes the first result. Attributes of values follow by
    `copy_port_fields`.
    """
    held = any(next(_held_attributes(op), None) is not None for op in ops)
    if not held or not made:
        return
    first = next((values[p] for p in ops[0].outputs if p in values), None)
    heir = first.op if first is not None and first.op in made else made[0]
    for op in ops:
        for key, note in free_notes(op).items():
            heir.attrs.setdefault(key, note)
    copy_input_attributes(ops, made, values.get)


def copy_body(
    body: Graph, target: Graph, value: Callable[[OutputPort], OutputPort]
) -> Graph:
    """A copy of a body for an op of `target`, with its captures mapped by `value`."""
    memo: dict[object, object] = {port: value(port) for port in body.captures}
    copy = body.clone(memo=memo)
    copy.outer = target
    return copy


def copy_entries(source: Graph, target: Graph, made: PortMap) -> None:
    """Copy the entries of a root graph."""
    for name, entry in source.entries.items():
        if all(v in made for side in entry for v in side.values()):
            inputs, outputs = (
                {key: made[value] for key, value in side.items()} for side in entry
            )
            target.set_entry(name, inputs, outputs)


def declared_type(old: OutputPort | None, new: OutputPort) -> Type | None:
    """The declared type of a result, where it has a rank and the inferred one none."""
    declared, found = None if old is None else old.type, new.type
    if not isinstance(declared, TensorType) or not isinstance(found, TensorType):
        return None
    is_lost = declared.shape.has_rank and not found.shape.has_rank
    return declared if is_lost and declared.dtype == found.dtype else None


def source_names(ops: list[Op]) -> tuple[str, ...]:
    """Names of the source ops."""
    if len(ops) == 1 and ops[0].name is not None:
        return (ops[0].name,)
    found: dict[str, None] = {}
    for op in ops:
        made = op.provenance
        if op.name is None and made is not None:
            found.update(dict.fromkeys(made.sources))
        else:
            found[op.name or op.type or ""] = None
    return tuple(found)


# -- control edges ------------------------------------------------------------------


def copy_control_edges(
    source: Graph, target: Graph, mapped: Mapping[Op, Sequence[Op]], made: PortMap
) -> None:
    """Add control edges between the ops that ops with control edges were mapped to."""
    for edge in list(source.control_edges):
        first, then = edge.output_port.op, edge.input_port.op
        firsts = [target] if first is source else _last_ops(first, mapped, made, target)
        thens = [target] if then is source else _first_ops(mapped.get(then, ()))
        attrs = edge.attrs if edge.has_attrs else None
        for one in firsts:
            for other in thens:
                if one is not other and not (one is target and other is target):
                    target.control(one, other, attrs)


def _last_ops(
    op: Op, mapped: Mapping[Op, Sequence[Op]], made: PortMap, target: Graph
) -> list[Op]:
    """The ops to wait for in the place of `op`: its last ones, or its producers."""
    group = mapped.get(op, ())
    if group:
        read = {value.op for other in group for value in other.inputs if value}
        return [one for one in group if one not in read]
    producers = (made[port].op for port in op.outputs if port in made)
    return [one for one in dict.fromkeys(producers) if one.graph is target]


def _first_ops(group: Iterable[Op]) -> list[Op]:
    inside = set(group)
    return [
        op
        for op in inside
        if not any(value is not None and value.op in inside for value in op.inputs)
    ]
