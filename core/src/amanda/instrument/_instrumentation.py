"""The graph that a tool is being applied to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from amanda.errors import UsageError
from amanda.graph import value_port
from amanda.instrument._capabilities import find_capability
from amanda.instrument._report import (
    COMBINATIONS,
    HostCallback,
    Observation,
    ObservedOp,
    Report,
    Unobserved,
)
from amanda.instrument._site import GradientSite, Site
from amanda.types import as_type

if TYPE_CHECKING:
    from amanda.graph import Graph, Op, OutputPort
    from amanda.host import Host
    from amanda.instrument._selectors import Selector
    from amanda.instrument._sources import Sources
    from amanda.instrument._tool import Tool
    from amanda.types import Type

__all__ = ["GradientCallback", "Instrumentation", "Pending"]


class Pending(NamedTuple):
    """A value that is to become a result of the instrumented graph."""

    op: ObservedOp
    key: str
    combine: str
    port: OutputPort


class GradientCallback(NamedTuple):
    """A callback for the gradient of a value, called during differentiation."""

    instrumentation: Instrumentation
    op: Op
    label: str
    port: OutputPort
    method: Callable[[GradientSite], Any]

    def __call__(self, gradient: Any) -> Any:
        site = GradientSite(
            self.instrumentation, self.op, self.label, self.port, gradient
        )
        self.method(site)
        return site.new_gradient


class Labels:
    """Names of ops in reports: their own, that of a source op, or of the type."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._by_op: dict[Op, str] = {}

    def of(self, op: Op, sources: Sources) -> str:
        known = self._by_op.get(op)
        if known is None:
            found = sources.of(op)
            stem = op.name or (found[-1].name if found else op.type or "op")
            self._taken[stem] += 1
            count = self._taken[stem]
            known = stem if count == 1 else f"{stem}#{count}"
            self._by_op[op] = known
        return known


class Instrumentation:
    """A graph that is being instrumented by one tool.

    - `graph`: the graph, which the tool may change
    - `tool`: the tool
    - `report`: what the tool finds
    - `data`: example inputs, one dict of feeds each: for calibration, for instance
    - `sources`: where the ops come from
    """

    def __init__(
        self,
        graph: Graph,
        tool: Tool,
        report: Report,
        sources: Sources,
        labels: Labels,
        data: Sequence[Mapping[str, Any] | Sequence[Any]],
        host: Host,
    ) -> None:
        self.graph = graph
        self.tool = tool
        self.report = report
        self.sources = sources
        self.data = data
        self.host = host
        self.pending: list[Pending] = []
        self.gradient_callbacks: list[GradientCallback] = []
        self._labels = labels
        self._wrap = find_capability(graph, "value_of", host)
        self._after: dict[Op, Op | None] = {}

    # -- ops --------------------------------------------------------------------------

    def sites(self, selector: Selector | None = None) -> list[Site]:
        """The ops that a selector matches, constants excepted; those of bodies too."""
        return [
            self.site(op)
            for part in self.graph.graphs()
            for op in part
            if not op.is_constant
            and (selector is None or selector.matches(op, self.sources))
        ]

    def site(self, op: Op) -> Site:
        """The site of an op of the graph."""
        return Site(self, op, self._labels.of(op, self.sources))

    def op_after(self, op: Op) -> Op | None:
        """The op that follows in the order of the graph, or None at its end."""
        graph = op.graph
        known = self._after.get(op)
        if known is not None and known.graph is graph and known.previous is op:
            return known
        found = None
        for each in graph or ():
            if found is op:
                self._after[op] = each
                return each
            found = each
            previous = each.previous
            if previous is not None:
                self._after[previous] = each
        return None

    def value_of(self, port: OutputPort) -> Any:
        """A port as a value of the namespace, where it has some; else the port."""
        return port if self._wrap is None else self._wrap(port)

    def port_of(self, value: Any) -> OutputPort:
        """The port of a value."""
        return value_port(value, f"what the tool {self.tool.label()} returns")

    def observed_op(self, site: Site) -> ObservedOp:
        """The op of a site, as reports have it."""
        return ObservedOp(
            self.tool.label(), site.label, site.type, site.scope, site.sources
        )

    def take_pending(self) -> list[Pending]:
        """The values to observe so far; the list is emptied."""
        found, self.pending = self.pending, []
        return found

    # -- what is reported -------------------------------------------------------------

    def record(self, site: Site, key: str, value: object) -> None:
        """Report a fact about an op."""
        row = Observation(*self.observed_op(site), key, value, 0)
        self.report.facts.append(row)

    def observe(self, site: Site, key: str, value: Any, combine: str) -> None:
        """Report a value that each run computes."""
        if combine not in COMBINATIONS:
            raise UsageError(
                f"there is no combination {combine!r}",
                expected=" or ".join(COMBINATIONS),
            )
        op = self.observed_op(site)
        self.pending.append(Pending(op, key, combine, self.port_of(value)))

    def not_observed(self, site: Site, key: str, reason: str) -> None:
        """Report that a value cannot be observed, and why."""
        row = Unobserved(self.tool.label(), site.label, key, reason)
        self.report.unobserved.append(row)

    def call_on_host(
        self,
        site: Site,
        key: str,
        function: Callable[..., Any],
        values: Iterable[Any],
        types: Iterable[Type | str],
    ) -> list[Any]:
        """Add an op that calls a Python function of values; returns its results."""
        call = find_capability(self.graph, "calling", self.host)
        if call is None:
            raise UsageError(
                f"the namespace {self.graph.namespace} has no op that calls Python "
                "functions",
                hint="set the namespace of the tool to that of the hub",
            )
        ports = [self.port_of(value) for value in values]
        name = f"{self.tool.label()}/{site.label}/{key}/{id(function):x}"
        kinds = [as_type(each) if isinstance(each, str) else each for each in types]
        made = call(site.graph, ports, function, name, kinds)
        self.report.callbacks.append(HostCallback(self.tool.label(), site.label, key))
        return [self.value_of(port) for port in made]

    # -- gradients ---------------------------------------------------------------------

    def call_with_gradients(
        self, selector: Selector, method: Callable[[GradientSite], Any]
    ) -> None:
        """Call a method with the gradient of each output of the selected ops, when the
        gradients of the loss are added: after all tools have changed the graph."""
        for site in self.sites(selector):
            if site.graph is not self.graph:
                self.not_observed(
                    site,
                    method.__name__,
                    "gradients inside of the bodies of control flow are not observed",
                )
                continue
            self.gradient_callbacks += [
                GradientCallback(self, site.op, site.label, port, method)
                for port in site.op.outputs
            ]
