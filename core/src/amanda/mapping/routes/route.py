"""Routes: chains of installed mappings from one namespace to another.

The manifest of a mapping has the versions that it maps `from` and `to`; routes are
found over these, without imports. An op that could not be mapped is a `Gap`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from amanda.addons import advise_route
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
    """The interface of entries of `amanda.mappings`."""

    def apply(
        self, graph: Graph, to: str, *, keep_foreign: bool, gap_met: GapMet
    ) -> Graph:
        """A new graph in the namespace `to`; `graph` is not changed.

        `gap_met` is called for ops without a rule. Those that remain are kept as they
        are with `keep_foreign`, else all of them are raised at once by `gap_error`.
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
    """Why each rule that matched in part declined."""
    nearest: str | None = None
    """The rule that got furthest."""
    stub: str | None = None
    """A rule to start from, in the notation of rule files."""
    foreign: bool = False
    """Whether it is of another namespace than the graph, and was not mapped before."""

    def __str__(self) -> str:
        why = "; ".join(self.why) or "no rule maps it"
        near = f" (nearest: {self.nearest})" if self.nearest else ""
        return f"{self.op}, {self.where}: {why}{near}"


def gap_error(gaps: Sequence[Gap], source: str, target: str) -> ConversionError:
    """The error with every gap of a conversion."""
    number = f"{len(gaps)} ops have" if len(gaps) != 1 else "1 op has"
    error = ConversionError(
        f"{number} no mapping from {source} to {target}",
        hint="map them by rules of your own, or keep them: keep_foreign=True",
        problems=[str(gap) for gap in gaps],
    )
    error.gaps = tuple(gaps)  # type: ignore[attr-defined]
    return error


class MappingLink(NamedTuple):
    """An installed mapping in one direction, found by `key`.

    Without `transit`, its target is the end of a route.
    """

    key: str
    source: Span
    target: Span
    transit: bool = True


@dataclass(frozen=True, slots=True)
class RouteStep:
    """One mapping of a route, and the two versions that it is used for."""

    mapping: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Route:
    """A chain of mappings from one namespace to another; empty for the same one."""

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

    Where several versions are possible, the newest of `versions` (by path) is chosen,
    else the upper end of the span.

    >>> from amanda.dictionary import parse_name, parse_span
    >>> links = [
    ...     MappingLink("onnx", parse_span("onnx"), parse_span("std@1")),
    ...     MappingLink("tf", parse_span("std@1"), parse_span("tensorflow@1..2")),
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
    """Breadth-first search; no link is used twice."""
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
    assert met is not None  # the search reached the goal by it
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
    hint = advise_route(start.path, goal.path)
    if hint is None and not (onward and inward):
        hint = "`amanda plugin new NAME --kind mapping` begins a mapping"
    return ConversionError(
        f"no installed mappings lead from {start} to {goal}",
        hint=hint,
        problems=problems,
    )
