"""Targets: values of a graph, by name, by op or by handle."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from amanda.errors import UsageError
from amanda.graph import Op, OutputPort, Parameter, ValueLike, value_port

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = ["fed_parameter", "parameter_key", "target_of"]


def target_of(graph: Graph, target: str | Op | ValueLike) -> OutputPort:
    """The value of a target: a result, the output of an op, `name:index`, or itself."""
    if isinstance(target, Op):
        return target.output
    if not isinstance(target, str):
        return value_port(target).resolve()
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


def fed_parameter(key: Any) -> Parameter | None:
    """The input that a key of feeds is a handle of; None for a name or an index."""
    if isinstance(key, str | int) or not isinstance(key, ValueLike):
        return None
    port = value_port(key).resolve()
    if not isinstance(port, Parameter):
        raise UsageError(
            f"{port} is not an input, so it cannot be fed",
            expected="the name of an input, or a parameter of the graph",
            got=f"an output of {port.op.label}",
        )
    return port


def parameter_key(port: Parameter) -> str | int:
    """The key of an input: its name, or its index if it has none."""
    return port.index if port.name is None else port.name


def _near(target: str, graph: Graph) -> str | None:
    names = [port.name for port in graph.outputs] + [op.name for op in graph]
    near = get_close_matches(target, [name for name in names if name], n=1)
    return f"did you mean {near[0]!r}?" if near else None
