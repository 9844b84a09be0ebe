"""How much slower the numpy backend is than the same computation written in numpy.

    python benchmarks/numpy_overhead.py [ROUNDS]

Each round runs both, in turn, for some milliseconds each, so that whatever else the
machine does falls on both alike; the ratio is the median of those of the rounds. One
thread, since two that wait for each other measure the machine. Exits with 1 if a case
takes more than `LIMIT` times as long; those below a millisecond show what a call costs
at least, and are not judged.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.special import erf

import amanda
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_std import ops, trace

LIMIT = 1.15
ROUNDS = 40
JUDGED = 0.001
BLOCK = 0.005  # seconds that are timed together
Case = tuple[Graph, Sequence[Any], Callable[..., Any]]


def weights(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(0)
    return [(random.standard_normal(s) / sqrt(s[0])).astype("float32") for s in shapes]


def perceptron(batch: int, width: int) -> Case:
    w1, w2, w3 = weights((784, width), (width, width), (width, 10))
    b1, b2, b3 = weights((width,), (width,), (10,))

    def traced(x: Any) -> Any:
        h = ops.relu(ops.linear(x, w1, b1))
        h = ops.relu(ops.linear(h, w2, b2))
        return ops.softmax(ops.linear(h, w3, b3))

    def written(x: Any) -> Any:
        h = np.maximum(x @ w1 + b1, 0)
        h = np.maximum(h @ w2 + b2, 0)
        return softmax(h @ w3 + b3)

    graph = trace(traced, [parse_type("float32[batch, 784]")], names=["x"])
    return graph, weights((batch, 784)), written


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    apart = x - x.mean(axis=-1, keepdims=True)
    spread = (apart * apart).mean(axis=-1, keepdims=True)
    return apart / np.sqrt(spread + 1e-5) * scale + bias


def gelu(x: Any) -> Any:
    return x * (erf(x * sqrt(0.5)) + 1) * 0.5


def transformer(length: int, width: int, heads: int) -> Case:
    """A block of BERT: attention, then a layer of four times the width."""
    depth = width // heads
    square, wide, tall = (width, width), (width, 4 * width), (4 * width, width)
    q, k, v, o, up, down = weights(*[square] * 4, wide, tall)
    scale, bias = weights((width,), (width,))

    def traced(x: Any) -> Any:
        def parted(y: Any) -> Any:
            batch, places, _ = y.shape
            y = ops.reshape(y, [batch, places, heads, depth])
            return ops.transpose(y, perm=(0, 2, 1, 3))

        y = ops.attention(*(parted(ops.matmul(x, w)) for w in (q, k, v)))
        joined = ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), x.shape)
        h = ops.layer_norm(x + ops.matmul(joined, o), scale, bias)
        wide = ops.gelu(ops.matmul(h, up))
        return ops.layer_norm(h + ops.matmul(wide, down), scale, bias)

    def written(x: Any) -> Any:
        def parted(y: Any) -> Any:
            batch, places, _ = y.shape
            return y.reshape(batch, places, heads, depth).transpose(0, 2, 1, 3)

        left, right, values = (parted(x @ w) for w in (q, k, v))
        shares = softmax(left * depth**-0.5 @ right.swapaxes(-1, -2))
        joined = (shares @ values).transpose(0, 2, 1, 3).reshape(x.shape)
        h = layer_norm(x + joined @ o, scale, bias)
        return layer_norm(h + gelu(h @ up) @ down, scale, bias)

    kind = parse_type(f"float32[batch, length, {width}]")
    graph = trace(traced, [kind], names=["x"])
    return graph, [weights((1, length, width))[0]], written


CASES: dict[str, Callable[[], Case]] = {
    "perceptron, batch 1": lambda: perceptron(1, 512),
    "perceptron, batch 64": lambda: perceptron(64, 512),
    "perceptron, wide": lambda: perceptron(256, 1024),
    "transformer, 16 of 256": lambda: transformer(16, 256, 4),
    "transformer, 128 of 768": lambda: transformer(128, 768, 12),
}


def seconds(call: Callable[[], Any], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def measured(case: Case, rounds: int) -> tuple[float, float, float]:
    """Median seconds of both, and the median ratio."""
    graph, feeds, written = case
    compiled = amanda.compile(graph, "numpy")
    (got,) = compiled(feeds).values()
    np.testing.assert_allclose(got, written(*feeds), rtol=1e-3, atol=1e-4)
    calls = (lambda: compiled(feeds), lambda: written(*feeds))
    times = max(1, int(BLOCK / seconds(calls[1], 3)))
    rows = [[seconds(call, times) for call in calls] for _ in range(rounds)]
    ours, theirs = (statistics.median(column) for column in zip(*rows, strict=True))
    return ours, theirs, statistics.median(a / b for a, b in rows)


def main(rounds: int = ROUNDS) -> int:
    print(f"{'':24} {'amanda ms':>9} {'numpy ms':>9}  {'ratio':>5}")
    worst = 0.0
    for name, make in CASES.items():
        ours, theirs, ratio = measured(make(), rounds)
        if theirs >= JUDGED:
            worst = max(worst, ratio)
        print(f"{name:24} {ours * 1e3:9.3f} {theirs * 1e3:9.3f}  {ratio:5.2f}")
    print(f"at most {worst:.2f} times as long; the limit is {LIMIT:g}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
