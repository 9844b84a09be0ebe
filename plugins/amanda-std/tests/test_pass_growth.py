"""The work of each pass grows linearly with the number of ops, counted in calls."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from amanda.graph import Graph
from amanda_std import passes

SPEC = spec_from_file_location(
    "passes_benchmark", Path(__file__).parents[3] / "benchmarks" / "passes.py"
)
assert SPEC is not None
assert SPEC.loader is not None
BENCHMARK = module_from_spec(SPEC)
SPEC.loader.exec_module(BENCHMARK)
SMALL, LARGE = (BENCHMARK.build_chain(count) for count in (260, 1300))
TIMES = len(LARGE) / len(SMALL)
TOLERANCE = 0.05
"""Quadratic work is 25 times the calls, not 5."""


def growth(run: Callable[[Graph], int]) -> float:
    """How many times the calls are for the larger graph."""
    BENCHMARK.count_calls(run, SMALL)  # imports, compiles rules and fills caches
    few, many = (BENCHMARK.count_calls(run, graph) for graph in (SMALL, LARGE))
    return float(many / few)


def test_calls_of_passes_grow_linearly() -> None:
    found = {name: growth(getattr(passes, name)) for name in passes.__all__}
    assert {n: g for n, g in found.items() if g > TIMES * (1 + TOLERANCE)} == {}


def test_quadratic_work_is_found() -> None:
    def compare_all(graph: Graph) -> int:
        return sum(isinstance(a, type(b)) for a in graph for b in graph)

    assert growth(compare_all) > 2 * TIMES
