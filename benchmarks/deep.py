"""Many equal layers on the backend `jax`: one shared program compared with unrolling.

    python benchmarks/deep.py [LAYERS]

48 layers of the size of BERT-base, 128 tokens. `shared` is the default of
`amanda.compile`; `unrolled` is one jitted function with all layers
(`without="blocks"`). Compile time is the CPU time of the first call minus that of a
later one; calls are timed alternately by wall clock. Exits with 1 if compiling takes
more than 0.35 times, or a call more than 1.05 times as long as unrolled. Needs about 6
GB of memory.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "core/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins/amanda-std/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins/amanda-jax/src"))

import numpy as np

import amanda
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_std import ops, trace

LAYERS, WIDTH, HEADS, TOKENS, ROUNDS = 48, 768, 12, 128, 5
COMPILING, CALLING = 0.35, 1.05


def build_graph(layers: int) -> Graph:
    """Build transformer layers, each with its own weights."""
    random = np.random.default_rng(0)

    def weight(*shape: int) -> Any:
        return random.standard_normal(shape, dtype="float32") / shape[0] ** 0.5

    def dense(x: Any, size: int, out: int) -> Any:
        return ops.matmul(x, weight(size, out)) + weight(out)

    def heads(x: Any) -> Any:
        parts = ops.reshape(dense(x, WIDTH, WIDTH), [1, TOKENS, HEADS, WIDTH // HEADS])
        return ops.transpose(parts, perm=(0, 2, 1, 3))

    def layer(x: Any) -> Any:
        q, k, v = (heads(x) for _ in range(3))
        scores = ops.matmul(q, ops.transpose(k, perm=(0, 1, 3, 2))) * 0.125
        context = ops.transpose(ops.matmul(ops.softmax(scores), v), perm=(0, 2, 1, 3))
        y = dense(ops.reshape(context, [1, TOKENS, WIDTH]), WIDTH, WIDTH)
        x = ops.layer_norm(x + y, weight(WIDTH), weight(WIDTH))
        y = dense(ops.gelu(dense(x, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH)
        return ops.layer_norm(x + y, weight(WIDTH), weight(WIDTH))

    def network(x: Any) -> Any:
        for _ in range(layers):
            x = layer(x)
        return x

    return trace(network, [parse_type(f"float32[1, {TOKENS}, {WIDTH}]")], names=["x"])


def best_times(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the best time of each, measured alternately after one warm-up call."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            times[name].append(measure_time(call, time.perf_counter))
    return {name: min(rounds) for name, rounds in times.items()}


def measure_time(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def main(layers: int = LAYERS) -> int:
    graph = build_graph(layers)
    x = np.random.default_rng(1).standard_normal((1, TOKENS, WIDTH), dtype="float32")
    calls: dict[str, Callable[[], Any]] = {}
    compiling, programs = {}, {}
    for name, without in (("unrolled", "blocks"), ("shared", "")):
        compiled: Any = amanda.compile(graph, "jax", without=without)
        call = calls[name] = partial(compiled, [x])
        first, *later = (measure_time(call, time.process_time) for _ in range(4))
        compiling[name] = first - min(later)
        programs[name] = compiled.executable.report().programs
    calling = best_times(calls)
    unrolled, shared = (
        np.asarray(next(iter(call().values()))) for call in calls.values()
    )
    np.testing.assert_allclose(unrolled, shared, rtol=1e-3, atol=1e-3)
    for name in calls:
        print(f"{name:9} {programs[name]:2} programs, compiled in ", end="")
        print(f"{compiling[name]:5.1f} s, a call {calling[name] * 1e3:7.1f} ms")
    ratios = [times["shared"] / times["unrolled"] for times in (compiling, calling)]
    print(f"compiling {ratios[0]:.2f}x, limit {COMPILING}; ", end="")
    print(f"calling {ratios[1]:.2f}x, limit {CALLING}")
    return int(ratios[0] > COMPILING or ratios[1] > CALLING)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
