"""To TensorFlow: control flow, and effects. Bodies become functions at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_std.mappings import rank_of
from amanda_tf.mapping.operands import int_tensor

__all__ = ["WRITE"]


def write_if(o: Any, condition: Any, *xs: Any, then: Any, otherwise: Any) -> Any:
    return o.StatelessIf(
        condition, *xs, then_branch=then, else_branch=otherwise, Tout=[],
        outputs=len(o.source.outputs),
    )  # fmt: skip


def write_while(
    o: Any, *xs: Any, condition: Any, body: Any, max_trips: int | None = None
) -> Any:
    if max_trips is None:
        return o.StatelessWhile(*xs, cond=condition, body=body, outputs=len(xs))
    _count_iterations(o, condition, body, max_trips)
    start = o.graph.constant(Tensor.of(np.int64(0))).output
    found = o.StatelessWhile(*xs, start, cond=condition, body=body, outputs=len(xs) + 1)
    return found[:-1]


def _count_iterations(o: Any, condition: Graph, body: Graph, most: int) -> None:
    """Add a variable that counts, and that ends the loop at a number of iterations."""
    build, kind = o.side.build, TensorType("int64", [])
    count = condition.parameter(kind, "iteration")
    limit = condition.constant(Tensor.of(np.int64(most))).output
    (goes_on,) = build(condition, "Less", [count, limit], {})
    (both,) = build(condition, "LogicalAnd", [condition.results[0], goes_on], {})
    condition.remove_result(0)
    condition.result(both)
    count = body.parameter(kind, "iteration")
    one = body.constant(Tensor.of(np.int64(1))).output
    body.result(build(body, "AddV2", [count, one], {})[0])


def write_assert(o: Any, condition: Any, *shown: Any, message: str = "") -> Any:
    text = Tensor.strings([message], ())
    shown_values = [o.graph.constant(text).output, *shown]
    holds = condition
    if rank_of(condition):
        holds = o.All(condition, int_tensor(range(rank_of(condition))))
    o.side.build(o.graph, "Assert", [holds, *shown_values], {}, outputs=0)
    check = o.graph.last_op
    y = o.Identity(condition)
    o.graph.control(check, y.op)
    return y


def write_print(o: Any, x: Any, *, text: str = "") -> Any:
    return o.Print(x, x, message=text)


WRITE: dict[str, Any] = {
    "while": write_while,
    "if": write_if,
    "assert": write_assert,
    "print": write_print,
}
