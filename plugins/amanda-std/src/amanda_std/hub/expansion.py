"""Expansion: replacing a composite by its definition, or a graph by its contents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.errors import UsageError
from amanda.graph import Graph, Op, OutputPort, Provenance, copy_input_attributes
from amanda_std.engine.values import lift, tracing
from amanda_std.hub.op_access import is_std, operation_of, traced_arguments

__all__ = ["expand", "expand_graph", "is_not_composite", "replace_op"]


def is_not_composite(op: Op) -> bool:
    """A `takes` for targets that support every primitive and no composite."""
    return not is_std(op) or not operation_of(op).is_composite


def expand(
    op: Op, rule: Callable[..., Any] | None = None, by: str = "expand"
) -> list[Op]:
    """Replace an op by its definition, one level deep; returns the new ops.

    If the definition depends on something that the types do not hold, Undecided is
    raised and the graph is unchanged. The op that computes the result inherits the
    name."""
    graph, function = op.graph, rule or operation_of(op).definition
    if graph is None or function is None:
        raise UsageError(
            "this op cannot be expanded",
            who=op.label,
            expected="an op with a definition in a graph, or a rule",
            got="an op in no graph" if graph is None else f"the primitive {op.type}",
        )
    args, attrs = traced_arguments(op)
    old = op.provenance
    source = old.sources if old else (op.name or op.type or "?",)
    ignored = np.errstate(all="ignore")  # as when the graph runs
    with ignored, tracing(graph, op, Provenance(source, by)) as into:
        try:
            made = function(*args, **attrs)
            many = made if isinstance(made, tuple | list) else (made,)
            values = [lift(value, into) for value in many]
        except BaseException:
            for extra in reversed(into.made):
                graph.remove(extra, by)
            raise
    copy_input_attributes([op], into.made, lambda value: value)
    replace_op(graph, op, values, set(into.made), by)
    return into.made


def expand_graph(inner: Graph, by: str = "expand") -> list[Op]:
    """Replace a graph that stands as an op by its contents; returns the new ops."""
    graph = inner.graph
    assert graph is not None
    memo: dict[Any, Any] = {}
    with graph.before(inner):
        values = graph.paste(inner, inner.inputs, memo=memo)
    made = [memo[op] for op in inner]
    graph.replace(inner, values, by)
    return made


def replace_op(
    graph: Graph, op: Op, values: list[OutputPort], made: set[Op], by: str
) -> None:
    """Replace an op by new values, which inherit its names."""
    name, names = op.name, [port.name for port in op.outputs]
    graph.replace(op, values, by)
    for value, own in zip(values, names, strict=True):
        if value.op in made and value.name is None:
            value.name = own
    heirs = dict.fromkeys(v.op for v in values if v.op in made)
    if name is not None and len(heirs) == 1 and name not in graph:
        graph.rename(next(iter(heirs)), name)
