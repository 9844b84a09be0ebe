"""Overhead of a call around the executable: binding and checking feeds, naming results.

    python benchmarks/call_cost.py [INPUTS]

An executable that does nothing is called with and without the core around it, with
feeds in a dict and in a list. The baseline is a loop that compares the dtype and shape
of each feed and does nothing else. Exits with 1 if the core takes more than `LIMIT`
times as long as the baseline.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import amanda
from amanda.backend import Compiled
from amanda.graph import Graph
from amanda.types import parse_type

INPUTS = 10
LIMIT = 8.0
ROUNDS = 15
CALLS = 10_000


class NullExecutable:
    """An executable whose only cost is the array that it returns."""

    def __call__(
        self, feeds: Mapping[Any, Any], out: Mapping[Any, Any] | None = None
    ) -> list[Any]:
        del feeds, out
        return [np.empty(4, "float32")]


def check_feeds(arrays: list[Any], dtype: Any) -> None:
    for array in arrays:
        if array.dtype != dtype or array.shape != (4,):
            raise TypeError(array)


def best_microseconds(call: Callable[[], object]) -> float:
    """Return the best time per call over all rounds."""
    fastest = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        fastest = min(fastest, time.perf_counter() - begin)
    return fastest / CALLS * 1e6


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else INPUTS
    graph = Graph("amanda/std/1")
    for i in range(count):
        graph.parameter(parse_type("float32[4]"), f"x{i}")
    graph.result(graph.parameters[0], "y")
    host = amanda.default_host()
    executable = NullExecutable()
    compiled = Compiled(graph, executable, backend="none", device=None, host=host)
    arrays = [np.full(4, i, "float32") for i in range(count)]
    feeds: dict[Any, Any] = {f"x{i}": array for i, array in enumerate(arrays)}
    direct = best_microseconds(partial(executable, feeds))
    baseline = best_microseconds(partial(check_feeds, arrays, np.dtype("float32")))
    costs = {
        "feeds by name": best_microseconds(partial(compiled, feeds)) - direct,
        "feeds in order": best_microseconds(partial(compiled, arrays)) - direct,
    }
    for name, cost in costs.items():
        print(f"{name:16} {cost:6.2f} us for {count} inputs, {cost / baseline:.2f}x")
    worst = max(costs.values()) / baseline
    print(f"{'baseline loop':16} {baseline:6.2f} us")
    print(f"worst: {worst:.2f}x, limit {LIMIT:g}x")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
