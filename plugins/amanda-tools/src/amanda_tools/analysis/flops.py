"""The tool `flops`: multiply-accumulates and FLOPs, as formulas of the sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from amanda.graph import Graph, Op, set_dims
from amanda.instrument import Instrumentation, Report, Site, Tool
from amanda.types import Dim, Sym
from amanda_std.backends import infer
from amanda_tools.analysis.costs import NOTHING, Cost, primitive_cost
from amanda_tools.analysis.lowering import lower_with_sources, op_numbers
from amanda_tools.pictures import Bar, draw_bars

__all__ = ["Flops", "graph_costs"]

_KEYS: Final = {"macs": "MACs", "flops": "FLOPs"}
_CONTROL: Final = ("if", "loop", "scan")
_SHOWN: Final = 40


class Flops(Tool):
    """Multiply-accumulates and floating-point operations of each op.

    Sizes that are symbolic stay so: the counts are formulas. `sizes` sets some of them:
    `{"batch": 1}`. Operations of the forward pass are counted: those of matrix products
    and convolutions as multiply-accumulates (MACs), two FLOPs each; those of other ops
    as one FLOP per element that they compute, or read in a reduction. Both branches of
    an `if` count.
    """

    name = "flops"

    def __init__(self, *, sizes: Mapping[str, int] | None = None) -> None:
        self.sizes = dict(sizes or {})

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Record the costs of all ops, and the totals."""
        graph = instrumentation.graph
        if self.sizes:
            graph = _with_sizes(graph, self.sizes)
        costs, unknown = graph_costs(graph)
        total = NOTHING
        for site, op in zip(instrumentation.sites(), _ops_of(graph), strict=True):
            cost = costs.get(op)
            if op in unknown:
                instrumentation.not_observed(site, "FLOPs", unknown[op])
            if cost is None:
                continue
            total += cost
            _record(site, cost)
        weights = sum(op.attrs["value"].size for op in graph.walk() if op.is_constant)
        instrumentation.report.summary |= {
            "MACs": total.macs, "FLOPs": total.flops, "weights": weights,
        }  # fmt: skip

    def picture(self, report: Report) -> str | None:
        """The ops with the most FLOPs, where those are numbers."""
        rows = [
            (row.op, row.value)
            for row in report.select(_KEYS["flops"], tool=self.name)
            if isinstance(row.value, int)
        ]
        total = sum(count for _, count in rows) or 1
        largest = sorted(rows, key=lambda row: -row[1])[:_SHOWN]
        return draw_bars(
            [Bar(op, count, f"{count / total:.1%}") for op, count in largest]
        )


def _record(site: Site, cost: Cost) -> None:
    for key, count in cost._asdict().items():
        if isinstance(count, Sym) or count:
            site.record(_KEYS[key], count)


def _ops_of(graph: Graph) -> list[Op]:
    """The ops, bodies included, without constants: those that sites are of."""
    return [op for part in graph.graphs() for op in part if not op.is_constant]


def _with_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """A copy of a graph with some symbolic dims set: of inputs, by name."""
    copy = graph.clone()
    set_dims(copy, sizes)
    infer(copy)
    return copy


def graph_costs(graph: Graph) -> tuple[dict[Op, Cost], dict[Op, str]]:
    """The cost of each op of a graph, and why that of others is not known.

    Composites cost what their definitions do; ops of bodies what all iterations do."""
    copy, _ = lower_with_sources(graph)
    ops = op_numbers(graph)
    costs: dict[Op, Cost] = defaultdict(lambda: NOTHING)
    unknown: dict[Op, str] = {}
    for op, times in _executions(copy, 1):
        made = op.provenance
        if op.is_constant or made is None or not made.sources:
            continue
        source = ops[int(made.sources[0])]
        if isinstance(times, str):
            unknown[source] = times
        elif op.type not in _CONTROL:
            try:
                costs[source] += primitive_cost(op).times(times)
            except ValueError as error:
                unknown[source] = str(error)
    return dict(costs), unknown


def _executions(graph: Graph, times: Dim | str) -> Iterator[tuple[Op, Dim | str]]:
    """The ops of a graph with how many times each runs, or why that is not known."""
    for op in graph:
        yield op, times
        for body in op.bodies.values():
            yield from _executions(body, _body_executions(op, times))


def _body_executions(op: Op, times: Dim | str) -> Dim | str:
    """How many times the bodies of an op run. Both branches of `if` count."""
    if isinstance(times, str) or op.type == "if":
        return times
    count: Any = None
    if op.type == "scan":
        count = _scan_length(op)
    elif op.type == "loop" and op.inputs and op.inputs[0] is not None:
        count = getattr(op.inputs[0].type, "value", None)
        if count is None and op.inputs[0].op.is_constant:
            count = int(op.inputs[0].op.attrs["value"].numpy())
    if not isinstance(count, int | Sym):
        return "the number of iterations is not known"
    return times * count


def _scan_length(op: Op) -> Any:
    """The number of iterations of a scan: the size of what it iterates over."""
    carried = int(op.attrs["carried"])
    axes = op.attrs.get("axes")
    first = 1 + carried
    if len(op.inputs) > first and op.inputs[first] is not None:
        shape = op.inputs[first].type.shape  # type: ignore[union-attr]
        return shape.dims[axes[0] if axes else 0] if shape.has_rank else None
    length = op.inputs[0] if op.inputs else None
    return None if length is None else getattr(length.type, "value", None)
