"""Cost of mapping by rules, compared with copying the graph (`graph.clone()`).

    python benchmarks/mapping.py [OPS] [ROUNDS]

Generated graphs, a chain and one with bodies, are mapped forward and back with rules of
one op; then forward with 200 additional patterns that are tried at every op and never
match; then with a tenth of the ops, for growth. The same is measured on real graphs
where they are available: BERT exported to ONNX by PyTorch, and the frozen graphs of
`tf_graphs` in AMANDA_TEST_DATA, with patterns that nearly match their ops; and with the
installed mappings, where type inference is measured with cold caches as well. Times are
CPU times, the best of some rounds. Exits with 1 if a limit is missed.
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
    from _real_graphs import GraphSet

OPS, ROUNDS, REAL_ROUNDS = 1_000_000, 2, 8
ROWS, INFERRED, PATTERNS, GROWTH = 5.0, 10.0, 2.0, 1.5
"""Limits: one-op rules over a copy, and with type inference;
patterns over one-op rules; time per op at OPS over that at OPS / 10."""

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
        rules.equations(pattern_text(i, pattern_types(patterns)))
    signatures = {
        **LEFT,
        **dict.fromkeys(pattern_types(patterns), Signature(("x", "y"))),
    }
    signatures |= LEFT
    return RuleMapping(PlainSide(A, signatures.get), PlainSide(B, RIGHT.get), rules)


def pattern_types(patterns: int) -> list[str]:
    """Return the op types used in patterns: four of the graphs', and others."""
    return [
        "Relu",
        "Add",
        "Softmax",
        "Conv",
        *(f"Odd{i}" for i in range(patterns // 25)),
    ]


def pattern_text(i: int, types: list[str]) -> str:
    """Return a distinct pattern of two to four ops whose root occurs in the graphs."""
    pick = [types[(i // step) % len(types)] for step in (1, 4, 13)]
    inner = f"{types[i * 7 % len(types)]}(x)"
    match i % 3:
        case 0:
            return f"Add({pick[1]}({inner}), {pick[2]}(y)) => add(x, y)"
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
    """Build a graph where every tenth op has two bodies of four ops each."""
    graph = Graph(A)
    value: OutputPort = graph.parameter(name="x")
    for i in range(n // 10):
        branches = {}
        for key in ("then", "else"):
            branches[key] = body = Graph(outer=graph)
            inner = value
            for _ in range(4):
                inner = body.add("Relu", [inner]).output
            body.result(inner)
        value = graph.add("If", [value], name=f"if{i}", bodies=branches).output
        value = graph.add("Relu", [value], name=f"r{i}").output
    graph.result(value, "y")
    return graph


def seconds(work: Callable[[], object], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        with bulk():
            begin = time.process_time()
            result = work()
            best = min(best, time.process_time() - begin)
        del result
    return best


def stage_times(shape: Callable[[int], Graph], n: int, rounds: int) -> dict[str, float]:
    """Return the microseconds per op of each stage."""
    graph = shape(n)
    plain, loaded = mapping(), mapping(200)
    mapped = plain.conversion(graph, B).graph
    stages = {
        "copy": lambda: graph.clone(),
        "one-op rules": lambda: plain.conversion(graph, B),
        "one-op reverse": lambda: plain.conversion(mapped, A),
        "200 patterns": lambda: loaded.conversion(graph, B),
    }
    return {name: seconds(work, rounds) / n * 1e6 for name, work in stages.items()}


def no_setup() -> None:
    """Do nothing: the setup of most stages."""


class Stage(NamedTuple):
    """A measured function, with its limit relative to another stage."""

    name: str
    work: Callable[[], object]
    limit: float
    over: str = "copy"
    setup: Callable[[], object] = no_setup


def real_stages(case: GraphSet) -> list[Stage]:
    from _real_graphs import MIRROR, clear_caches, mirror_mapping, near_miss_patterns

    graphs, texts = case.graphs, near_miss_patterns(case)
    plain, loaded = mirror_mapping(case), mirror_mapping(case, texts)
    mapped = [plain.conversion(g, MIRROR).graph for g in graphs]
    back, label = case.dictionary.name, f"{len(texts)} patterns"
    stages = [
        Stage("copy", partial(clone_all, graphs), 1.0),
        Stage("one-op rules", partial(convert_all, plain, graphs, MIRROR), ROWS),
        Stage("one-op reverse", partial(convert_all, plain, mapped, back), ROWS),
        Stage(
            label,
            partial(convert_all, loaded, graphs, MIRROR),
            PATTERNS,
            over="one-op rules",
        ),
    ]
    if case.installed is not None:
        installed, target = case.installed
        work = partial(convert_all, installed, graphs, target)
        stages.append(Stage(target, work, INFERRED if case.infers else ROWS))
        if case.infers:
            stages.append(Stage("cold caches", work, INFERRED, setup=clear_caches))
    return stages


def measure_real_graphs(rounds: int) -> list[str]:
    """Print the table of real graphs; return the missed limits."""
    from _real_graphs import graph_sets

    missed = []
    for case in graph_sets():
        stages = real_stages(case)
        costs = best_times(stages, rounds)
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


def best_times(stages: Sequence[Stage], rounds: int) -> dict[str, float]:
    """Return the best time of each stage, measured alternately."""
    best = {stage.name: float("inf") for stage in stages}
    for _ in range(rounds):
        for stage in stages:
            stage.setup()
            best[stage.name] = min(best[stage.name], seconds(stage.work, 1))
    return best


def clone_all(graphs: list[Graph]) -> None:
    for graph in graphs:
        graph.clone()


def convert_all(mapping: RuleMapping, graphs: list[Graph], target: str) -> None:
    for graph in graphs:
        mapping.conversion(graph, target)


def main(n: int = OPS, rounds: int = ROUNDS) -> int:
    missed = measure_real_graphs(REAL_ROUNDS)
    for shape in (chain, bodies):
        few, many = (stage_times(shape, size, rounds) for size in (n // 10, n))
        print(f"\n{shape.__name__}: {n:,} ops")
        print(f"{'':14} {'us per op':>10} {'over copy':>10} {'growth':>7}")
        for stage, cost in many.items():
            ratio, growth = cost / many["copy"], cost / few[stage]
            print(f"{stage:14} {cost:10.2f} {ratio:10.2f} {growth:7.2f}")
            if stage.startswith("one-op") and ratio > ROWS:
                missed.append(f"{shape.__name__}: {stage} {ratio:.2f}, at most {ROWS}")
            if growth > GROWTH:
                missed.append(f"{shape.__name__}: {stage} grows {growth:.2f} times")
        ratio = many["200 patterns"] / many["one-op rules"]
        if ratio > PATTERNS:
            missed.append(f"{shape.__name__}: patterns {ratio:.2f}, at most {PATTERNS}")
    print("\n" + ("\n".join(missed) or "all limits met"))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
