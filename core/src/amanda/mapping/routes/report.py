"""Reports of conversions: which rule mapped which op, losses, gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from amanda.argument_checks import without_checks
from amanda.graph import held_attributes
from amanda.mapping.routes.route import Gap
from amanda.mapping.side import Side

if TYPE_CHECKING:
    from amanda.graph import Graph, Op, StatePort
    from amanda.mapping.rules.rule_set import RuleSet
    from amanda.types import Type

__all__ = [
    "Conversion",
    "ChangedPort",
    "CoveredOp",
    "UnmappedOp",
    "Report",
    "describe_gaps",
    "find_lost_attributes",
    "merge_conversions",
    "op_location",
    "trace_rules",
]

_held_attributes = without_checks(held_attributes)

TRACING: ContextVar[bool] = ContextVar("amanda_trace_rules", default=False)


@contextmanager
def trace_rules() -> Iterator[None]:
    """A context in which every conversion reports the rule of each op (`trace`)."""
    token = TRACING.set(True)
    try:
        yield
    finally:
        TRACING.reset(token)


class CoveredOp(NamedTuple):
    """An op and the rule that mapped it."""

    op: str
    name: str | None
    rule: str


@dataclass(frozen=True, slots=True)
class ChangedPort:
    """An input or a result of a graph whose complex numbers became pairs of real ones.

    The real and the imaginary part are the two elements of a new last axis."""

    place: str
    """`input` or `result`."""
    index: int
    name: str | None
    before: Type
    after: Type

    def __str__(self) -> str:
        label = self.index if self.name is None else repr(self.name)
        return (
            f"{self.place} {label}: {self.before} became {self.after}, with real and "
            "imaginary parts along the last axis"
        )


@dataclass
class Report:
    """What happened to the ops of a graph.

    `rules` counts ops by rule; `carried` ops were copied unchanged; `kept` ones are
    foreign ops in their own namespace; `losses` are those that rules declare, and
    attributes of graphs, ports and edges that could not be kept.
    """

    source: str
    target: str
    rules: Counter[str] = field(default_factory=Counter)
    carried: int = 0
    kept: int = 0
    filled: int = 0
    """Gaps that a listener of the hook `gap_met` filled."""
    passes: dict[str, int] = field(default_factory=dict)
    """The changes of passes that ran over the graph before this step, by pass."""
    gaps: tuple[Gap, ...] = ()
    losses: tuple[str, ...] = ()
    changed_ports: tuple[ChangedPort, ...] = ()
    """Inputs and results of other types, as the target has no complex numbers."""
    state_ports: tuple[StatePort, ...] = ()
    """Variables that became inputs and results, as the target has none."""
    trace: list[CoveredOp] | None = None
    """Every op with its rule, for conversions that are traced."""

    @property
    def mapped(self) -> int:
        """The number of ops that rules mapped."""
        return self.rules.total()

    def __str__(self) -> str:
        parts = {
            "mapped": self.mapped, "carried": self.carried, "kept": self.kept,
            "filled": self.filled, "without a mapping": len(self.gaps),
        }  # fmt: skip
        counts = [f"{number} {what}" for what, number in parts.items() if number]
        done = ", ".join(f"{name} {number}" for name, number in self.passes.items())
        after = f"; passes before: {done}" if done else ""
        return f"{self.source} -> {self.target}: {', '.join(counts) or 'no ops'}{after}"

    def _repr_html_(self) -> str:
        """Counts, gaps, losses and rules, for notebooks."""
        from amanda.html_tables import html_page, html_table

        gaps = [(gap.op, gap.where, "; ".join(gap.why)) for gap in self.gaps]
        tables = [
            html_table(("op without a mapping", "where", "why"), gaps),
            html_table(("lost",), [(loss,) for loss in self.losses]),
            html_table(("rule", "ops"), self.rules.most_common()),
        ]
        return html_page(str(self), {"passes": len(self.passes) or None}, tables)


class Conversion(NamedTuple):
    """A converted graph with its report. With gaps, the graph is incomplete."""

    graph: Graph
    report: Report


class UnmappedOp(NamedTuple):
    """An op without a rule, and the rules that declined it."""

    op: Op
    type: str | None
    declined: Sequence[tuple[str, str, str, int]]
    """Id and text of the rule, the reason, and how far it got."""


def op_location(op: Op, position: int | None = None) -> str:
    """The location of an op: `op 'a' in the body 'then' of 'if'`."""
    text = f"op {op.name!r}" if op.name is not None else f"op #{position}"
    graph = op.graph
    while graph is not None:
        if graph.holder is not None:
            holder = graph.holder
            text += f" in the body {graph.body_name!r} of {holder.short!r}"
            graph = holder.graph
        elif graph.owner is not None:
            names = [n for n, f in graph.owner.functions.items() if f is graph]
            text += f" in the function {names[0]!r}"
            graph = None
        else:
            text += f" in the graph {graph.short!r}" if graph.graph else ""
            graph = graph.graph
    return text


def describe_gaps(
    found: Sequence[UnmappedOp], rules: RuleSet, source: Side, *, forward: bool
) -> tuple[Gap, ...]:
    """The gaps of a conversion; ops are counted once per graph, not once per gap."""
    nameless = {gap.op for gap in found if gap.op.name is None}
    graphs = {op.graph: None for op in nameless}
    positions = {
        op: i
        for graph in graphs
        if graph is not None
        for i, op in enumerate(graph)
        if op in nameless
    }
    stubs: dict[str, str] = {}
    alike: dict[str, str | None] = {}
    return tuple(
        Gap(
            gap.op.type or "graph",
            op_location(gap.op, positions.get(gap.op)),
            tuple(f"{id}: {why}" for id, _, why, _ in gap.declined)
            or _unexpected_details(gap),
            _nearest_rules(gap, rules, forward, alike),
            _rule_stub(gap, source, forward, stubs),
            foreign=gap.type is None,
        )
        for gap in found
    )


def _unexpected_details(gap: UnmappedOp) -> tuple[str, ...]:
    if gap.type is not None:
        return ()
    return (f"it is of {gap.op.namespace}" if gap.op.type else "it has no op type",)


def _nearest_rules(
    gap: UnmappedOp, rules: RuleSet, forward: bool, alike: dict[str, str | None]
) -> str | None:
    """The rule that got furthest; else one for a type with a similar name."""
    if gap.declined:
        return max(gap.declined, key=lambda declined: declined[3])[1]
    if gap.type is None:
        return None
    if gap.type not in alike:
        types = rules.types(forward=forward)
        near = get_close_matches(gap.type, types, n=1, cutoff=0.8)
        rule = rules.of_type(near[0], forward=forward)[0] if near else None
        alike[gap.type] = getattr(rule, "text", None)
    return alike[gap.type]


def _rule_stub(
    gap: UnmappedOp, source: Side, forward: bool, known: dict[str, str]
) -> str | None:
    """A rule to start from, derived from the op's signature."""
    if gap.type is None:
        return None
    if gap.type not in known:
        signature = source.signature(gap.type)
        if signature is None:
            inputs = [f"x{i}" for i in range(len(gap.op.inputs))]
            attrs = [*gap.op.attrs, *gap.op.bodies]
        else:
            inputs = list(signature.inputs)
            if inputs and signature.variadic == inputs[-1]:
                inputs[-1] = f"*{inputs[-1]}"
            attrs = list(signature.attrs)
        parts = ", ".join([*inputs, *(f"{key}={key}" for key in attrs)])
        here, there = f"{gap.type}({parts})", f"...({parts})"
        known[gap.type] = (
            f"{here}  <=>  {there}" if forward else f"{there}  <=>  {here}"
        )
    return known[gap.type]


def find_lost_attributes(
    source: Graph, target: Graph, consumed: Sequence[str] = ()
) -> tuple[str, ...]:
    """The attributes of graphs, ports and edges, and the free notes of ops, that a
    conversion dropped.

    Ops are compared by name and provenance. Records of file formats, whose names have a
    colon, belong to the file. Notes in `consumed` are read by the mapping.
    """
    wanted = [row for row in _find_attributes(source) if row[2] not in consumed]
    if not wanted:
        return ()
    found = Counter(
        (label, key)
        for op, _, key in _find_attributes(target)
        for label in _labels_of(op, target)
    )
    lost = []
    for op, where, key in wanted:
        labels = _labels_of(op, source)
        label = next((each for each in labels if found[each, key]), None)
        if label is None:
            place = f" of {where}" if where else ""
            what = "the graph" if op is source else f"{op.type}, {op_location(op)}"
            lost.append(f"{what}: the attribute {key!r}{place}")
        else:
            found[label, key] -= 1
    return tuple(lost)


def _find_attributes(graph: Graph) -> Iterator[tuple[Op, str, str]]:
    """Ops with the place and the name of each attribute that a conversion keeps."""
    functions = [each for each in graph.graphs(deferred=False) if each.owner is graph]
    for op in (graph, *functions, *graph.walk(deferred=False)):
        for where, attrs in _held_attributes(op):
            for key in attrs:
                if ":" not in key:
                    yield op, where, key
        for body in op.bodies.values():
            for where, attrs in _held_attributes(body):
                yield from ((op, where, key) for key in attrs if ":" not in key)


def _labels_of(op: Op, root: Graph) -> list[str]:
    """The names by which an op is found in the graphs before and after a conversion."""
    if op is root:
        return [""]
    sources = () if op.provenance is None else op.provenance.sources
    return list(dict.fromkeys([op.name or op.type or "", *sources]))


def merge_conversions(done: Sequence[Conversion]) -> Conversion:
    """The last graph, with the reports of all steps as one."""
    if len(done) == 1:
        return done[0]
    whole = Report(done[0].report.source, done[-1].report.target)
    for _, report in done:
        whole.rules += report.rules
        whole.kept, whole.carried = report.kept, report.carried
        whole.filled += report.filled
        whole.gaps += report.gaps
        whole.losses += report.losses
        whole.changed_ports += report.changed_ports
        whole.state_ports += report.state_ports
        if report.trace is not None:
            whole.trace = [*(whole.trace or []), *report.trace]
    return Conversion(done[-1].graph, whole)
