"""Histograms of constants, computed when the page is written."""

from __future__ import annotations

from typing import Any, Final

from amanda.tensors import Tensor

__all__ = ["Histograms"]

MAX_ELEMENTS: Final = 1 << 26
"""Elements of all constants of a page that are read."""
BINS: Final = 32
FEW: Final = 8
"""Constants of this many elements are shown in full."""


class Histograms:
    """Describes constants until a number of elements have been read."""

    def __init__(self, max_elements: int = MAX_ELEMENTS) -> None:
        self._left = max_elements
        self._known: dict[int, dict[str, Any]] = {}

    def describe(self, tensor: object) -> dict[str, Any] | None:
        """Size, range, moments and histogram of a tensor; None if it is no number."""
        if not isinstance(tensor, Tensor):
            return None
        found: dict[str, Any] = {"bytes": tensor.nbytes}
        if tensor.size > self._left:
            return {**found, "why": "not read: the limit of elements is reached"}
        known = self._known.get(id(tensor))
        if known is None:
            self._left -= tensor.size
            known = self._known[id(tensor)] = found | _statistics(tensor)
        return known


def _statistics(tensor: Tensor) -> dict[str, Any]:
    import numpy as np

    if tensor.dtype.kind in ("string", "bytes") or tensor.size == 0:
        return {}
    array = np.asarray(tensor.numpy()).reshape(-1)
    if np.issubdtype(array.dtype, np.complexfloating):
        return {}
    values = array.astype(np.float64)
    if len(values) <= FEW:
        return {"values": [_number(each) for each in values]}
    finite = values[np.isfinite(values)]
    found: dict[str, Any] = {
        "zeros": int(np.count_nonzero(values == 0)),
        "not_finite": len(values) - len(finite),
    }
    if len(finite):
        low, high = float(finite.min()), float(finite.max())
        counts = _bin_counts(finite, low, high)
        found |= {"least": low, "largest": high, "counts": counts}
        found |= {"mean": _number(finite.mean()), "deviation": _number(finite.std())}
    return found


def _bin_counts(values: Any, low: float, high: float) -> list[int]:
    """Counts in bins of equal width; one bin where all values are the same."""
    import numpy as np

    if not np.isfinite(high - low) or high - low < abs(high) * 1e-12:
        return [len(values)]
    return [int(n) for n in np.histogram(values, BINS, (low, high))[0]]


def _number(value: Any) -> float | str:
    """A number for JSON, which has none that are not finite."""
    import math

    number = float(value)
    return number if math.isfinite(number) else str(number)
