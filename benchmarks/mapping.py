"""Cost of mapping by rules, beside that of copying the graph (`graph.clone()`).

    python benchmarks/mapping.py [OPS] [ROUNDS]

Rows only, there and back, on a chain and on a graph with bodies; then the same with 200
patterns installed that look at every op and take none; then ten times fewer ops, for
growth. The same on real graphs, as far as they are at hand: BERT as PyTorch exports it
to ONNX, and the frozen graphs of `tf_graphs` in AMANDA_TEST_DATA, whose patterns begin
as the graphs have it; and the rules that are installed for them, where types are
inferred also with nothing remembered of earlier conversions. Times are those of the
processor, the best of some rounds. Exits with 1 where a limit is missed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "core" / "src"))

from amanda.graph import Graph, OutputPort, bulk
from amanda.mapping import REQUIRED, PlainSide, RuleMapping, RuleSet, Signature
from amanda.types import parse_type

if TYPE_CHECKING:
    from _real_graphs import Real

OPS, ROUNDS, REAL_ROUNDS = 1_000_000, 2, 8
ROWS, INFERRED, PATTERNS, GROWTH = 5.0, 10.0, 2.0, 1.5
"""Limits: rows over a copy, and with types inferred; patterns over rows; time per op at
OPS over OPS / 10."""

A, B = "bench/a/1", "bench/b/1"
LEFT = {
    "Relu": Signature(("x",)),
    "Add": Signature(("a", "b")),
    "Softmax": Signature(("x",), {"axis": -1}),
    "Conv": Signature(
        ("x", "w"), {"pads": None, "strides": None, "group": 1, "mode": "NOTSET"}
    ),
    "If": Signature(("c",), {"then": REQUIRED, "else": REQUIRED}),
}
RIGHT = {
    "relu": Signature(("x",)),
    "add": Signature(("a", "b")),
    "softmax": Signature(("x",), {"axes": REQUIRED}),
    "conv": Signature(("x", "w"), {"padding": None, "strides": None, "groups": 1}),
    "if_": Signature(("c",), {"yes": REQUIRED, "no": REQUIRED}),
}
TEXT = """
    Relu(x)             <=>  relu(x)
    Add(a, b)           <=>  add(a, b)
    Softmax(x, axis=a)  <=>  softmax(x, axes=only(a))
    Conv(x, w, pads=p, strides=s, group=g, mode="NOTSET")
        <=>  conv(x, w, padding=pairs(p), strides=s, groups=g)
    If(c, then=t, else=e)  <=>  if_(c, yes=t, no=e)
"""


def mapping(patterns: int = 0) -> RuleMapping:
    rules = RuleSet("bench", A, B)
    rules.equations(TEXT)
    for i in range(patterns):
        rules.equations(pattern(i, names(patterns)))
    known = {**LEFT, **dict.fromkeys(names(patterns), Signature(("x", "y")))}
    known |= LEFT
    return RuleMapping(PlainSide(A, known.get), PlainSide(B, RIGHT.get), rules)


def names(patterns: int) -> list[str]:
    """Types that patterns are made of: four of a graph's, and others."""
    return [
        "Relu",
        "Add",
        "Softmax",
        "Conv",
        *(f"Odd{i}" for i in range(patterns // 25)),
    ]


def pattern(i: int, types: list[str]) -> str:
    """Of two to four ops, the root one that the graphs have, no two alike."""
    pick = [types[(i // step) % len(types)] for step in (1, 4, 13)]
    inner = f"{types[i * 7 % len(types)]}(x)"
    made = "add(x, y)"
    match i % 3:
        case 0:
            return f"Add({pick[1]}({inner}), {pick[2]}(y)) => {made}"
        case 1:
            return f"Relu({pick[1]}(Odd0({inner}))) => relu(x)"
        case _:
            return f"Softmax({pick[1]}({pick[2]}({inner})), axis=_) => relu(x)"


def chain(n: int) -> Graph:
    graph = Graph(A)
    float32 = parse_type("float32[2, 3]")
    first = graph.parameter(float32, name="x")
    value: OutputPort = first
    for i in range(n):
        match i % 4:
            case 0:
                op = graph.add("Relu", [value], name=f"n{i}")
            case 1:
                op = graph.add("Add", [value, first], name=f"n{i}")
            case 2:
                op = graph.add("Softmax", [value], {"axis": 1}, name=f"n{i}")
            case _:
                attrs = {"pads": [1, 1, 1, 1], "strides": [1, 1], "group": 2}
                op = graph.add("Conv", [value, first], attrs, name=f"n{i}")
        value = op.output
        value.type = float32
    graph.result(value, "y")
    return graph


def bodies(n: int) -> Graph:
    """A tenth of the ops hold two bodies of four each."""
    graph = Graph(A)
    value: OutputPort = graph.parameter(name="x")
    for i in range(n // 10):
        held = {}
        for key in ("then", "else"):
            held[key] = body = Graph(outer=graph)
            inner = value
            for _ in range(4):
                inner = body.add("Relu", [inner]).output
            body.result(inner)
        value = graph.add("If", [value], name=f"if{i}", bodies=held).output
        value = graph.add("Relu", [value], name=f"r{i}").output
    graph.result(value, "y")
    return graph


def seconds(work: Callable[[], object], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        with bulk():
            begin = time.process_time()
            made = work()
            best = min(best, time.process_time() - begin)
        del made
    return best


def measured(shape: Callable[[int], Graph], n: int, rounds: int) -> dict[str, float]:
    """Microseconds per op of each stage."""
    graph = shape(n)
    plain, loaded = mapping(), mapping(200)
    there = plain.conversion(graph, B).graph
    stages = {
        "copy": lambda: graph.clone(),
        "rows": lambda: plain.conversion(graph, B),
        "rows back": lambda: plain.conversion(there, A),
        "200 patterns": lambda: loaded.conversion(graph, B),
    }
    return {name: seconds(work, rounds) / n * 1e6 for name, work in stages.items()}


def nothing() -> None:
    """Before most stages."""


class Stage(NamedTuple):
    """Something to be measured, and how often another stage it may cost."""

    name: str
    work: Callable[[], object]
    limit: float
    over: str = "copy"
    before: Callable[[], object] = nothing


def stages_of(case: Real) -> list[Stage]:
    from _real_graphs import MIRROR, forget, mirrored, patterns

    graphs, texts = case.graphs, patterns(case)
    plain, loaded = mirrored(case), mirrored(case, texts)
    there = [plain.conversion(g, MIRROR).graph for g in graphs]
    back, near = case.dictionary.name, f"{len(texts)} patterns"
    found = [
        Stage("copy", partial(copied, graphs), 1.0),
        Stage("rows", partial(all_of, plain, graphs, MIRROR), ROWS),
        Stage("rows back", partial(all_of, plain, there, back), ROWS),
        Stage(near, partial(all_of, loaded, graphs, MIRROR), PATTERNS, over="rows"),
    ]
    if case.installed is not None:
        one, to = case.installed
        work = partial(all_of, one, graphs, to)
        found.append(Stage(to, work, INFERRED if case.infers else ROWS))
        if case.infers:
            found.append(Stage("the first time", work, INFERRED, before=forget))
    return found


def on_real_graphs(rounds: int) -> list[str]:
    """Prints what mapping real graphs costs; the limits that were missed."""
    from _real_graphs import real

    missed = []
    for case in real():
        stages = stages_of(case)
        costs = in_turn(stages, rounds)
        n = sum(len(graph) for graph in case.graphs)
        print(f"\n{case.name}: {n:,} ops")
        for name, _, limit, over, _ in stages:
            cost, ratio = costs[name], costs[name] / costs[over]
            print(f"{name:14} {cost / n * 1e6:10.2f} {cost / costs['copy']:10.2f}")
            if ratio > limit:
                missed.append(
                    f"{case.name}: {name} over {over} {ratio:.2f}, at most {limit}"
                )
    return missed


def in_turn(stages: Sequence[Stage], rounds: int) -> dict[str, float]:
    """The best of each, one round of all after the other: noise falls on all alike."""
    best = {stage.name: float("inf") for stage in stages}
    for _ in range(rounds):
        for stage in stages:
            stage.before()
            best[stage.name] = min(best[stage.name], seconds(stage.work, 1))
    return best


def copied(graphs: list[Graph]) -> None:
    for graph in graphs:
        graph.clone()


def all_of(one: RuleMapping, graphs: list[Graph], to: str) -> None:
    for graph in graphs:
        one.conversion(graph, to)


def main(n: int = OPS, rounds: int = ROUNDS) -> int:
    missed = on_real_graphs(REAL_ROUNDS)
    for shape in (chain, bodies):
        few, many = (measured(shape, size, rounds) for size in (n // 10, n))
        print(f"\n{shape.__name__}: {n:,} ops")
        print(f"{'':14} {'us per op':>10} {'over copy':>10} {'growth':>7}")
        for stage, cost in many.items():
            ratio, growth = cost / many["copy"], cost / few[stage]
            print(f"{stage:14} {cost:10.2f} {ratio:10.2f} {growth:7.2f}")
            if stage.startswith("rows") and ratio > ROWS:
                missed.append(f"{shape.__name__}: {stage} {ratio:.2f}, at most {ROWS}")
            if growth > GROWTH:
                missed.append(f"{shape.__name__}: {stage} grows {growth:.2f}-fold")
        ratio = many["200 patterns"] / many["rows"]
        if ratio > PATTERNS:
            missed.append(f"{shape.__name__}: patterns {ratio:.2f}, at most {PATTERNS}")
    print("\n" + ("\n".join(missed) or "all limits met"))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
