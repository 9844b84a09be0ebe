"""Routes: chains of installed mappings from one namespace to another.

A mapping says in its manifest which versions it maps `from` and `to`; a route is found
over these, and imports nothing. What could not be mapped is a `Gap`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from amanda.dictionary import Name, Span, newest_version
from amanda.errors import ConversionError

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = [
    "Gap",
    "GapMet",
    "MappingLink",
    "Mapper",
    "Route",
    "RouteStep",
    "find_route",
    "gap_error",
]

GapMet = Callable[..., Any]
"""Called as `gap_met(op=, why=, build=, inputs=)`: values for the op, or None."""


@runtime_checkable
class Mapper(Protocol):
    """What entries of `amanda.mappings` are."""

    def apply(
        self, graph: Graph, to: str, *, keep_foreign: bool, gap_met: GapMet
    ) -> Graph:
        """A new graph in the namespace `to`; `graph` is left as it was.

        An op that no rule maps is offered to `gap_met`; what is then left is kept as it
        is where `keep_foreign` says so, and else told all at once by `unmapped`.
        """


@dataclass(frozen=True, slots=True)
class Gap:
    """An op that could not be mapped.

    >>> print(Gap("Foo", "op 'a' in the body 'then' of 'if'", ("no rule for Foo",)))
    Foo, op 'a' in the body 'then' of 'if': no rule for Foo
    """

    op: str
    """Its type."""
    where: str
    why: tuple[str, ...] = ()
    """Why each rule that came near declined."""
    nearest: str | None = None
    """The rule that came nearest."""
    stub: str | None = None
    """A rule to begin with, in the form of the mapping's own files."""
    foreign: bool = False
    """Whether it is of another namespace than the graph, which nobody mapped before."""

    def __str__(self) -> str:
        why = "; ".join(self.why) or "no rule maps it"
        near = f" (nearest: {self.nearest})" if self.nearest else ""
        return f"{self.op}, {self.where}: {why}{near}"


def gap_error(gaps: Sequence[Gap], source: str, target: str) -> ConversionError:
    """The error that tells every gap of a conversion."""
    number = f"{len(gaps)} ops have" if len(gaps) != 1 else "1 op has"
    error = ConversionError(
        f"{number} no mapping from {source} to {target}",
        hint="map them by rules of your own, or keep them: keep_foreign=True",
        problems=[str(gap) for gap in gaps],
    )
    error.gaps = tuple(gaps)  # type: ignore[attr-defined]
    return error


class MappingLink(NamedTuple):
    """An installed mapping in one direction. `key` is what it is found by.

    Without `transit`, no route leads on from its target: it is a place to arrive at.
    """

    key: str
    source: Span
    target: Span
    transit: bool = True


@dataclass(frozen=True, slots=True)
class RouteStep:
    """One mapping of a route, with the two versions it is used for."""

    mapping: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Route:
    """How a graph gets from one namespace to another. No steps: it is there."""

    source: str
    target: str
    steps: tuple[RouteStep, ...] = ()

    def __str__(self) -> str:
        if not self.steps:
            return f"{self.source}, as it is"
        parts = [f" -> {step.target} (by {step.mapping})" for step in self.steps]
        return self.source + "".join(parts)


def find_route(
    start: Name,
    goal: Span,
    links: Iterable[MappingLink],
    versions: Mapping[str, Sequence[str]] | None = None,
) -> Route:
    """The shortest route; among equally short ones, the first by the mappings' keys.

    Where several versions would do, the newest of `versions` (by path) is taken, else
    the upper end of the span.

    >>> from amanda.dictionary import parse_name, parse_span
    >>> links = [
    ...     Link("onnx", parse_span("onnx"), parse_span("std@1")),
    ...     Link("tf", parse_span("std@1"), parse_span("tensorflow@1..2")),
    ... ]
    >>> print(find_route(parse_name("onnx@18"), parse_span("tensorflow"), links))
    amanda/onnx/18 -> amanda/std/1 (by onnx) -> amanda/tensorflow/2 (by tf)
    """
    known = versions or {}
    if start in goal:
        return Route(str(start), str(start))
    ordered = sorted(links, key=lambda link: link.key)
    chain = _shortest_chain(start, goal, ordered)
    if chain is None:
        raise _no_route_error(start, goal, ordered)
    steps: list[RouteStep] = []
    wanted = goal
    for i in range(len(chain) - 1, -1, -1):
        link = chain[i]
        target = _pick_version(_intersect_spans(link.target, wanted), known)
        before = chain[i - 1].target if i else Span.of(start)
        wanted = _intersect_spans(link.source, before)
        if steps:
            target = steps[-1].source
        source = str(start) if i == 0 else _pick_version(wanted, known)
        steps.append(RouteStep(link.key, source, target))
    steps.reverse()
    return Route(str(start), steps[-1].target, tuple(steps))


def _shortest_chain(
    start: Name, goal: Span, links: Sequence[MappingLink]
) -> list[MappingLink] | None:
    """Breadth first. After a link its whole target is open, so none is used twice."""
    came: dict[MappingLink, MappingLink | None] = {}
    waiting: deque[tuple[Span, MappingLink | None]] = deque([(Span.of(start), None)])
    while waiting:
        here, by = waiting.popleft()
        for link in links:
            if link in came or here.meet(link.source) is None:
                continue
            came[link] = by
            if link.target.meet(goal) is not None:
                return _collect_chain(link, came)
            if link.transit:
                waiting.append((link.target, link))
    return None


def _collect_chain(
    link: MappingLink, came: Mapping[MappingLink, MappingLink | None]
) -> list[MappingLink]:
    chain = [link]
    while (before := came[chain[-1]]) is not None:
        chain.append(before)
    return chain[::-1]


def _intersect_spans(one: Span, other: Span) -> Span:
    met = one.meet(other)
    assert met is not None  # the chain was found by it
    return met


def _pick_version(span: Span, known: Mapping[str, Sequence[str]]) -> str:
    inside = [v for v in known.get(span.path, ()) if Name(span.path, v) in span]
    return str(Name(span.path, newest_version(inside) or span.high or span.low))


def _no_route_error(
    start: Name, goal: Span, links: Sequence[MappingLink]
) -> ConversionError:
    onward = [link for link in links if link.source.path == start.path]
    inward = [link for link in links if link.target.path == goal.path]
    fitting = [link for link in onward if start in link.source]
    arriving = [link for link in inward if link.target.meet(goal) is not None]
    problems = [f"{link.key} maps only from {link.source}" for link in onward]
    if fitting:
        ends = sorted({str(link.target) for link in fitting})
        problems = [f"from {start} there is a mapping to {', '.join(ends)} only"]
    elif not onward:
        problems = [f"no installed mapping leads from {start}"]
    if arriving:
        ends = sorted({str(link.source) for link in arriving})
        problems.append(f"to {goal} there is a mapping from {', '.join(ends)} only")
    elif inward:
        problems += [f"{link.key} maps only to {link.target}" for link in inward]
    else:
        problems.append(f"no installed mapping leads to {goal}")
    missing = goal if fitting else start
    plugin = missing.path.rpartition("/")[2]
    return ConversionError(
        f"no installed mappings lead from {start} to {goal}",
        hint=f"pip install amanda-{plugin}, if there is such a plug-in",
        problems=problems,
    )
