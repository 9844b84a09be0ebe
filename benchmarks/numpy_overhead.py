"""Overhead of the numpy backend compared with the same computation written in numpy.

    python benchmarks/numpy_overhead.py [ROUNDS]

Each round runs both alternately for some milliseconds, so that other load on the
machine affects both equally; the ratio is the median over all rounds. BLAS uses one
thread, for stable times. Exits with 1 if a case takes more than `LIMIT` times as long;
cases below a millisecond show the minimum cost of a call, and have no limit.
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
MIN_SECONDS = 0.001
BLOCK = 0.005  # seconds per timed block of calls
Case = tuple[Graph, Sequence[Any], Callable[..., Any]]


def weights(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(0)
    return [(random.standard_normal(s) / sqrt(s[0])).astype("float32") for s in shapes]


def build_perceptron(batch: int, width: int) -> Case:
    w1, w2, w3 = weights((784, width), (width, width), (width, 10))
    b1, b2, b3 = weights((width,), (width,), (10,))

    def network(x: Any) -> Any:
        h = ops.relu(ops.linear(x, w1, b1))
        h = ops.relu(ops.linear(h, w2, b2))
        return ops.softmax(ops.linear(h, w3, b3))

    def reference(x: Any) -> Any:
        h = np.maximum(x @ w1 + b1, 0)
        h = np.maximum(h @ w2 + b2, 0)
        return softmax(h @ w3 + b3)

    graph = trace(network, [parse_type("float32[batch, 784]")], names=["x"])
    return graph, weights((batch, 784)), reference


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered * centered).mean(axis=-1, keepdims=True)
    return centered / np.sqrt(variance + 1e-5) * scale + bias


def gelu(x: Any) -> Any:
    return x * (erf(x * sqrt(0.5)) + 1) * 0.5


def build_transformer(length: int, width: int, heads: int) -> Case:
    """A BERT block: attention, then a feed-forward layer of four times the width."""
    depth = width // heads
    square, wide, tall = (width, width), (width, 4 * width), (4 * width, width)
    q, k, v, o, up, down = weights(*[square] * 4, wide, tall)
    scale, bias = weights((width,), (width,))

    def network(x: Any) -> Any:
        def split_heads(y: Any) -> Any:
            batch, length, _ = y.shape
            y = ops.reshape(y, [batch, length, heads, depth])
            return ops.transpose(y, perm=(0, 2, 1, 3))

        y = ops.attention(*(split_heads(ops.matmul(x, w)) for w in (q, k, v)))
        joined = ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), x.shape)
        h = ops.layer_norm(x + ops.matmul(joined, o), scale, bias)
        wide = ops.gelu(ops.matmul(h, up))
        return ops.layer_norm(h + ops.matmul(wide, down), scale, bias)

    def reference(x: Any) -> Any:
        def split_heads(y: Any) -> Any:
            batch, length, _ = y.shape
            return y.reshape(batch, length, heads, depth).transpose(0, 2, 1, 3)

        left, right, values = (split_heads(x @ w) for w in (q, k, v))
        probabilities = softmax(left * depth**-0.5 @ right.swapaxes(-1, -2))
        joined = (probabilities @ values).transpose(0, 2, 1, 3).reshape(x.shape)
        h = layer_norm(x + joined @ o, scale, bias)
        return layer_norm(h + gelu(h @ up) @ down, scale, bias)

    kind = parse_type(f"float32[batch, length, {width}]")
    graph = trace(network, [kind], names=["x"])
    return graph, [weights((1, length, width))[0]], reference


CASES: dict[str, Callable[[], Case]] = {
    "perceptron, batch 1": lambda: build_perceptron(1, 512),
    "perceptron, batch 64": lambda: build_perceptron(64, 512),
    "perceptron, wide": lambda: build_perceptron(256, 1024),
    "transformer, 16 of 256": lambda: build_transformer(16, 256, 4),
    "transformer, 128 of 768": lambda: build_transformer(128, 768, 12),
}


def seconds(call: Callable[[], Any], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def measure(case: Case, rounds: int) -> tuple[float, float, float]:
    """Return the median seconds of both, and the median ratio."""
    graph, feeds, reference = case
    compiled = amanda.compile(graph, "numpy")
    (result,) = compiled(feeds).values()
    np.testing.assert_allclose(result, reference(*feeds), rtol=1e-3, atol=1e-4)
    calls = (lambda: compiled(feeds), lambda: reference(*feeds))
    times = max(1, int(BLOCK / seconds(calls[1], 3)))
    rows = [[seconds(call, times) for call in calls] for _ in range(rounds)]
    ours, theirs = (statistics.median(column) for column in zip(*rows, strict=True))
    return ours, theirs, statistics.median(a / b for a, b in rows)


def main(rounds: int = ROUNDS) -> int:
    print(f"{'':24} {'amanda ms':>9} {'numpy ms':>9}  {'ratio':>5}")
    worst = 0.0
    for name, make in CASES.items():
        ours, theirs, ratio = measure(make(), rounds)
        if theirs >= MIN_SECONDS:
            worst = max(worst, ratio)
        print(f"{name:24} {ours * 1e3:9.3f} {theirs * 1e3:9.3f}  {ratio:5.2f}")
    print(f"worst ratio {worst:.2f}, limit {LIMIT:g}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
