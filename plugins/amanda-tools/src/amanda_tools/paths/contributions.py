"""The smallest sets of terms that make up a share of their sum."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__ = ["CHUNK", "largest_terms"]

CHUNK: Final = 4_000_000
"""The number of terms that are held at a time."""
Array = np.ndarray[Any, Any]


def largest_terms(terms: Array, threshold: float) -> Array:
    """Which terms of each row are in the smallest set that sums to a share of the row.

    The share is that of the sum of the row; where the sum is not positive, of its
    positive terms. Only positive terms are in a set."""
    total = terms.sum(1)
    positive = np.maximum(terms, 0).sum(1)
    goal = threshold * np.where(total > 0, total, positive)
    order = np.argsort(-terms, axis=1, kind="stable")
    ordered = np.take_along_axis(terms, order, 1)
    before = np.cumsum(ordered, axis=1) - ordered
    needed = (before < goal[:, None]) & (ordered > 0)
    found = np.zeros(terms.shape, bool)
    np.put_along_axis(found, order, needed, 1)
    return found
