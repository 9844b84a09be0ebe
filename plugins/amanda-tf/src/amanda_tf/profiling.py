"""Times of ops, from the traces that sessions of TensorFlow make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from amanda.backend import OpLabel, OpTime, op_label, typical_run
from amanda.graph import Graph, Op
from amanda_tf.backend import import_tensorflow
from amanda_tf.executable import device_name, graph_definition
from amanda_tf.nodes.names import node_names
from amanda_tf.notes import CONTROL_OUTPUT

__all__ = ["profile_graph"]

_RUNS: Final = 5
"""Calls that are traced; the profile is that with the median of the totals."""
_TYPE: Final = re.compile(r" = (\w+)\(")
_FUSED: Final = "Fused"
_AROUND: Final = ("Const", "NoOp", "_Arg", "_Retval", "_Send", "_Recv")
"""Types of nodes that bring values into a graph and out of it."""


def profile_graph(
    graph: Graph, feeds: Sequence[Any], device: str | None
) -> list[OpTime]:
    """The times of the ops of a graph, whose inputs and results have plain names.

    The time of an op with bodies is that of what runs in them. A node that TensorFlow
    fused from several has the name of the last, and the sources of all; one that it
    made by itself has no source but its name. Names of ops that bodies have as well are
    changed in the graph."""
    tf = import_tensorflow()
    numbered = {op: op_label(op, i) for i, op in enumerate(graph)}
    definition, inside = _definition_with_unique_names(graph)
    names = node_names(graph, results=True)
    ops = {names[op]: op for op in numbered}
    fetches = [f"amanda_result_{i}:0" for i in range(len(graph.outputs))]
    effects = [names[op] for op in graph if CONTROL_OUTPUT in op.attrs]
    fed = {f"amanda_input_{i}:0": value for i, value in enumerate(feeds)}
    with tf.Graph().as_default() as loaded, tf.device(device_name(device)):
        tf.import_graph_def(definition, name="")
    options = tf.compat.v1.RunOptions(
        trace_level=tf.compat.v1.RunOptions.SOFTWARE_TRACE
    )
    runs = []
    with tf.compat.v1.Session(graph=loaded) as session:
        for _ in range(1 if effects else _RUNS + 1):
            trace = tf.compat.v1.RunMetadata()
            session.run([*fetches, *effects], fed, options, trace)
            nodes = _nodes_that_ran(trace.step_stats)
            runs.append(list(_op_times(nodes, ops, numbered, inside)))
    return typical_run(runs[1:] or runs)  # the first call optimizes the graph


def _definition_with_unique_names(graph: Graph) -> tuple[Any, set[str]]:
    """The GraphDef, and the names of nodes in its functions, which no other has."""
    definition = graph_definition(graph)
    library = definition.library.function
    inside = {node.name for function in library for node in function.node_def}
    shared = [op for op, name in node_names(graph, results=True).items()
              if name in inside]  # fmt: skip
    for i, op in enumerate(shared):
        op.name = f"amanda_op_{i}"
    return (graph_definition(graph) if shared else definition), inside


def _nodes_that_ran(stats: Any) -> dict[str, tuple[Any, str]]:
    """The nodes of a trace with their types, by name, in order of their starts."""
    nodes = [
        node
        for device in stats.dev_stats
        if "stream" not in device.device  # the same nodes, by queue of a GPU
        for node in device.node_stats
    ]
    nodes.sort(key=lambda node: node.all_start_micros)
    rows = ((node, _TYPE.search(node.timeline_label)) for node in nodes)
    return {node.node_name: (node, found[1]) for node, found in rows if found}


def _op_times(
    nodes: Mapping[str, tuple[Any, str]],
    ops: Mapping[str, Op],
    labels: Mapping[Op, OpLabel],
    inside: set[str],
) -> Iterator[OpTime]:
    """The times of nodes outside functions, relative to the first of all."""
    since = min((node.all_start_micros for node, _ in nodes.values()), default=0)
    ran = {ops[name] for name in nodes if name in ops}
    for name, (node, type_) in nodes.items():
        is_around = type_ in _AROUND or name.startswith("amanda_result_")
        if is_around or (name not in ops and name in inside):
            continue
        label = OpLabel(name, type_, (name,))
        if name in ops:
            label = labels[ops[name]]._replace(type=type_)
        if name in ops and _FUSED in type_:
            sources = _fused_sources(ops[name], ran, labels)
            label = label._replace(sources=tuple(sources))
        nanoseconds = node.op_end_rel_nanos - node.op_start_rel_nanos
        sizes = [each.total_bytes for each in node.memory]
        start = (node.all_start_micros - since) / 1e6
        yield OpTime(label, start, nanoseconds / 1e9, sum(sizes) if sizes else None)


def _fused_sources(
    op: Op, ran: set[Op], labels: Mapping[Op, OpLabel]
) -> dict[str, None]:
    """The sources of an op, and of those before it that did not run by themselves."""
    found: dict[str, None] = {}
    waiting, seen = [op], {op}
    while waiting:
        each = waiting.pop()
        found |= dict.fromkeys(labels[each].sources)
        for value in each.inputs:
            if value is None or value.op in seen or value.op in ran:
                continue
            if value.op in labels and not value.op.is_constant:
                seen.add(value.op)
                waiting.append(value.op)
    return found
