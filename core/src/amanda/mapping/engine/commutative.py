"""Inputs in either order: which of the two orders each commutative op is matched in.

A pattern is matched from its root inwards, and each op that leaves a choice takes the
first. Where that fails, matching begins anew with the last choice turned, as often as
`MAX_TRIES` allows: a pattern of many such ops costs no more than that.
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
"""A quick look at whether a value may stand here; None where any may."""


class InputOrders:
    """The choices of one try: first those that are told, then the straight order."""

    __slots__ = ("_at", "_told")

    def __init__(self, told: list[bool]) -> None:
        self._told = told
        self._at = 0

    def choose(self) -> bool:
        """Whether the next op with a choice is matched crosswise."""
        if self._at == len(self._told):
            self._told.append(False)
        self._at += 1
        return self._told[self._at - 1]

    def next(self) -> InputOrders | None:
        """The choices to try after these; None where all are tried."""
        told = self._told[: self._at]
        while told and told[-1]:
            told.pop()
        if not told:
            return None
        told[-1] = True
        return InputOrders(told)


def try_input_orders(take: MatchOp, at: int) -> MatchOp:
    """A pattern in which something may be turned; `at` is the slot of the choices."""

    def tried(op: Op, slots: Slots, ops: list[Op]) -> str | None:
        orders: InputOrders | None = InputOrders([])
        first: str | None = None
        for _ in range(MAX_TRIES):
            slots[at] = orders
            why = take(op, slots, ops)
            if why is None:
                return None
            first = first or why
            assert orders is not None
            orders = orders.next()
            if orders is None:
                return first
            ops.clear()
        return f"{first} (and so in {MAX_TRIES} orders of commutative inputs)"

    return tried


def match_two_inputs(
    binds: tuple[BindPart, BindPart], fits: tuple[QuickCheck, QuickCheck], at: int
) -> MatchOp:
    """The inputs of a commutative op, in the order that fits."""
    one, other = binds
    fits_one, fits_other = fits

    def take(op: Op, slots: Slots, ops: list[Op]) -> str | None:
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

    return take
