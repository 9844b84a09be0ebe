"""Ops are removed by letting what reads them read one of their inputs."""

from __future__ import annotations

from collections.abc import Iterator

from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType
from amanda_inspect.reduction.models import Model
from amanda_inspect.reduction.search import Search

__all__ = ["bypass_ops"]


def bypass_ops(search: Search) -> bool:
    """Remove single ops at any depth, the last ones first."""
    before = len(search.steps)
    position = 0
    while True:
        ops = _ops_at_any_depth(search.model.graph)
        if position >= len(ops):
            return len(search.steps) > before
        if not _bypass(search, ops[-1 - position]):
            position += 1


def _ops_at_any_depth(graph: Graph) -> list[Op]:
    return [op for op in graph.walk() if not op.is_constant and not op.is_graph]


def _bypass(search: Search, op: Op) -> bool:
    """Whether the model fails without an op."""
    what = f"without {op.label}"
    return any(
        search.accept(_without(search.model, op, old, new), what)
        for old, new in _replacements(search, op)
    )


def _replacements(search: Search, op: Op) -> Iterator[tuple[OutputPort, OutputPort]]:
    """Outputs that are read, each with an input of its type."""
    for old in op.outputs:
        for new in dict.fromkeys(op.inputs):
            if old.is_used and new is not None and _may_replace(search, old, new):
                yield old, new


def _may_replace(search: Search, old: OutputPort, new: OutputPort) -> bool:
    """Whether two values have one type, as far as it is known."""
    a, b = (_type_of(search, port) for port in (old, new))
    return a is None or b is None or a == b


def _type_of(search: Search, port: OutputPort) -> tuple[object, ...] | None:
    if port.graph is search.model.graph and port.op is port.graph:
        array = search.model.feeds.get(port.name or "")
        if array is not None:
            return (str(array.dtype), tuple(map(str, array.shape)))
    kind = port.type
    if not isinstance(kind, TensorType) or not kind.shape.has_rank:
        return None
    return (str(kind.dtype), tuple(map(str, kind.shape)))


def _without(model: Model, op: Op, old: OutputPort, new: OutputPort) -> Model | None:
    graph, memo = model.copy()
    if not _replace(memo[old], memo[new]):
        return None
    results = [value for value in graph.results if value is not None]
    if op.graph is model.graph:
        return model.with_graph(graph).with_results(results)
    _drop_unused(memo[op])
    return model.with_graph(graph)


def _replace(old: OutputPort, new: OutputPort) -> bool:
    """Let everything that reads a value read another one."""
    for port in old.users:
        port.connect(new)
    return not old.is_used


def _drop_unused(op: Op) -> None:
    """Remove an op and those before it that nothing uses, in its graph."""
    waiting = [op]
    while waiting:
        each = waiting.pop()
        home = each.graph
        if home is None or each.is_graph or any(p.is_used for p in each.outputs):
            continue
        sources = [v.op for v in each.inputs if v is not None and v.op is not v.graph]
        home.remove(each, "reduction")
        waiting += sources
