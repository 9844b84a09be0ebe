"""To TensorFlow: control flow, and effects. Bodies become functions at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda_std.mappings import rank_of
from amanda_tf.mapping.control.loop_definitions import loop_as_while, scan_as_while
from amanda_tf.mapping.operands import int_tensor

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


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "loop": loop_as_while,
    "scan": scan_as_while,
}
WRITE: dict[str, Any] = {
    "while": write_while,
    "if": write_if,
    "assert": write_assert,
    "print": write_print,
}
