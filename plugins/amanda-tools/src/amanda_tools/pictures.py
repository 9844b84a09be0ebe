"""Pictures of reports, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

__all__ = ["Bar", "Interval", "draw_bars", "draw_intervals", "draw_shares"]

_LEFT: Final = 250
_BAR: Final = 300
_RIGHT: Final = 130
_ROW: Final = 18
_MOST: Final = 200
_COLOR: Final = "#2563eb"


class Bar(NamedTuple):
    name: str
    value: float
    label: str


class Interval(NamedTuple):
    name: str
    low: float
    high: float


def draw_bars(bars: Sequence[Bar], largest: float | None = None) -> str | None:
    """A bar for each name, in this order; None without bars.

    `largest` is the value of a bar over the whole width."""
    shown = bars[:_MOST]
    top = max((bar.value for bar in shown), default=0.0) if largest is None else largest
    parts = [
        f'<rect x="{_LEFT}" y="{i * _ROW + 3}" width="{_BAR}" height="{_ROW - 6}" '
        'fill="#8882"/>'
        f'<rect x="{_LEFT}" y="{i * _ROW + 3}" height="{_ROW - 6}" fill="{_COLOR}" '
        f'width="{_BAR * min(max(bar.value / (top or 1.0), 0.0), 1.0):.1f}"/>'
        f"{_texts(i, bar.name, bar.label)}"
        for i, bar in enumerate(shown)
    ]
    return _svg(parts)


def draw_shares(rows: Sequence[tuple[str, float]]) -> str | None:
    """A bar for each name and share of 1."""
    return draw_bars([Bar(name, share, f"{share:.1%}") for name, share in rows], 1.0)


def draw_intervals(intervals: Sequence[Interval]) -> str | None:
    """The interval of each name, on an axis that is logarithmic but near zero."""
    shown = [i for i in intervals if math.isfinite(i.low + i.high)][:_MOST]
    top = max((max(-i.low, i.high) for i in shown), default=0.0)
    if not shown:
        return None
    middle = _LEFT + _BAR / 2
    axis = f'<path d="M{middle} 0v{len(shown) * _ROW}" stroke="#8888"/>'
    parts = [axis]
    for i, (name, low, high) in enumerate(shown):
        start, end = (middle + _BAR / 2 * _near_log(x, top) for x in (low, high))
        parts.append(
            f'<rect x="{start:.1f}" y="{i * _ROW + 3}" height="{_ROW - 6}" '
            f'width="{max(end - start, 1):.1f}" fill="{_COLOR}"/>'
            f"{_texts(i, name, f'{low:.3g} to {high:.3g}')}"
        )
    return _svg(parts)


def _near_log(value: float, top: float) -> float:
    """A value on an axis from -1 to 1, linear below a thousandth of the largest."""
    scale = (top or 1.0) / 1000
    return math.copysign(math.log1p(abs(value) / scale) / math.log1p(1000), value)


def _texts(row: int, name: str, label: str) -> str:
    y = row * _ROW + 13
    return (
        f'<text x="{_LEFT - 6}" y="{y}" text-anchor="end">{escape(name[-40:])}</text>'
        f'<text x="{_LEFT + _BAR + 6}" y="{y}">{escape(label)}</text>'
    )


def _svg(rows: Sequence[str]) -> str | None:
    if not rows:
        return None
    width, height = _LEFT + _BAR + _RIGHT, len(rows) * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" font-family="sans-serif" font-size="11" '
        f'fill="currentColor">{"".join(rows)}</svg>'
    )
