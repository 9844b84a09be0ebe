"""What calling an executable of the backend `jax` costs beside the bare jitted call.

    python benchmarks/jax_call.py [ROUNDS]

A tiny graph with 10 inputs, beside the same function jitted by hand: arrays of JAX in
and out, nothing waited for; then arrays of numpy in and out. `executable` is what the
backend makes, `compiled` what `amanda.compile` gives, which checks the feeds too.
Exits with 1 where the executable misses its limit.
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
"""Executable over bare call, both with arrays of JAX and with those of numpy."""


def spent(call: Callable[[], Any]) -> float:
    """Seconds that one call takes."""
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - began) / CALLS


def beside(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The best time of each, taken in turns, so that all meet the same machine."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            best[name] = min(best[name], spent(call))
    return best


def table(title: str, times: dict[str, float]) -> float:
    bare = times["bare jitted call"]
    print(title)
    for name, seconds in times.items():
        print(f"  {name:18} {seconds * 1e6:8.2f} us  {seconds / bare:6.2f}x")
    return times["executable"] / bare


def taken(take: Any, call: Any, given: list[Any]) -> Any:
    """What a call gives, brought to where the caller wants it."""
    return take(call(*given))


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    types = [parse_type("float32[4]")] * INPUTS
    graph = trace(lambda *xs: reduce(ops.add, xs), types)
    bare = jax.jit(lambda *xs: reduce(lambda a, b: a + b, xs))
    arrays = [np.full(4, i, "float32") for i in range(INPUTS)]
    ratios = []
    for kind in ("jax", "numpy"):
        given = [jax.device_put(a) for a in arrays] if kind == "jax" else arrays
        feeds: dict[str | int, Any] = dict(enumerate(given))
        made = JaxBackend().compile(graph, None, {"results": kind})
        compiled = Compiled(graph, made, backend="jax", device=None)
        take: Any = (lambda value: value) if kind == "jax" else np.asarray
        calls: dict[str, Callable[[], Any]] = {
            "bare jitted call": partial(taken, take, bare, given),
            "executable": partial(made, feeds),
            "compiled": partial(compiled, feeds),
        }
        for call in calls.values():
            call()
        ratios.append(
            table(f"arrays of {kind}, {INPUTS} inputs", beside(calls, rounds))
        )
    fine = max(ratios) <= LIMIT
    print(f"executable over bare: {max(ratios):.2f}x, limit {LIMIT}x:", "ok" * fine)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
