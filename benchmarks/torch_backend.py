"""Overhead of the backend `torch` compared with a module of PyTorch written by hand.

    python benchmarks/torch_backend.py [ROUNDS]

Both get and return tensors, in `torch.no_grad()`, with the same weights. Each round
runs both alternately for some milliseconds, so that other load on the machine affects
both equally; the ratio is the median over all rounds. PyTorch uses one thread, for
stable times. Exits with 1 if a case takes more than `LIMIT` times as long; cases below
a millisecond show the minimum cost of a call, and have no limit.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import amanda
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_std import ops, trace

LIMIT = 1.10
ROUNDS = 40
MIN_SECONDS = 0.001
BLOCK = 0.005  # seconds per timed block of calls
Case = tuple[Graph, Sequence[Any], Callable[..., Any]]


def weights(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(0)
    return [(random.standard_normal(s) / sqrt(s[0])).astype("float32") for s in shapes]


def linear(x: Any, weight: Any, bias: Any) -> Any:
    """As `torch.nn.Linear`, whose weight is [outputs, inputs]."""
    return functional.linear(x, weight, bias)


def build_perceptron(batch: int, width: int) -> Case:
    arrays = weights((784, width), (width, width), (width, 10))
    biases = weights((width,), (width,), (10,))

    def network(x: Any) -> Any:
        for w, b in zip(arrays[:2], biases[:2], strict=True):
            x = ops.relu(ops.linear(x, w, b))
        return ops.softmax(ops.linear(x, arrays[2], biases[2]))

    own = [torch.from_numpy(w.T.copy()) for w in arrays]
    added = [torch.from_numpy(b) for b in biases]

    def reference(x: Any) -> Any:
        for w, b in zip(own[:2], added[:2], strict=True):
            x = torch.relu(linear(x, w, b))
        return torch.softmax(linear(x, own[2], added[2]), -1)

    graph = trace(network, [parse_type("float32[batch, 784]")], names=["x"])
    return graph, weights((batch, 784)), reference


def build_transformer(length: int, width: int, heads: int) -> Case:
    """A BERT block: attention, then a feed-forward layer of four times the width."""
    depth = width // heads
    arrays = weights(*[(width, width)] * 4, (width, 4 * width), (4 * width, width))
    biases = weights(*[(width,)] * 4, (4 * width,), (width,))
    scale, shift = weights((width,), (width,))

    def network(x: Any) -> Any:
        def project(y: Any, i: int) -> Any:
            return ops.linear(y, arrays[i], biases[i])

        def split_heads(y: Any) -> Any:
            y = ops.reshape(y, [*x.shape[:2], heads, depth])
            return ops.transpose(y, perm=(0, 2, 1, 3))

        y = ops.attention(*(split_heads(project(x, i)) for i in range(3)))
        joined = ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), x.shape)
        h = ops.layer_norm(x + project(joined, 3), scale, shift)
        wide = ops.gelu(project(h, 4))
        return ops.layer_norm(h + project(wide, 5), scale, shift)

    own = [torch.from_numpy(w.T.copy()) for w in arrays]
    added = [torch.from_numpy(b) for b in biases]
    factors, moves = torch.from_numpy(scale), torch.from_numpy(shift)

    def reference(x: Any) -> Any:
        batch, length, _ = x.shape

        def split_heads(i: int) -> Any:
            y = linear(x, own[i], added[i])
            return y.view(batch, length, heads, depth).transpose(1, 2)

        y = functional.scaled_dot_product_attention(*map(split_heads, range(3)))
        joined = y.transpose(1, 2).reshape(batch, length, width)
        h = x + linear(joined, own[3], added[3])
        h = functional.layer_norm(h, (width,), factors, moves)
        wide = functional.gelu(linear(h, own[4], added[4]))
        h = h + linear(wide, own[5], added[5])
        return functional.layer_norm(h, (width,), factors, moves)

    kind = parse_type(f"float32[batch, length, {width}]")
    graph = trace(network, [kind], names=["x"])
    return graph, [weights((1, length, width))[0]], reference


def build_convolutions(size: int, channels: int, blocks: int) -> Case:
    """Residual blocks of two convolutions, and global pooling."""
    first, *arrays = weights(
        (channels, 3, 7, 7), *[(channels, channels, 3, 3)] * (2 * blocks)
    )

    def network(x: Any) -> Any:
        pads: Any = {"padding": ((3, 3), (3, 3)), "strides": (2, 2)}
        x = ops.relu(ops.conv(x, first, **pads))
        x = ops.max_pool(x, window=(3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
        for a, b in zip(arrays[::2], arrays[1::2], strict=True):
            y = ops.relu(ops.conv(x, a, padding=((1, 1), (1, 1))))
            x = ops.relu(ops.conv(y, b, padding=((1, 1), (1, 1))) + x)
        return ops.mean(x, (2, 3))

    own = [torch.from_numpy(w) for w in arrays]
    head = torch.from_numpy(first)

    def reference(x: Any) -> Any:
        x = torch.relu(functional.conv2d(x, head, stride=2, padding=3))
        x = functional.max_pool2d(x, 3, 2, 1)
        for a, b in zip(own[::2], own[1::2], strict=True):
            y = torch.relu(functional.conv2d(x, a, padding=1))
            x = torch.relu(functional.conv2d(y, b, padding=1) + x)
        return x.mean((2, 3))

    graph = trace(network, [parse_type("float32[batch, 3, h, w]")], names=["x"])
    return graph, weights((1, 3, size, size)), reference


CASES: dict[str, Callable[[], Case]] = {
    "perceptron, batch 1": lambda: build_perceptron(1, 512),
    "perceptron, batch 64": lambda: build_perceptron(64, 512),
    "perceptron, wide": lambda: build_perceptron(256, 1024),
    "transformer, 16 of 256": lambda: build_transformer(16, 256, 4),
    "transformer, 128 of 768": lambda: build_transformer(128, 768, 12),
    "convolutions, 64 of 32": lambda: build_convolutions(64, 32, 4),
    "convolutions, 224 of 64": lambda: build_convolutions(224, 64, 2),
}


def seconds(call: Callable[[], Any], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def measure(case: Case, rounds: int) -> tuple[float, float, float]:
    """Return the median seconds of both, and the median ratio."""
    graph, arrays, reference = case
    compiled = amanda.compile(graph, "torch", "cpu")
    feeds = [torch.from_numpy(array) for array in arrays]
    (result,) = compiled(feeds).values()
    torch.testing.assert_close(result, reference(*feeds), rtol=1e-3, atol=1e-4)
    calls = (lambda: compiled(feeds), lambda: reference(*feeds))
    times = max(1, int(BLOCK / seconds(calls[1], 3)))
    rows = [[seconds(call, times) for call in calls] for _ in range(rounds)]
    ours, theirs = (statistics.median(column) for column in zip(*rows, strict=True))
    return ours, theirs, statistics.median(a / b for a, b in rows)


def main(rounds: int = ROUNDS) -> int:
    torch.set_num_threads(1)
    print(f"{'':24} {'amanda ms':>9} {'torch ms':>9}  {'ratio':>5}")
    worst = 0.0
    with torch.no_grad():
        for name, make in CASES.items():
            ours, theirs, ratio = measure(make(), rounds)
            if theirs >= MIN_SECONDS:
                worst = max(worst, ratio)
            print(f"{name:24} {ours * 1e3:9.3f} {theirs * 1e3:9.3f}  {ratio:5.2f}")
    print(f"worst ratio {worst:.2f}, limit {LIMIT:g}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
