"""Layouts of values and kernels, as the hub writes them."""

from __future__ import annotations

__all__ = ["expand_layout"]


def expand_layout(layout: str, rank: int) -> str:
    """A layout with a letter for each axis: `OI*` of rank 4 is `OI**`."""
    return layout.replace("*", "*" * (rank - len(layout) + 1))
