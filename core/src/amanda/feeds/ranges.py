"""The values that an input accepts, as the ops that read it decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["ROLES", "InputRange"]

ROLES: Final = (
    "number", "index", "ordered", "mask", "position", "length", "size", "shape",
)  # fmt: skip
"""What the elements of an input are used as. `ordered` ones are indices, and so are the
differences of later from earlier ones on the last axis: corners of boxes."""


@dataclass(frozen=True, slots=True)
class InputRange:
    """The values that the ops reading an input accept.

    >>> InputRange(0, 30521, "index")
    InputRange(low=0, high=30521, role='index', keeps=True)
    """

    low: float | None = None
    """The least value; None where there is no bound."""
    high: float | None = None
    """The greatest value, itself included; None where there is no bound."""
    role: str = "number"
    """One of `ROLES`."""
    keeps: bool = True
    """For masks: whether 1 stands for a position that is used, and 0 for padding."""

    def intersect(self, other: InputRange) -> InputRange:
        """What both ranges have in common; this one where that is nothing."""
        low = _tighter(max, self.low, other.low)
        high = _tighter(min, self.high, other.high)
        if low is not None and high is not None and low > high:
            return self
        role = self.role if self._precedes(other) else other.role
        return InputRange(low, high, role, self.keeps and other.keeps)

    def _precedes(self, other: InputRange) -> bool:
        """Whether the role of this range says more than that of another."""
        return self.role != "number" and other.role != "ordered"


def _tighter(choose: object, a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return b if a is None else a
    assert callable(choose)
    found: float = choose(a, b)
    return found
