"""Edits of ops: removed, replaced, inserted, folded, with other attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import amanda
from amanda.dictionary import Dictionary, cast_value
from amanda.errors import AmandaError, UsageError
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda_inspect.editing.selection import (
    OpsLike,
    ValueName,
    find_ops,
    find_value,
)
from amanda_std.backends import MAX_FOLDED_BYTES

__all__ = ["fold_constants", "insert_after", "remove_ops", "replace_ops",
           "replace_subgraph", "set_attributes"]  # fmt: skip


def remove_ops(graph: Graph, ops: OpsLike) -> int:
    """Remove ops; what read them reads their input. Returns how many were removed."""
    found = find_ops(graph, ops)
    for op in found:
        values = [_input_instead(op, port) if _is_needed(graph, port) else None
                  for port in op.outputs]  # fmt: skip
        graph.replace(op, values, "edit")
    _drop_unused_constants(graph)
    return len(found)


def _is_needed(graph: Graph, port: OutputPort) -> bool:
    return port.is_used or port in graph.results


def _input_instead(op: Op, port: OutputPort) -> OutputPort:
    """The only input that is no constant, or the only one of the type of the output."""
    inputs = [v for v in dict.fromkeys(op.inputs) if v is not None]
    inputs = [v for v in inputs if not v.op.is_constant] or inputs
    if len(inputs) > 1:
        inputs = [v for v in inputs if v.type is not None and v.type == port.type]
    if len(inputs) == 1:
        return inputs[0]
    raise UsageError(
        f"it is not clear what replaces output {port.index} of {op.label}",
        expected="one input, or one of the type of the output",
        got=f"{len([v for v in op.inputs if v is not None])} inputs, "
        f"{len(inputs)} of the type {port.type}",
        hint="cut the model there, or replace the op by another one",
    )


def _drop_unused_constants(graph: Graph) -> None:
    for op in reversed(graph):
        if op.is_constant and not any(_is_needed(graph, p) for p in op.outputs):
            graph.remove(op, "edit")


def replace_ops(
    graph: Graph, ops: OpsLike, type: str, attrs: Mapping[str, Any] | None = None
) -> int:
    """Replace ops by ops of another type with the same inputs and outputs.

    They have the attributes that are given, and no others.
    """
    found = find_ops(graph, ops)
    for op in found:
        name, ports = op.name, [port.name for port in op.outputs]
        with graph.before(op):
            new = _add(graph, type, op.inputs, attrs, len(op.outputs))
        graph.replace(op, list(new.outputs), "edit")
        new.name = name
        for port, port_name in zip(new.outputs, ports, strict=True):
            port.name = port_name
    return len(found)


def _add(
    graph: Graph,
    type: str,
    inputs: Sequence[OutputPort | None],
    attrs: Mapping[str, Any] | None,
    outputs: int = 1,
) -> Op:
    op = graph.add(type, list(inputs), outputs=outputs)
    try:
        op.attrs.update(_cast_attributes(op, attrs or {}))
    except AmandaError:
        graph.remove(op, "edit")
        raise
    return op


def _cast_attributes(op: Op, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the kinds that the dictionary states; unknown names are refused."""
    definition = op.definition
    if definition is None:
        return dict(attrs)
    found = {}
    for name, value in attrs.items():
        attr = definition.attr(name)
        if attr is None:
            known = ", ".join(sorted(each.name for each in definition.attrs))
            raise UsageError(
                f"{op.type} has no attribute {name!r}", expected=known or "none"
            )
        found[name] = cast_value(attr, value)
    return found


def set_attributes(graph: Graph, ops: OpsLike, **attrs: Any) -> int:
    """Set attributes of ops; None removes one. Returns how many ops were changed."""
    found = find_ops(graph, ops)
    for op in found:
        given = {name: value for name, value in attrs.items() if value is not None}
        op.attrs.update(_cast_attributes(op, given))
        for name in attrs.keys() - given.keys():
            op.attrs.pop(name, None)
    return len(found)


def insert_after(
    graph: Graph,
    value: ValueName,
    type: str,
    attrs: Mapping[str, Any] | None = None,
    inputs: Sequence[Any] | None = None,
) -> Op:
    """Insert an op between a value and everything that reads it.

    `inputs` are values by name, numbers or arrays, None for the value itself; the
    default is that alone: `insert_after(graph, "y", "Clip", inputs=[None, 0.0, 6.0])`.
    """
    port = find_value(graph, value)
    readers = port.users
    sources = [_input_of(graph, port, each) for each in inputs or [None]]
    op = _add(graph, type, sources, attrs)
    for reader in readers:
        reader.connect(op.output)
    return op


def _input_of(graph: Graph, port: OutputPort, given: Any) -> OutputPort:
    if given is None:
        return port
    if isinstance(given, str | OutputPort):
        return find_value(graph, given)
    import numpy as np

    dtype = getattr(port.type, "dtype", None)
    array = np.asarray(given)
    if dtype is not None and not hasattr(given, "dtype"):
        array = array.astype(dtype.numpy)
    return graph.constant(array).output


def replace_subgraph(
    graph: Graph,
    inputs: Iterable[ValueName],
    outputs: Iterable[ValueName],
    type: str,
    attrs: Mapping[str, Any] | None = None,
) -> Op:
    """Replace what computes outputs from inputs by one op."""
    sources = [find_value(graph, name) for name in inputs]
    targets = [find_value(graph, name) for name in outputs]
    old = {p: p.users for p in targets}
    op = _add(graph, type, sources, attrs, len(targets))
    for port, new in zip(targets, op.outputs, strict=True):
        for reader in old[port]:
            reader.connect(new)
        new.name, new.type = port.name, port.type
        port.name = None
    _remove_unused(graph, [port.op for port in targets])
    return op


def _remove_unused(graph: Graph, ops: Sequence[Op]) -> None:
    """Remove ops that nothing reads, and those before them."""
    waiting = [op for op in ops if op is not graph]
    while waiting:
        op = waiting.pop()
        if op.graph is not graph or any(_is_needed(graph, p) for p in op.outputs):
            continue
        sources = [v.op for v in op.inputs if v is not None and v.op is not graph]
        graph.remove(op, "edit")
        waiting += sources


def fold_constants(graph: Graph, backend: str = "numpy") -> int:
    """Compute ops that read constants alone; returns how many were replaced.

    Ops with bodies stay, and those whose values depend on a seed, or are large.
    """
    count = 0
    for op in graph:
        inputs = [v for v in op.inputs if v is not None]
        if op.is_constant or op.bodies or op.is_graph or not inputs:
            continue
        if all(v.op.is_constant for v in inputs):
            count += _fold(graph, op, backend)
    _drop_unused_constants(graph)
    return count


def _fold(graph: Graph, op: Op, backend: str) -> bool:
    import numpy as np

    used = [port for port in op.outputs if _is_needed(graph, port)]
    part = graph.clone(used)
    for i, port in enumerate(part.outputs):
        port.name = f"value {i}"
    try:
        found = [
            list(
                amanda.compile(part, backend, seed=seed, keep_executable=False)(
                    []
                ).values()
            )
            for seed in (1, 2)
        ]
    except AmandaError:  # it has no kernel, so the op stays
        return False
    same = all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
    if not same or sum(x.nbytes for x in found[0]) > MAX_FOLDED_BYTES:
        return False
    values: list[OutputPort | None] = [None] * len(op.outputs)
    for port, array in zip(used, found[0], strict=True):
        with graph.before(op):
            new = graph.constant(Tensor.of(np.ascontiguousarray(array))).output
        values[port.index] = new
    names = [port.name for port in op.outputs]
    graph.replace(op, values, "edit")
    for value, name in zip(values, names, strict=True):
        if value is not None:
            value.name = name
    return True


def dictionary_of(graph: Graph) -> Dictionary | None:
    """The dictionary of the namespace of a graph, if it is installed."""
    found = amanda.namespace(graph.namespace) if graph.namespace else None
    return found if isinstance(found, Dictionary) else None
