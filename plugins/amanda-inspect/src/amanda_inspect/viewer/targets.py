"""Overlays of a target: which ops it cannot take, and which backend runs each op."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import amanda
from amanda.backend import SplitExecutable
from amanda.graph import Graph, Op
from amanda.mapping import Plan, op_location
from amanda_inspect.viewer.overlays import Overlay, ops_by_key

__all__ = ["gap_overlay", "placement_overlay"]


def gap_overlay(graph: Graph, target: str) -> Overlay:
    """The ops that cannot go to a backend or namespace, with the reasons."""
    plan = amanda.plan(graph, target)
    found = Overlay(f"gaps for {target}", {}, is_number=False)
    places = {place: op for op, place in _locations(graph)}
    for gap in plan.gaps:
        op: Op | str = places.get(gap.where, gap.where)
        found.ops[op] = "gap"
        found.notes[op] = "; ".join(gap.why) or "no rule maps it"
    for name, why in _refused_sources(plan):
        if found.ops.setdefault(name, "refused") == "refused":
            found.notes[name] = why
    return found


def _locations(graph: Graph) -> Iterator[tuple[Op, str]]:
    """The ops at any depth with their locations, as gaps name them."""
    counts: dict[Graph | None, int] = defaultdict(int)
    for op in graph.walk():
        yield op, op_location(op, counts[op.graph])
        counts[op.graph] += 1


def _refused_sources(plan: Plan) -> Iterator[tuple[str, str]]:
    """The ops of the model that refused ops come from, with the reasons."""
    if not plan.refusals:
        return
    converted = ops_by_key(plan.result_with_gaps)
    for refusal in plan.refusals:
        label = refusal.label
        key = label.partition("'")[2].rstrip("'") or label
        for op in converted.get(key, []):
            for name in _source_names(op) or (key,):
                yield name, str(refusal)


def _source_names(op: Op) -> tuple[str, ...]:
    """The names of the ops of the model that an op of a converted graph comes from."""
    if op.provenance is not None:
        return op.provenance.sources
    return () if op.name is None else (op.name,)


def placement_overlay(
    graph: Graph, backend: str, fallback: Sequence[str] = ()
) -> Overlay:
    """The backend that runs each op, where the graph is compiled for several."""
    compiled = amanda.compile(
        graph, backend, fallback=fallback or None, keep_executable=False
    )
    found = Overlay("placement", {}, is_number=False)
    if not isinstance(compiled.executable, SplitExecutable):
        ops = (op for op in graph.walk() if not op.is_constant)
        found.ops.update(dict.fromkeys(ops, compiled.backend))
        return found
    backends: dict[str, dict[str, None]] = defaultdict(dict)
    for piece in compiled.executable.report().pieces:
        for name in piece.sources:
            backends[name][piece.backend] = None
            found.notes.setdefault(name, "\n".join(_reasons(name, piece.why)))
    found.ops.update({name: " and ".join(each) for name, each in backends.items()})
    return found


def _reasons(name: str, whys: Sequence[str]) -> list[str]:
    """The reasons that speak of an op, at most a few."""
    return [why for why in whys if repr(name) in why][:3]
