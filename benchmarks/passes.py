"""Cost of inference and of each pass, beside that of copying the graph.

    python benchmarks/passes.py [OPS] [ROUNDS]

On a chain of layers with symbolic dims, constants, moves of elements and things that
passes find. Each pass gets a fresh copy. Then ten times fewer ops, for growth. Exits
with 1 where a limit is missed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from amanda.graph import Graph, bulk
from amanda.types import parse_type
from amanda_std import ops, passes, trace

OPS, ROUNDS = 100_000, 3
COST, GROWTH = 5.0, 12.0
"""Limits: a pass over a copy; time at OPS over that at OPS / 10."""

Pass = Callable[[Graph], int]


def layer(x: object, w: object) -> object:
    """Eleven ops, two of which undo each other and one of which does nothing."""
    y = ops.transpose(ops.matmul(x, w), perm=(0, 2, 1))
    y = ops.relu(ops.transpose(y, perm=(0, 2, 1)) * 1.0)
    left, right = ops.tanh(y), ops.tanh(y)
    return ops.softmax(left + right, axes=(2,)) + x


def model(count: int) -> Graph:
    w = np.eye(8, dtype="float32")

    def function(x: object) -> object:
        for _ in range(count // 13):
            x = layer(x, w)
        return x

    with bulk():
        return trace(function, [parse_type("float32[batch, length, 8]")])


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def costs(graph: Graph, rounds: int) -> dict[str, float]:
    """Processor seconds of a copy and of each pass, the best of some rounds."""
    found = {"a copy": min(seconds(graph.clone) for _ in range(rounds))}
    for name in passes.__all__:
        run: Pass = getattr(passes, name)
        best = float("inf")
        for _ in range(rounds):
            best = min(best, seconds(partial(run, graph.clone())))
        found[name] = best
    return found


def main(count: int, rounds: int) -> int:
    large, small = model(count), model(count // 10)
    costs(small, 1)  # rules are compiled, types remembered
    few, many = costs(small, rounds), costs(large, rounds)
    print(f"{len(large):,} ops; processor time, best of {rounds}")
    print(f"{'':16}{'us per op':>10}{'over a copy':>13}{'growth':>9}")
    missed = []
    for name, time_ in many.items():
        over, growth = time_ / many["a copy"], time_ / few[name]
        print(f"{name:16}{time_ / len(large) * 1e6:10.2f}{over:13.2f}{growth:9.1f}")
        if name != "a copy" and (over > COST or growth > GROWTH):
            missed.append(name)
    print(f"limits: {COST} over a copy, {GROWTH} for ten times the ops")
    print(f"missed by {', '.join(missed)}" if missed else "all limits met")
    return 1 if missed else 0


if __name__ == "__main__":
    told = [int(a) for a in sys.argv[1:]]
    sys.exit(main(*told, *(OPS, ROUNDS)[len(told) :]))
