"""Input orders of commutative ops in patterns.

A pattern is matched from its root inwards, and each commutative op uses its inputs in
their order first. Where that fails, matching is repeated with the last choice swapped,
at most `MAX_TRIES` times, so that patterns of many such ops stay cheap. Where an order
matches, but a guard declines, or the other side needs the content of a value that is
not constant, the next order that matches is tried (`CompiledRule.find`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from amanda.graph import Op
from amanda.mapping.engine.compiled_rule import BindPart, MatchOp, Slots

__all__ = [
    "MAX_TRIES",
    "QuickCheck",
    "InputOrders",
    "try_input_orders",
    "match_two_inputs",
]

MAX_TRIES: Final = 64
QuickCheck: TypeAlias = "Callable[[Any, Slots], bool] | None"
"""A cheap test whether a value may match; None where any may."""


class InputOrders:
    """The choices of one attempt: first the given ones, then the plain order.

    `number` counts the attempts.
    """

    __slots__ = ("_at", "_given", "number")

    def __init__(self, choices: list[bool], number: int = 1) -> None:
        self._given = choices
        self._at = 0
        self.number = number

    def choose(self) -> bool:
        """Whether the inputs of the next commutative op are swapped."""
        if self._at == len(self._given):
            self._given.append(False)
        self._at += 1
        return self._given[self._at - 1]

    def next(self) -> InputOrders | None:
        """The choices to try next; None where all were tried, or `MAX_TRIES`."""
        choices = self._given[: self._at]
        while choices and choices[-1]:
            choices.pop()
        if not choices or self.number == MAX_TRIES:
            return None
        choices[-1] = True
        return InputOrders(choices, self.number + 1)


def try_input_orders(match_op: MatchOp, at: int) -> MatchOp:
    """A matcher that tries input orders; `at` is the slot of the choices, where those
    to begin with may be."""

    def try_orders(op: Op, slots: Slots, ops: list[Op]) -> str | None:
        orders: InputOrders = slots[at] or InputOrders([])
        first: str | None = None
        while True:
            slots[at] = orders
            why = match_op(op, slots, ops)
            if why is None:
                return None
            first = first or why
            following = orders.next()
            if following is None:
                break
            orders = following
            ops.clear()
        if orders.number < MAX_TRIES:
            return first
        return f"{first} (and so in {MAX_TRIES} orders of commutative inputs)"

    return try_orders


def match_two_inputs(
    binds: tuple[BindPart, BindPart], fits: tuple[QuickCheck, QuickCheck], at: int
) -> MatchOp:
    """A matcher for the two inputs of a commutative op."""
    one, other = binds
    fits_one, fits_other = fits

    def match_op(op: Op, slots: Slots, ops: list[Op]) -> str | None:
        inputs = op.inputs
        a = inputs[0] if inputs else None
        b = inputs[1] if len(inputs) > 1 else None
        if a is not b and (
            (fits_one is None or fits_one(b, slots))
            and (fits_other is None or fits_other(a, slots))
        ):
            straight = (fits_one is None or fits_one(a, slots)) and (
                fits_other is None or fits_other(b, slots)
            )
            if not straight or slots[at].choose():
                a, b = b, a
        why = one(a, slots, ops)
        return other(b, slots, ops) if why is None else why

    return match_op
