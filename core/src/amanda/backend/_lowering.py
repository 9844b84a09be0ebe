"""Lowering of graphs to the ops that a backend supports."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from amanda.backend._protocols import refusals

if TYPE_CHECKING:
    from amanda.graph import Graph, Op
    from amanda.mapping import Refusal, Unlowered

__all__ = ["Lowered", "lower_for_backend", "stable_form"]


def stable_form(graph: Graph) -> Graph:
    """A graph with formulas that overflow replaced, where its namespace defines that.

    The graph itself where there is nothing to replace."""
    from amanda.mapping import definitions_of

    definitions = definitions_of(graph.namespace)
    if definitions is None or not hasattr(type(definitions), "stable_form"):
        return graph
    return definitions.stable_form(graph)


class Lowered(NamedTuple):
    """A graph for a backend, and why some of its ops are still not supported."""

    graph: Graph
    problems: list[Refusal]


def lower_for_backend(graph: Graph, supports: Callable[[Op], object]) -> Lowered:
    """Replace what a backend does not support; the graph itself where that is nothing.

    Nested graphs are inlined, constants folded, and composites replaced by their
    definitions. An op whose definition needs an unsupported op stays whole, so that a
    fallback can run it.
    """
    from amanda.graph import Graph
    from amanda.mapping import Refusal, definitions_of
    from amanda.passes import inline

    problems = refusals(graph, supports)
    if not problems:
        return Lowered(graph, problems)
    typed = graph
    if any(isinstance(op, Graph) and supports(op) is not True for op in graph.walk()):
        typed = graph.clone()
        inline(typed)
    definitions = definitions_of(graph.namespace)
    if definitions is None:
        return Lowered(typed, refusals(typed, supports))
    typed = graph.clone() if typed is graph else typed
    definitions.infer(typed)
    definitions.fold(typed)
    lowered, unlowered, _ = _lowered_copy(typed, supports, frozenset())
    if not unlowered:
        return Lowered(lowered, refusals(lowered, supports))
    ops = list(typed.walk())
    problems = [Refusal.of(ops[i], each.why) for i, each in unlowered.items()]
    lowered, _, whole = _lowered_copy(typed, supports, unlowered.keys())
    # ops that no definition is for are ignored by `lower`
    problems += refusals(lowered, lambda op: op in whole or supports(op))
    return Lowered(lowered, problems)


def _lowered_copy(
    graph: Graph, supports: Callable[[Op], object], keep: Collection[int]
) -> tuple[Graph, dict[int, Unlowered], Collection[Op]]:
    """A lowered copy, and what cannot be lowered, by the index of the original op.

    Ops with an index in `keep` stay whole; they are returned, too.
    """
    from amanda.mapping import lower

    copy = graph.clone()
    index = {op: i for i, op in enumerate(copy.walk())}
    whole = {op for op, i in index.items() if i in keep}
    unlowered: dict[int, Unlowered] = {}
    for each in lower(copy, supports, keep=whole):
        unlowered.setdefault(index[each.root], each)
    _remove_unused_functions(copy)
    return copy, unlowered, whole


def _remove_unused_functions(graph: Graph) -> None:
    """Remove functions whose calls were replaced; they may need unsupported ops."""
    from amanda.tensors import FunctionRef

    names = list(graph.functions)
    while names:
        bodies = {name: set(graph.functions[name].walk()) for name in names}
        users = {
            name: [op for op in graph.walk() if op not in bodies[name]]
            for name in names
        }
        unused = [
            name
            for name in names
            if not any(
                value == name or (isinstance(value, FunctionRef) and value.name == name)
                for op in users[name]
                if op.has_attrs
                for value in op.attrs.values()
            )
        ]
        for name in unused:
            graph.remove_function(name)
        names = list(graph.functions) if unused else []
