"""To TensorFlow: control flow, and effects. Bodies become functions at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda_std import ops
from amanda_std.mappings import inline_body

__all__ = ["DEFINITIONS", "WRITE"]


def write_if(o: Any, condition: Any, *xs: Any, then: Any, otherwise: Any) -> Any:
    return o.StatelessIf(
        condition, *xs, then_branch=then, else_branch=otherwise, Tout=[],
        outputs=len(o.source.outputs),
    )  # fmt: skip


def write_while(
    o: Any, *xs: Any, condition: Any, body: Any, max_trips: int | None = None
) -> Any:
    if max_trips is not None:
        raise Decline("a bound of the number of iterations")
    return o.StatelessWhile(*xs, cond=condition, body=body, outputs=len(xs))


def write_assert(o: Any, condition: Any, *shown: Any, message: str = "") -> Any:
    text = Tensor.strings([message], ())
    shown_values = [o.graph.constant(text).output, *shown]
    o.side.build(o.graph, "Assert", [condition, *shown_values], {}, outputs=0)
    check = o.graph.last_op
    y = o.Identity(condition)
    o.graph.control(check, y.op)
    return y


def write_print(o: Any, x: Any, *, text: str = "") -> Any:
    return o.Print(x, x, message=text)


def loop_as_while(trips: Any, condition: Any, body: Any, *init: Any) -> Any:
    """A loop without stacked results, as `while` with a counter."""
    count = len(init)
    if len(body.results) > count + 1:
        raise Decline("its stacked results need a TensorList")
    start = np.int64(0)
    go = np.asarray(True) if condition is None else condition

    def goes_on(i: Any, go: Any, *_: Any) -> Any:
        return go if trips is None else ops.logical_and(go, ops.less(i, trips))

    def step(i: Any, go: Any, *xs: Any) -> Any:
        return (i + np.int64(1), *inline_body(body, (i, go, *xs)))

    return tuple(ops.while_(goes_on, step, start, go, *init))[2:]


DEFINITIONS = {"loop": loop_as_while}
WRITE: dict[str, Any] = {
    "while": write_while,
    "if": write_if,
    "assert": write_assert,
    "print": write_print,
}
