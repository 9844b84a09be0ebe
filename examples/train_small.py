"""Trains a small network on two backends, to the same loss.

    python examples/train_small.py

The network, its gradients and the step of the optimiser are one graph, traced from
Python functions. What is trained stands outside: each call gets it, and gives it anew.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import amanda
from amanda_std import ops

STEPS = 200
NAMES = ("w1", "b1", "w2", "b2")


@amanda.function
def dense(x: Any, w: Any, b: Any) -> Any:
    """One layer. In the graph it is a function, which both layers call."""
    return x @ w + b


@amanda.function
def network(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return dense(ops.tanh(dense(x, w1, b1)), w2, b2)


@amanda.function
def step(x: Any, labels: Any, rate: Any, number: Any, *state: Any) -> Any:
    """One step of Adam: the loss, the new parameters, and what Adam remembers."""
    parameters, first, second = state[:4], state[4:8], state[8:]
    loss = ops.softmax_cross_entropy(network(x, *parameters), labels, axis=-1)
    slopes = loss.grad(parameters)
    rows = [
        ops.adam_step(p, g, m, v, rate, number)
        for p, g, m, v in zip(parameters, slopes, first, second, strict=True)
    ]
    return loss, *(new for column in zip(*rows, strict=True) for new in column)


def spirals(count: int = 60) -> tuple[Any, Any]:
    """Points on two arms of a spiral, and which arm each is of."""
    turn = np.linspace(0.5, 3.0, count)
    arm = np.stack([turn * np.cos(2 * turn), turn * np.sin(2 * turn)], axis=1)
    points = np.concatenate([arm, -arm]).astype(np.float32)
    return points, np.repeat(np.arange(2), count)


def parameters(hidden: int = 24) -> list[Any]:
    random = np.random.default_rng(1)
    sizes = [(2, hidden), (hidden,), (hidden, 2), (2,)]
    return [random.normal(scale=0.6, size=s).astype(np.float32) for s in sizes]


def train(graph: amanda.Graph, backend: str) -> tuple[list[float], list[Any]]:
    """The loss of every step on a backend, and what was trained."""
    x, labels = spirals()
    trained = parameters()
    zeros = [np.zeros_like(p) for p in trained]
    state = [*trained, *zeros, *zeros]
    run = amanda.compile(graph, backend=backend)
    losses = []
    for number in range(1, STEPS + 1):
        feeds = [x, labels, np.float32(0.03), np.int64(number), *state]
        loss, *state = run(feeds).values()
        losses.append(float(loss))
    return losses, [np.asarray(p) for p in state[:4]]


def main(backends: list[str]) -> None:
    x, labels = spirals()
    trained = parameters()
    graph = step.graph(x, labels, np.float32(0), np.int64(0), *trained * 3)
    print(f"one step: {len(graph)} ops")
    ends = {}
    for backend in backends:
        losses, found = train(graph, backend)
        right = (network(x, *found).argmax(axis=-1) == labels).mean()
        ends[backend] = losses[-1]
        print(f"{backend}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, {right:.0%} right")
    first, *others = ends.values()
    if all(abs(first - other) < 1e-3 for other in others):
        print("the same loss")


if __name__ == "__main__":
    main(sys.argv[1:] or ["numpy", "jax"])
