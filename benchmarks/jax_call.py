"""Overhead of calling an executable of the backend `jax`, compared with a jitted call.

    python benchmarks/jax_call.py [ROUNDS]

A tiny graph with 10 inputs is compared with the same function jitted by hand: with JAX
arrays in and out, without waiting for results; then with numpy arrays in and out.
`executable` is what the backend returns, `compiled` is what `amanda.compile` returns,
which checks the feeds as well. Exits with 1 if the executable misses its limit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "core/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins/amanda-std/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "plugins/amanda-jax/src"))

import jax
import numpy as np

from amanda.backend import Compiled
from amanda.types import parse_type
from amanda_jax.backend import JaxBackend
from amanda_std import ops, trace

ROUNDS, CALLS, INPUTS = 301, 100, 10
LIMIT = 1.10
"""Time of the executable over that of the jitted call, for JAX and numpy arrays."""


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
    jitted = times["jitted call"]
    print(title)
    for name, seconds in times.items():
        print(f"  {name:18} {seconds * 1e6:8.2f} us  {seconds / jitted:6.2f}x")
    return times["executable"] / jitted


def call_and_fetch(fetch: Any, call: Any, args: list[Any]) -> Any:
    """Call a function and fetch its result with `fetch`."""
    return fetch(call(*args))


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    types = [parse_type("float32[4]")] * INPUTS
    graph = trace(lambda *xs: reduce(ops.add, xs), types)
    jitted = jax.jit(lambda *xs: reduce(lambda a, b: a + b, xs))
    arrays = [np.full(4, i, "float32") for i in range(INPUTS)]
    ratios = []
    for kind in ("jax", "numpy"):
        args = [jax.device_put(a) for a in arrays] if kind == "jax" else arrays
        feeds: dict[str | int, Any] = dict(enumerate(args))
        executable = JaxBackend().compile(graph, None, {"results": kind})
        compiled = Compiled(graph, executable, backend="jax", device=None)
        fetch: Any = (lambda value: value) if kind == "jax" else np.asarray
        calls: dict[str, Callable[[], Any]] = {
            "jitted call": partial(call_and_fetch, fetch, jitted, args),
            "executable": partial(executable, feeds),
            "compiled": partial(compiled, feeds),
        }
        for call in calls.values():
            call()
        ratios.append(
            print_table(f"{kind} arrays, {INPUTS} inputs", best_times(calls, rounds))
        )
    fine = max(ratios) <= LIMIT
    print(
        f"executable over jitted call: {max(ratios):.2f}x, limit {LIMIT}x:", "ok" * fine
    )
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
