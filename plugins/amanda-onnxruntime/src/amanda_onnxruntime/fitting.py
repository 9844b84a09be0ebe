"""Forms of a graph that the runtime may take, the closest to it first.

What it does not take as it is, it may take at another opset, or made of simpler ops:
its kernels are for some versions and element types of each op, and no list that it has
says for which. So a form is tried, and what the runtime says decides about the next.
All of them mean the same; which one it was is told by `Executable.form`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from amanda.errors import AmandaError, BackendError
from amanda.graph import Graph
from amanda_onnxruntime.narrow import ops_widened

if TYPE_CHECKING:
    from amanda_onnxruntime.sessions import Maker

__all__ = ["Form", "forms"]

_HUB: Final = "amanda/std/1"
_OLDER: Final = (21, 18, 13)
"""Opsets to try after the newest one: of those between, each has what the next has."""

_WITHOUT: Final = re.compile(
    r"(?:implementation for|find kernel for|operator \(|Optype \()\s*(\w+)"
)
_MOST: Final = 12  # op types that are computed in wider numbers, one after the other


class Form(NamedTuple):
    """A graph as the runtime may take it."""

    told: str
    """How it differs from the graph that was compiled; empty for this itself."""
    graph: Graph
    session: object


def forms(graph: Graph, maker: Maker) -> Iterator[Form]:
    """The forms that the runtime takes; BackendError, the first one, where it is none.

    A form is made when it is asked for.
    """
    first: AmandaError | None = None
    found = False
    for told, ways in _ways(graph):
        try:
            form = _taken(ways(), told, maker)
        except AmandaError as error:
            first = first or error
            continue
        found = True
        yield form
    if not found and first is not None:
        raise first


def _ways(graph: Graph) -> Iterator[tuple[str, Callable[[], Graph]]]:
    import amanda
    from amanda_onnxruntime.sessions import lacking, newest_opset

    hub: list[Graph] = []

    def at_hub() -> Graph:
        if not hub:
            made = amanda.convert(graph, _HUB)
            for domain in set(made.imports) & lacking():
                del made.imports[domain]  # so that nothing is written in it
            hub.append(made)
        return hub[0]

    yield "", lambda: graph
    for opset in (newest_opset(), *_OLDER):
        goal = f"amanda/onnx/{opset}"
        yield f"by {_HUB} as {goal}", partial(_converted, at_hub, goal)


def _converted(hub: Callable[[], Graph], goal: str) -> Graph:
    import amanda

    return amanda.convert(hub(), goal)


def _taken(graph: Graph, told: str, maker: Maker) -> Form:
    """The graph, and where the runtime lacks kernels for short numbers, with wider."""
    kinds: list[str] = []
    first: BackendError | None = None
    while True:
        try:
            return Form(told, graph, maker(graph))
        except BackendError as error:
            first = first or error
            kind = _WITHOUT.search(error.got or "")
            if kind is None or kind[1] in kinds or len(kinds) == _MOST:
                raise first from None
            kinds.append(kind[1])
            graph = graph.clone()
            if not ops_widened(graph, kinds[-1:]):
                raise first from None
            wide = f"{kind[1]} in wider numbers"
            told = f"{told}, {wide}" if told else wide
