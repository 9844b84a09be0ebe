"""Pictures of reports, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

__all__ = ["share_bars"]

_BAR: Final = 220
_ROW: Final = 16
_MOST: Final = 200


def share_bars(rows: Sequence[tuple[str, float]]) -> str | None:
    """A bar for each name and share of 1, in this order; None without rows."""
    if not rows:
        return None
    parts = "".join(
        f'<text x="{_BAR + 8}" y="{i * _ROW + 12}">{escape(name[-48:])} {share:.1%}'
        f'</text><rect y="{i * _ROW + 2}" width="{_BAR}" height="{_ROW - 4}" '
        f'fill="#e5e7eb"/><rect y="{i * _ROW + 2}" width="{_BAR * share:.1f}" '
        f'height="{_ROW - 4}" fill="#2563eb"/>'
        for i, (name, share) in enumerate(rows[:_MOST])
    )
    width, height = _BAR + 400, min(len(rows), _MOST) * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" font-family="sans-serif" font-size="10" '
        f'fill="currentColor">{parts}</svg>'
    )
