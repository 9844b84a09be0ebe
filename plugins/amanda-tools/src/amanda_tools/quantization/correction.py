"""Bias correction: the mean error of quantized weights is added to biases.

Rounding a weight moves the mean of what its layer computes (Nagel et al. 2019). The
movement of each output channel is measured on example inputs, with the values that the
float model has, and taken back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from amanda import run
from amanda.graph import Graph, Op
from amanda.tensors import Tensor
from amanda_std import Value, ops, tracing

__all__ = ["mean_errors"]

Array = np.ndarray[Any, Any]


def mean_errors(
    graph: Graph,
    errors: Mapping[Op, tuple[Array, int]],
    data: Sequence[Any],
    backend: str,
) -> dict[Op, Array]:
    """How far each layer's output channels move if errors are added to its weight.

    `errors` are those of the weights, with the axis of the layer's output channels in
    its result."""
    memo: dict[Any, Any] = {}
    copy = graph.clone(memo=memo)
    for index in reversed(range(len(copy.results))):
        copy.remove_result(index)
    for op, (error, axis) in errors.items():
        twin = memo[op]
        with tracing(copy):
            held = copy.constant(Tensor.of(error)).output
            moved = copy.add(
                str(op.type), [twin.inputs[0], held], attrs=dict(twin.attrs)
            )
            rank = error.ndim if op.type == "conv" else _rank(op)
            others = tuple(i for i in range(rank) if i != axis % rank)
            mean = ops.mean(Value(moved.output), axes=others) if others else moved
        copy.result(mean.port if isinstance(mean, Value) else mean.output)
    rows = [list(run(copy, feeds, backend=backend).values()) for feeds in data]
    return {
        op: np.mean([np.asarray(row[index], "float64") for row in rows], axis=0)
        for index, op in enumerate(errors)
    }


def _rank(op: Op) -> int:
    type_: Any = op.outputs[0].type
    return int(type_.shape.rank)
