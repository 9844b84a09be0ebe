"""How much each weight of a graph contributes: its magnitude, or its effect on a
loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from amanda import run
from amanda.errors import UsageError
from amanda.graph import Graph, Op
from amanda_std import Value, grad, ops, tracing

__all__ = ["CRITERIA", "Importance", "loss_effects", "magnitudes"]

CRITERIA: Final = ("magnitude", "gradient")
Array = np.ndarray[Any, Any]
Importance = Mapping[Op, Array]
Loss = Callable[[Mapping[str, Any]], Any]


def magnitudes(weights: Sequence[Op]) -> Importance:
    """The absolute value of each weight."""
    return {op: np.abs(op.attrs["value"].numpy()) for op in weights}


def loss_effects(
    graph: Graph,
    weights: Sequence[Op],
    data: Sequence[Any],
    loss: str | Loss | None,
    backend: str,
) -> Importance:
    """How much a loss changes to first order if a weight becomes zero, on examples.

    `loss` is the name of a result that is a number, or a function of the results by
    name; by default the mean of the squares of the first result."""
    if not data:
        raise UsageError(
            "the criterion gradient needs example inputs",
            hint='amanda.apply(graph, tool, data=[feeds]), or criterion="magnitude"',
        )
    memo: dict[Any, Any] = {}
    copy = graph.clone(memo=memo)
    with tracing(copy):
        value = _loss_value(copy, loss)
    ports = [memo[op].output for op in weights]
    gradients = grad(copy, value.port, ports)
    sums = [np.zeros(op.attrs["value"].shape, "float64") for op in weights]
    for feeds in data:
        found = run(copy, feeds, gradients, backend=backend)
        for total, port in zip(sums, gradients, strict=True):
            total += np.asarray(found[port], "float64")
    return {
        op: np.abs(total * op.attrs["value"].numpy())
        for op, total in zip(weights, sums, strict=True)
    }


def _loss_value(graph: Graph, loss: str | Loss | None) -> Value:
    results = {
        str(port.name): Value(value)
        for port, value in zip(graph.outputs, graph.results, strict=True)
        if value is not None
    }
    if loss is None:
        first = next(iter(results.values()))
        value: Value = ops.mean(ops.multiply(first, first))
    elif callable(loss):
        value = loss(results)
    elif loss in results:
        value = results[loss]
    else:
        raise UsageError(
            f"the model has no result {loss!r}", expected=", ".join(results)
        )
    return value
