"""Ops that have an effect and no result: checks, prints; they are left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from amanda import namespace
from amanda.graph import Graph, Op, OutputPort
from amanda_torch.codes import op_type
from amanda_torch.records import INPUT_RECORDS

__all__ = ["find_left_out", "remove_unused", "unwrap_effects"]

_WITH_EFFECTS: Final = "higher_order.with_effects"


def unwrap_effects(graph: Graph) -> None:
    """Replace `with_effects` by the op that it calls; tokens order nothing here."""
    found = [op for part in graph.graphs() for op in part if op.type == _WITH_EFFECTS]
    for op in found:
        _unwrap(op)

    _remove_tokens(graph)


def _remove_tokens(graph: Graph) -> None:
    """Remove the tokens among the results and parameters of a program."""
    for i in reversed(range(len(graph.outputs))):
        if _is_token(graph.outputs[i]):
            graph.remove_result(i)
    for i in reversed(range(len(graph.parameters))):
        port = graph.parameters[i]
        if _is_token(port) and not port.is_used:
            graph.remove_parameter(i)


def _is_token(port: OutputPort) -> bool:
    return "token" in (INPUT_RECORDS.of(port).get("spec") or {})


def _unwrap(op: Op) -> None:
    graph = op.graph
    assert graph is not None
    token, *values = op.inputs
    attrs: dict[str, Any] = dict(op.attrs)
    called = op_type(str(attrs.pop("op")))
    with graph.before(op):
        inner = graph.add(called, values, attrs, outputs=len(op.outputs) - 1)
    for port, value in zip(op.input_ports[1:], inner.input_ports, strict=True):
        if port.name is not None:
            value.set_name(port.name)
    for old, new in zip(op.outputs[1:], inner.outputs, strict=True):
        new.type = old.type
    graph.replace(op, [token, *inner.outputs])


def find_left_out(graph: Graph) -> Iterator[Op]:
    """Ops that return nothing and write nothing: checks of sizes and values, prints."""
    dictionary: Any = namespace(graph.namespace or "torch", assume=True)
    for part in graph.graphs():
        for op in part:
            type = op.type or ""
            if type == _WITH_EFFECTS:
                type = op_type(str(op.attrs["op"]))
            found = dictionary.get(type)
            if found is None or found.outputs:
                continue
            if not any(port.is_written for port in found.inputs):
                yield op


def remove_unused(graph: Graph, kept: set[Op]) -> None:
    """Remove ops that no result needs: also checks, which return nothing.

    The kept ones and what they need stay.
    """
    for part in graph.graphs():
        for op in reversed(list(part)):
            if op not in kept and not any(port.is_used for port in op.outputs):
                part.remove(op)
