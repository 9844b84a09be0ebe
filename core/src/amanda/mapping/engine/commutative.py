"""Input orders of commutative ops in patterns.

A pattern is matched from its root inwards, and each commutative op uses its inputs in
their order first. Where that fails, matching is repeated with the last choice swapped,
at most `MAX_TRIES` times, so that patterns of many such ops stay cheap.
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
    """The choices of one attempt: first the given ones, then the plain order."""

    __slots__ = ("_at", "_given")

    def __init__(self, choices: list[bool]) -> None:
        self._given = choices
        self._at = 0

    def choose(self) -> bool:
        """Whether the inputs of the next commutative op are swapped."""
        if self._at == len(self._given):
            self._given.append(False)
        self._at += 1
        return self._given[self._at - 1]

    def next(self) -> InputOrders | None:
        """The choices to try next; None where all were tried."""
        choices = self._given[: self._at]
        while choices and choices[-1]:
            choices.pop()
        if not choices:
            return None
        choices[-1] = True
        return InputOrders(choices)


def try_input_orders(match_op: MatchOp, at: int) -> MatchOp:
    """A matcher that tries input orders; `at` is the slot of the choices."""

    def try_orders(op: Op, slots: Slots, ops: list[Op]) -> str | None:
        orders: InputOrders | None = InputOrders([])
        first: str | None = None
        for _ in range(MAX_TRIES):
            slots[at] = orders
            why = match_op(op, slots, ops)
            if why is None:
                return None
            first = first or why
            assert orders is not None
            orders = orders.next()
            if orders is None:
                return first
            ops.clear()
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
