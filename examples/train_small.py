"""Train a small network on two backends, to the same loss.

    python examples/train_small.py

The network, its gradients and the optimizer step are one graph, traced from Python
functions. The parameters and the optimizer state are inputs and results of each call.
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
    """One layer: a function of the graph, called by both layers."""
    return x @ w + b


@amanda.function
def network(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return dense(ops.tanh(dense(x, w1, b1)), w2, b2)


@amanda.function
def step(x: Any, labels: Any, rate: Any, number: Any, *state: Any) -> Any:
    """One step of Adam: the loss, the new parameters and the new moments."""
    parameters, first, second = state[:4], state[4:8], state[8:]
    loss = ops.softmax_cross_entropy(network(x, *parameters), labels, axis=-1)
    gradients = loss.grad(parameters)
    rows = [
        ops.adam_step(p, g, m, v, rate, number)
        for p, g, m, v in zip(parameters, gradients, first, second, strict=True)
    ]
    return loss, *(new for column in zip(*rows, strict=True) for new in column)


def spirals(count: int = 60) -> tuple[Any, Any]:
    """Return points on two arms of a spiral, and the arm of each as its label."""
    turn = np.linspace(0.5, 3.0, count)
    arm = np.stack([turn * np.cos(2 * turn), turn * np.sin(2 * turn)], axis=1)
    points = np.concatenate([arm, -arm]).astype(np.float32)
    return points, np.repeat(np.arange(2), count)


def parameters(hidden: int = 24) -> list[Any]:
    random = np.random.default_rng(1)
    sizes = [(2, hidden), (hidden,), (hidden, 2), (2,)]
    return [random.normal(scale=0.6, size=s).astype(np.float32) for s in sizes]


def train(graph: amanda.Graph, backend: str) -> tuple[list[float], list[Any]]:
    """Return the loss of every step on a backend, and the trained parameters."""
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
    final = {}
    for backend in backends:
        losses, fitted = train(graph, backend)
        accuracy = (network(x, *fitted).argmax(axis=-1) == labels).mean()
        final[backend] = losses[-1]
        loss = f"{losses[0]:.4f} -> {losses[-1]:.4f}"
        print(f"{backend}: loss {loss}, {accuracy:.0%} correct")
    first, *others = final.values()
    if all(abs(first - other) < 1e-3 for other in others):
        print("the same loss")


if __name__ == "__main__":
    main(sys.argv[1:] or ["numpy", "jax"])
