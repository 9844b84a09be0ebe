"""Equivalent forms of a graph that onnxruntime may support, the closest one first.

onnxruntime has kernels for some versions and dtypes of each op, and no list of them. So
a form is tried, and the error decides about the next: ops without a kernel in wider
dtypes, then the graph at an older opset, then through the hub at other opsets,
where ops without a kernel become simpler ones. `executable.form` shows which form runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import amanda
from amanda.backend import Implementation
from amanda.dictionary import parse_name
from amanda.errors import AmandaError, BackendError
from amanda.graph import Graph
from amanda_onnxruntime.implementations import implementations_of
from amanda_onnxruntime.runtime_info import unsupported_domains
from amanda_onnxruntime.sessions import SessionFactory, newest_opset
from amanda_onnxruntime.widening import types_like, widen_ops

__all__ = ["SupportedForm", "supported_forms"]

_HUB: Final = "amanda/std/1"
_OLDER_OPSETS: Final = (26, 21, 18, 13)
"""Tried after the newest one, of which onnxruntime 1.32 has few kernels.

Opsets between these have the same kernels.
"""
_MISSING_KERNEL: Final = re.compile(
    r"(?:implementation for|find kernel for|operator \(|Optype \()\s*(\w+)"
)
_MAX_STEPS: Final = 12
"""How often ops of more types are computed in wider dtypes, one after the other."""


class SupportedForm(NamedTuple):
    """A form that onnxruntime loads."""

    description: str
    """How it differs from the compiled graph; empty if it does not."""
    session: Any
    implementations: tuple[Implementation, ...]
    """What runs each op."""


def supported_forms(graph: Graph, factory: SessionFactory) -> Iterator[SupportedForm]:
    """Yield the forms that load, each built on demand.

    If there is none, raise the error of the first one.
    """
    first: AmandaError | None = None
    found = False
    for description, convert in _candidates(graph):
        try:
            form = _load(convert(), description, factory)
        except AmandaError as error:
            first = first or error
            continue
        found = True
        yield form
    if not found and first is not None:
        raise first


def _candidates(graph: Graph) -> Iterator[tuple[str, Callable[[], Graph]]]:
    hub: list[Graph] = []

    def at_hub() -> Graph:
        if not hub:
            converted = amanda.convert(graph, _HUB)
            for domain in set(converted.imports) & unsupported_domains():
                del converted.imports[domain]  # so that none of its ops is written
            hub.append(converted)
        return hub[0]

    yield "", lambda: graph
    own_opset = parse_name(str(graph.namespace)).number
    if own_opset > _OLDER_OPSETS[0]:
        goal = f"amanda/onnx/{_OLDER_OPSETS[0]}"
        yield f"as {goal}", partial(amanda.convert, graph, goal)
    for opset in (newest_opset(), *_OLDER_OPSETS):
        goal = f"amanda/onnx/{opset}"
        yield f"through {_HUB} as {goal}", partial(_convert, at_hub, goal)


def _convert(hub: Callable[[], Graph], goal: str) -> Graph:
    return amanda.convert(hub(), goal)


def _load(graph: Graph, description: str, factory: SessionFactory) -> SupportedForm:
    """Load a graph, with ops that lack a kernel in wider dtypes."""
    widened: list[str] = []
    steps = 0
    first: BackendError | None = None
    while True:
        try:
            session = factory(graph)
            return SupportedForm(description, session, (*implementations_of(graph),))
        except BackendError as error:
            first = first or error
            found = _MISSING_KERNEL.search(error.got or "")
            type = found[1] if found else None
            if type is None or type in widened or steps == _MAX_STEPS:
                raise first from None
            steps += 1
            more = [each for each in types_like(graph, type) if each not in widened]
            widened += more
            graph = graph.clone()
            if not widen_ops(graph, more):
                raise first from None
            step = f"{', '.join(more)} in wider dtypes"
            description = f"{description}, {step}" if description else step
