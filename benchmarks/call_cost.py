"""What a call costs around the executable: binding and checking feeds, parting results.

    python benchmarks/call_cost.py [INPUTS]

An executable that does nothing is called with and without the core around it, with
feeds in a dict and in a list. The measure is a loop that compares element type and
shape of each feed, and does nothing else: what looking at feeds costs at least. Exits
with 1 if the core takes more than `LIMIT` times as long.
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


class Nothing:
    """An executable whose only cost is the array that it returns."""

    def __call__(
        self, feeds: Mapping[Any, Any], out: Mapping[Any, Any] | None = None
    ) -> list[Any]:
        del feeds, out
        return [np.empty(4, "float32")]


def looked_at(arrays: list[Any], dtype: Any) -> None:
    for array in arrays:
        if array.dtype != dtype or array.shape != (4,):
            raise TypeError(array)


def microseconds(call: Callable[[], object]) -> float:
    """The least of some rounds: what else the machine does only adds to it."""
    least = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        least = min(least, time.perf_counter() - begin)
    return least / CALLS * 1e6


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else INPUTS
    graph = Graph("amanda/std/1")
    for i in range(count):
        graph.parameter(parse_type("float32[4]"), f"x{i}")
    graph.result(graph.parameters[0], "y")
    host = amanda.default_host()
    made = Nothing()
    compiled = Compiled(graph, made, backend="none", device=None, host=host)
    arrays = [np.full(4, i, "float32") for i in range(count)]
    feeds: dict[Any, Any] = {f"x{i}": array for i, array in enumerate(arrays)}
    bare = microseconds(partial(made, feeds))
    least = microseconds(partial(looked_at, arrays, np.dtype("float32")))
    costs = {
        "feeds by name": microseconds(partial(compiled, feeds)) - bare,
        "feeds in order": microseconds(partial(compiled, arrays)) - bare,
    }
    for name, cost in costs.items():
        print(f"{name:16} {cost:6.2f} us for {count} inputs, {cost / least:.2f}x")
    worst = max(costs.values()) / least
    print(f"{'a loop':16} {least:6.2f} us")
    print(f"at most {worst:.2f}x, the limit is {LIMIT:g}x")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
