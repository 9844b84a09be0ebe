"""Names that are not in use."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, count

__all__ = ["unused_name"]


def unused_name(stem: str, is_taken: Callable[[str], bool]) -> str:
    """`stem`, or the first of `stem_1`, `stem_2` ... that is not taken.

    >>> unused_name("y", {"y", "y_1"}.__contains__)
    'y_2'
    """
    names = chain([stem], (f"{stem}_{i}" for i in count(1)))
    return next(name for name in names if not is_taken(name))
