"""Cost of inference and of each pass, compared with copying the graph.

    python benchmarks/passes.py [OPS] [ROUNDS]

The main graph is a chain of layers with symbolic dims, constants, transposes and
redundant ops: each pass runs on a fresh copy, then on its own result, where it has
nothing left to do; then on a tenth of the ops, for growth: of the time, relative to
that of copying, and of the number of function calls, which no cache of the processor
changes. Then follow real networks, if PyTorch can export them. The cost of replaced ops
is compared with that of building them.

Times are CPU times, the best of some rounds. Exits with 1 if a limit is missed.
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
from amanda.passes import Pipeline
from amanda.types import parse_type
from amanda_std import ops, passes, trace

OPS, ROUNDS = 100_000, 3
COST, CALLS, GROWTH, REPLACEMENT = 5.0, 10.5, 1.5, 5.0
"""Limits: a pass without replacements over a copy, for each pass of a pipeline; calls
of functions at OPS over those at OPS / 10; growth of the time over that of copying,
which takes longer per op for a graph that fits no cache of the processor; one
replacement over building an op."""

Pass = Callable[[Graph], int]


def layer(x: object, w: object) -> object:
    """Eleven ops: two cancel each other, and one is an identity."""
    y = ops.transpose(ops.matmul(x, w), perm=(0, 2, 1))
    y = ops.relu(ops.transpose(y, perm=(0, 2, 1)) * 1.0)
    left, right = ops.tanh(y), ops.tanh(y)
    return ops.softmax(left + right, axes=(2,)) + x


def build_chain(count: int) -> Graph:
    w = np.eye(8, dtype="float32")

    def function(x: object) -> object:
        for _ in range(count // 13):
            x = layer(x, w)
        return x

    with bulk():
        return trace(function, [parse_type("float32[batch, length, 8]")])


def export_networks() -> Iterator[tuple[str, Graph]]:
    """Yield real networks of few layers: more layers cost the same per op."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    try:
        export = import_module("models.architectures").export
    except ImportError:
        return
    for name in ("BERT-base", "GPT-2", "ResNet-50"):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exported = export(name, Path(folder), small=True, dynamic=True)
            except ImportError:
                return
            yield name, amanda.convert(amanda.load(exported.path), "std")


class Cost(NamedTuple):
    """Seconds of a pass on a fresh graph and on its result; and number of changes."""

    first: float
    again: float
    changes: int


def pass_count(name: str) -> int:
    """The number of passes that a pipeline consists of; 1 for a pass."""
    found = getattr(passes, name)
    return len(found.passes) if isinstance(found, Pipeline) else 1


def seconds(run: Callable[[], object]) -> float:
    with bulk():  # as `amanda.improve` runs passes
        start = time.process_time()
        run()
        return time.process_time() - start


def seconds_per_call(run: Callable[[], object], least: float = 0.02) -> float:
    """Return the seconds per call, over enough calls for the clock's resolution."""
    once = seconds(run)
    times = max(1, int(least / max(once, 1e-6)))
    return (
        once if times == 1 else seconds(lambda: [run() for _ in range(times)]) / times
    )


def copy_seconds(graph: Graph, rounds: int) -> float:
    return min(seconds_per_call(graph.clone) for _ in range(rounds))


def run_on_copies(run: Pass, graph: Graph, least: float = 0.02) -> tuple[float, int]:
    """Return the seconds of a run on a fresh copy, and the number of changes there.

    Uses enough copies for the clock's resolution.
    """
    changes: list[int] = []

    def measure(copies: list[Graph]) -> float:
        return seconds(lambda: changes.extend(map(run, copies)))

    once = measure([graph.clone()])
    times = max(1, int(least / max(once, 1e-6)))
    if times > 1:
        once = measure([graph.clone() for _ in range(times)]) / times
    return once, changes[0]


def count_calls(run: Pass, graph: Graph) -> int:
    """The number of calls of functions, builtin ones too, of a pass on a fresh copy."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    copy = graph.clone()
    with bulk():
        sys.setprofile(count)
        try:
            run(copy)
        finally:
            sys.setprofile(None)
    return calls


def measure_passes(graph: Graph, rounds: int) -> dict[str, Cost]:
    """Return the cost of each pass, the best of some rounds."""
    costs = {}
    for name in passes.__all__:
        run: Pass = getattr(passes, name)
        first = again = float("inf")
        changes = 0
        for _ in range(rounds):
            elapsed, changes = run_on_copies(run, graph)
            first = min(first, elapsed)
            copy = graph.clone()
            run(copy)
            run(copy)  # a fixed point: applies what the first run enabled
            again = min(again, seconds_per_call(partial(run, copy)))
        costs[name] = Cost(first, again, changes)
    return costs


def measure_chain(count: int, rounds: int) -> list[str]:
    """Print the table of the chain; return the missed limits."""
    small = build_chain(count // 10)
    measure_passes(small, 1)  # warm-up: compiles rules, fills type caches
    built: list[Graph] = []
    building = seconds(lambda: built.append(build_chain(count)))
    (large,) = built
    building /= len(large)
    copy_time, small_costs = copy_seconds(large, rounds), measure_passes(small, rounds)
    copy_growth = copy_time / copy_seconds(small, rounds)
    print(f"{len(large):,} ops; CPU time, best of {rounds}")
    print(f"copying takes {copy_time / len(large) * 1e6:.2f} us per op, ", end="")
    print(f"{copy_growth:.1f} times that of a tenth; building {building * 1e6:.2f} us")
    print(f"{'':22}{'over a copy':>12}{'again':>8}{'growth':>8}{'of calls':>9}"
          f"{'replaced':>10}{'over building':>15}")  # fmt: skip
    missed = []
    for name, cost in measure_passes(large, rounds).items():
        growth = cost.first / small_costs[name].first / copy_growth
        run: Pass = getattr(passes, name)
        calls = count_calls(run, large) / count_calls(run, small)
        again = cost.again / copy_time
        part = cost.first / cost.changes / building if cost.changes else 0.0
        replaced = f"{cost.changes:10,}{part:15.2f}" if cost.changes else ""
        print(
            f"{name:22}{cost.first / copy_time:12.2f}{again:8.2f}{growth:8.2f}"
            f"{calls:9.2f}{replaced}"
        )
        limit = COST * pass_count(name)
        missed += [f"{name}, no changes"] * (again > limit)
        missed += [f"{name}, growth"] * (growth > GROWTH)
        missed += [f"{name}, growth of calls"] * (calls > CALLS)
        missed += [name] * (cost.first > limit * copy_time and part > REPLACEMENT)
    return missed


def measure_network(name: str, graph: Graph, rounds: int) -> list[str]:
    """Print the line of a network; return the missed limits."""
    measure_passes(graph, 1)
    copy_time = copy_seconds(graph, rounds)
    costs = measure_passes(graph, rounds)
    cells = [
        f"{each} {cost.first / copy_time:.2f}"
        + (f" ({cost.changes} replaced)" if cost.changes else "")
        for each, cost in costs.items()
    ]
    print(f"\n{name}, {len(graph):,} ops, over a copy: {', '.join(cells)}")
    # building an op takes about five times as long as copying it
    one = copy_time / len(graph) * REPLACEMENT * 5
    return [
        f"{each} on {name}"
        for each, cost in costs.items()
        if cost.first > COST * pass_count(each) * copy_time + one * cost.changes
    ]


def main(count: int, rounds: int) -> int:
    missed = measure_chain(count, rounds)
    for name, graph in export_networks():
        missed += measure_network(name, graph, rounds)
    print(f"\nlimits: {COST} over a copy, {REPLACEMENT} over building replaced ops; "
          f"for ten times the ops {CALLS} times the calls, and {GROWTH} times the "
          "growth of copying")  # fmt: skip
    print(f"missed: {'; '.join(missed)}" if missed else "all limits met")
    return 1 if missed else 0


if __name__ == "__main__":
    arguments = [int(a) for a in sys.argv[1:]]
    sys.exit(main(*arguments, *(OPS, ROUNDS)[len(arguments) :]))
