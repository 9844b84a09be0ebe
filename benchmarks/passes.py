"""Cost of inference and of each pass, beside that of copying the graph.

    python benchmarks/passes.py [OPS] [ROUNDS]

On a chain of layers with symbolic dims, constants, moves of elements and things that
passes find: each pass gets a fresh copy, then what it left, where it finds nothing any
more. Then ten times fewer ops, for growth. Last on real networks, where PyTorch can
export them. What a pass replaces is told beside the time that the ops took to be made.

Processor time, the best of some rounds. Exits with 1 where a limit is missed.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

import amanda
from amanda.graph import Graph, bulk
from amanda.types import parse_type
from amanda_std import ops, passes, trace

OPS, ROUNDS = 100_000, 3
COST, GROWTH, MADE = 5.0, 12.0, 5.0
"""Limits: a pass over a copy, replacements apart; time at OPS over that at OPS / 10;
each replacement over making an op anew."""

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


def networks() -> Iterator[tuple[str, Graph]]:
    """Real ones, of few layers: more of the same cost the same per op."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    try:
        exported = import_module("models.architectures").exported
    except ImportError:
        return
    for name in ("BERT-base", "GPT-2", "ResNet-50"):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made = exported(name, Path(folder), small=True, dynamic=True)
            except ImportError:
                return
            yield name, amanda.convert(amanda.load(made.path), "std")


class Cost(NamedTuple):
    """Seconds of a pass on a fresh graph, and again; and what it changed."""

    first: float
    again: float
    changes: int


def seconds(run: Callable[[], object]) -> float:
    with bulk():  # as `amanda.improve` runs passes
        start = time.process_time()
        run()
        return time.process_time() - start


def several(run: Callable[[], object], least: float = 0.02) -> float:
    """Seconds of one call, of so many that the clock can tell."""
    once = seconds(run)
    times = max(1, int(least / max(once, 1e-6)))
    return (
        once if times == 1 else seconds(lambda: [run() for _ in range(times)]) / times
    )


def copying(graph: Graph, rounds: int) -> float:
    return min(several(graph.clone) for _ in range(rounds))


def on_fresh(run: Pass, graph: Graph, least: float = 0.02) -> tuple[float, int]:
    """Seconds of one run on a copy that nobody changed, and what it changed there; on
    so many copies that the clock can tell."""
    changes: list[int] = []

    def spent(copies: list[Graph]) -> float:
        return seconds(lambda: changes.extend(map(run, copies)))

    once = spent([graph.clone()])
    times = max(1, int(least / max(once, 1e-6)))
    if times > 1:
        once = spent([graph.clone() for _ in range(times)]) / times
    return once, changes[0]


def costs(graph: Graph, rounds: int) -> dict[str, Cost]:
    """The costs of each pass, the best of some rounds."""
    found = {}
    for name in passes.__all__:
        run: Pass = getattr(passes, name)
        first = again = float("inf")
        changes = 0
        for _ in range(rounds):
            spent, changes = on_fresh(run, graph)
            first = min(first, spent)
            copy = graph.clone()
            run(copy)
            run(copy)  # what the first run made possible
            again = min(again, several(partial(run, copy)))
        found[name] = Cost(first, again, changes)
    return found


def on_the_chain(count: int, rounds: int) -> list[str]:
    """Prints the table of the chain; the limits that were missed."""
    small = model(count // 10)
    costs(small, 1)  # rules are compiled, types remembered
    built: list[Graph] = []
    making = seconds(lambda: built.append(model(count)))
    (large,) = built
    making /= len(large)
    copied, few = copying(large, rounds), costs(small, rounds)
    print(f"{len(large):,} ops; processor time, best of {rounds}")
    print(f"a copy takes {copied / len(large) * 1e6:.2f} us per op, ", end="")
    print(f"making one {making * 1e6:.2f} us")
    print(f"{'':16}{'over a copy':>12}{'again':>8}{'growth':>8}{'replaced':>10}"
          f"{'over making':>13}")  # fmt: skip
    missed = []
    for name, cost in costs(large, rounds).items():
        growth = cost.first / few[name].first
        again = cost.again / copied
        part = cost.first / cost.changes / making if cost.changes else 0.0
        told = f"{cost.changes:10,}{part:13.2f}" if cost.changes else ""
        print(f"{name:16}{cost.first / copied:12.2f}{again:8.2f}{growth:8.1f}{told}")
        missed += [f"{name}, finding nothing"] * (again > COST)
        missed += [f"{name}, growing"] * (growth > GROWTH)
        missed += [name] * (cost.first > COST * copied and part > MADE)
    return missed


def on_a_network(name: str, graph: Graph, rounds: int) -> list[str]:
    """Prints a line for a network; the limits that were missed."""
    costs(graph, 1)
    copied = copying(graph, rounds)
    found = costs(graph, rounds)
    told = [
        f"{each} {cost.first / copied:.2f}"
        + (f" ({cost.changes} replaced)" if cost.changes else "")
        for each, cost in found.items()
    ]
    print(f"\n{name}, {len(graph):,} ops, over a copy: {', '.join(told)}")
    one = copied / len(graph) * MADE * 5  # of making an op, which takes five copies
    return [
        f"{each} on {name}"
        for each, cost in found.items()
        if cost.first > COST * copied + one * cost.changes
    ]


def main(count: int, rounds: int) -> int:
    missed = on_the_chain(count, rounds)
    for name, graph in networks():
        missed += on_a_network(name, graph, rounds)
    print(f"\nlimits: {COST} over a copy, or {MADE} over making what is replaced; "
          f"{GROWTH} for ten times the ops")  # fmt: skip
    print(f"missed: {'; '.join(missed)}" if missed else "all limits met")
    return 1 if missed else 0


if __name__ == "__main__":
    told = [int(a) for a in sys.argv[1:]]
    sys.exit(main(*told, *(OPS, ROUNDS)[len(told) :]))
