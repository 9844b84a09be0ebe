"""Feeds of `ref<>` inputs: memory of the caller that a graph reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def with_cells(bound: dict[Key, Any], slots: Sequence[FeedSlot]) -> dict[Key, Any]:
    """Feeds with a cell in the place of each array that is fed for a `ref<>`."""
    import numpy as np

    for slot in slots:
        value = bound[slot.key]
        if callable(getattr(value, "assign", None)):
            continue  # a cell
        if not isinstance(value, np.ndarray):
            raise UsageError(
                f"this cannot be fed for {slot.key!r}, which is {slot.type}",
                expected="a writable array of numpy, or a cell of a state",
                got=type(value).__name__,
            )
        if not value.flags.writeable:
            raise UsageError(
                f"the array fed for {slot.key!r} is read-only, but the input is "
                f"{slot.type}",
                hint="feed a writable array, or a cell of a state",
            )
        bound[slot.key] = ArrayCell(slot.key, value)
    return bound


def ref_slots(slots: Sequence[FeedSlot]) -> tuple[FeedSlot, ...]:
    """The inputs that are references."""
    return tuple(slot for slot in slots if isinstance(slot.type, RefType))
