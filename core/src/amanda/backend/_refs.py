"""Feeds of `ref<>` inputs: memory of the caller that a graph reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amanda.backend._feeds import feed_faults
from amanda.backend._protocols import FeedSlot, Key
from amanda.errors import UsageError
from amanda.types import RefType

__all__ = ["ArrayCell", "ref_slots", "with_cells"]


class ArrayCell:
    """An array of the caller as a variable: assigning writes to it in place."""

    def __init__(self, key: Key, array: Any) -> None:
        self.key = key
        self._array = array

    def read(self) -> Any:
        """The value now; a later assignment does not change it."""
        return self._array.copy()

    def assign(self, value: Any) -> Any:
        """Write to the array, whose dtype and shape do not change."""
        import numpy as np

        made = np.asarray(value)
        if made.dtype != self._array.dtype or made.shape != self._array.shape:
            raise UsageError(
                f"the array fed for {self.key!r} cannot hold what is assigned to it",
                expected=f"{self._array.dtype}{list(self._array.shape)}",
                got=f"{made.dtype}{list(made.shape)}",
            )
        np.copyto(self._array, made)
        return made


def with_cells(
    bound: dict[Key, Any], slots: Sequence[FeedSlot], state: Any
) -> dict[Key, Any]:
    """Feeds with a cell in the place of each array or key that is fed for a `ref<>`.

    A key, as text, is that of a variable in `state`; None where there is none.
    """
    for slot in slots:
        value = bound[slot.key]
        if isinstance(value, str):
            bound[slot.key] = _find_cell(slot, value, state)
        elif not callable(getattr(value, "assign", None)):
            bound[slot.key] = _make_cell(slot, value)
    return bound


def _find_cell(slot: FeedSlot, key: str, state: Any) -> Any:
    """The cell of a variable, whose type is checked."""
    if state is None or key not in state:
        known = ", ".join(map(repr, state or ())) or "none"
        raise UsageError(
            f"the variable {key!r} that is fed for {slot.key!r} is not in the state of "
            "this executable",
            expected=f"a key of its state: {known}",
            hint="set it first, state[key] = array, or compile with the state that "
            "has it: state=other.state",
        )
    cell = state.cell(key)
    _expect_element(slot, cell.read(), f"the variable {key!r}")
    return cell


def _make_cell(slot: FeedSlot, value: Any) -> ArrayCell:
    import numpy as np

    if not isinstance(value, np.ndarray):
        raise UsageError(
            f"this cannot be fed for {slot.key!r}, which is {slot.type}",
            expected="a writable array of numpy, or a variable: its cell, or its key "
            "in the state",
            got=type(value).__name__,
        )
    if not value.flags.writeable:
        raise UsageError(
            f"the array fed for {slot.key!r} is read-only, but the input is "
            f"{slot.type}",
            hint="feed a writable array, or a cell of a state",
        )
    _expect_element(slot, value, "the array")
    return ArrayCell(slot.key, value)


def _expect_element(slot: FeedSlot, value: Any, what: str) -> None:
    """Raise UsageError for a value of another type than the reference has."""
    element = getattr(slot.type, "element", None)
    faults, shared = feed_faults([FeedSlot(slot.key, element)], {slot.key: value})
    faults += shared
    if faults:
        raise UsageError(
            f"{what} cannot be fed for {slot.key!r}, which is {slot.type}",
            problems=faults,
        )


def ref_slots(slots: Sequence[FeedSlot]) -> tuple[FeedSlot, ...]:
    """The inputs that are references."""
    return tuple(slot for slot in slots if isinstance(slot.type, RefType))
