"""Many equal layers on the backend `jax`: compiled once for all, beside all at once.

    python benchmarks/deep.py [LAYERS]

48 layers of BERT's size, 128 tokens. `shared` is what `amanda.compile` does by default,
`unrolled` is one jitted function with all layers in it (`without="blocks"`). Compiling
is what the first call takes more than a later one, by the processor; calls take turns,
by the clock. Exits with 1 where compiling takes more than 0.35 times that of all at
once, or calls more than 1.05 times. Needs some 6 GB.
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


def graph_of(layers: int) -> Graph:
    """Attention and a feed-forward part in each, with weights of their own."""
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
        mixed = ops.transpose(ops.matmul(ops.softmax(scores), v), perm=(0, 2, 1, 3))
        y = dense(ops.reshape(mixed, [1, TOKENS, WIDTH]), WIDTH, WIDTH)
        x = ops.layer_norm(x + y, weight(WIDTH), weight(WIDTH))
        y = dense(ops.gelu(dense(x, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH)
        return ops.layer_norm(x + y, weight(WIDTH), weight(WIDTH))

    def network(x: Any) -> Any:
        for _ in range(layers):
            x = layer(x)
        return x

    return trace(network, [parse_type(f"float32[1, {TOKENS}, {WIDTH}]")], names=["x"])


def least(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The shortest time of each, which take turns; the second of two calls counts."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            times[name].append(seconds(call, time.perf_counter))
    return {name: min(found) for name, found in times.items()}


def seconds(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    began = clock()
    call()
    return clock() - began


def main(layers: int = LAYERS) -> int:
    graph = graph_of(layers)
    x = np.random.default_rng(1).standard_normal((1, TOKENS, WIDTH), dtype="float32")
    calls: dict[str, Callable[[], Any]] = {}
    compiling, programs = {}, {}
    for name, without in (("unrolled", "blocks"), ("shared", "")):
        compiled: Any = amanda.compile(graph, "jax", without=without)
        call = calls[name] = partial(compiled, [x])
        first, *later = (seconds(call, time.process_time) for _ in range(4))
        compiling[name] = first - min(later)
        programs[name] = compiled.executable.report().programs
    calling = least(calls)
    one, other = (np.asarray(next(iter(call().values()))) for call in calls.values())
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
    for name in calls:
        print(f"{name:9} {programs[name]:2} programs, compiled in ", end="")
        print(f"{compiling[name]:5.1f} s, a call {calling[name] * 1e3:7.1f} ms")
    ratios = [part["shared"] / part["unrolled"] for part in (compiling, calling)]
    print(f"compiling {ratios[0]:.2f}x, at most {COMPILING}; ", end="")
    print(f"calling {ratios[1]:.2f}x, at most {CALLING}")
    return int(ratios[0] > COMPILING or ratios[1] > CALLING)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
