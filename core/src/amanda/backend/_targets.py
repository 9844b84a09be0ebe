"""Targets: values of a graph, by name, by op or by handle."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from amanda.errors import UsageError
from amanda.graph import Op, OutputPort

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = ["target_of"]


def target_of(graph: Graph, target: str | Op | OutputPort) -> OutputPort:
    """The value of a target: a result, the output of an op, `name:index`, or itself."""
    if isinstance(target, OutputPort):
        return target.resolve()
    if isinstance(target, Op):
        return target.output
    for port, value in zip(graph.outputs, graph.results, strict=True):
        if port.name == target and value is not None:
            return value
    name, colon, index = target.rpartition(":")
    if target in graph:
        return graph[target].output
    if colon and name in graph and index.isdigit():
        outputs = graph[name].outputs
        if int(index) < len(outputs):
            return outputs[int(index)]
    raise UsageError(
        f"the graph has no result and no op {target!r}",
        expected="the name of a result or an op, name:index, an op, or a value",
        hint=_near(target, graph),
    )


def _near(target: str, graph: Graph) -> str | None:
    names = [port.name for port in graph.outputs] + [op.name for op in graph]
    near = get_close_matches(target, [name for name in names if name], n=1)
    return f"did you mean {near[0]!r}?" if near else None
