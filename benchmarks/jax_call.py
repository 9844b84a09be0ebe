"""Overhead of calling a graph compiled on `jax`, compared with a jitted call of JAX.

    python benchmarks/jax_call.py [ROUNDS]

A tiny graph with 10 inputs, as `amanda.compile` returns it, is compared with the same
function jitted by hand: with JAX arrays in and out, without waiting for results; then
with numpy arrays in and out; each with float32 and with int64, for which the function
by hand needs JAX's 64-bit types, too. Feeds are a dict, or a list in order. Exits with
1 if a call misses the limit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "core/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins/amanda-std/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins/amanda-jax/src"))

import jax
import numpy as np

import amanda
from amanda.types import parse_type
from amanda_std import ops, trace

ROUNDS, CALLS, INPUTS = 301, 100, 10
LIMIT = 1.30
"""Time of a call of what `amanda.compile` returns over that of the jitted call."""


def seconds_per_call(call: Callable[[], Any]) -> float:
    """Return the mean seconds per call."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS


def best_times(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the best time of each call, measured alternately."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            best[name] = min(best[name], seconds_per_call(call))
    return best


def print_table(title: str, times: dict[str, float]) -> float:
    """Print the times; return the largest ratio to the first one."""
    first = next(iter(times.values()))
    print(title)
    for name, seconds in times.items():
        print(f"  {name:20} {seconds * 1e6:8.2f} us  {seconds / first:6.2f}x")
    return max(times.values()) / first


def calls_of(kind: str, dtype: str) -> dict[str, Callable[[], Any]]:
    """The calls to compare, with arrays of JAX or of numpy, in and out."""
    graph = trace(
        lambda *xs: reduce(ops.add, xs),
        [parse_type(f"{dtype}[4]")] * INPUTS,
        names=[f"x{i}" for i in range(INPUTS)],
    )
    jitted = jax.jit(lambda *xs: reduce(lambda a, b: a + b, xs))
    compiled = amanda.compile(graph, "jax", results=kind)
    args: list[Any] = [np.full(4, i, dtype) for i in range(INPUTS)]
    if kind == "jax":
        with jax.enable_x64(True):
            args = [jax.device_put(array) for array in args]
    by_name = {f"x{i}": array for i, array in enumerate(args)}

    def call_jitted() -> Any:
        result = jitted(*args)
        return result if kind == "jax" else np.asarray(result)

    def call_jitted_with_64_bits() -> Any:
        with jax.enable_x64(True):
            return call_jitted()

    by_hand = call_jitted if dtype == "float32" else call_jitted_with_64_bits
    return {
        "jitted call": by_hand,
        "compiled, by name": lambda: compiled(by_name),
        "compiled, in order": lambda: compiled(args),
    }


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    ratios = []
    for kind in ("jax", "numpy"):
        for dtype in ("float32", "int64"):
            calls = calls_of(kind, dtype)
            for call in calls.values():
                call()
            title = f"{INPUTS} inputs of {dtype}, {kind} arrays"
            ratios.append(print_table(title, best_times(calls, rounds)))
    fine = max(ratios) <= LIMIT
    worst = f"compiled over jitted call: {max(ratios):.2f}x"
    print(f"{worst}, limit {LIMIT}x:", "ok" if fine else "missed")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
