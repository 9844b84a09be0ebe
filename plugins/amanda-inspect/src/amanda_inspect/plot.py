"""A plot of measurements: medians as bars, with quartiles and every call."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from amanda.errors import PluginMissingError, UsageError
from amanda.files import replace_file
from amanda_inspect.benchmarking import Measurement

__all__ = ["plot_measurements", "svg_text"]

_WIDTH: Final = 760
_LEFT: Final = 210
_RIGHT: Final = _WIDTH - 100
"""The end of the axis; medians are written beside it."""
_ROW: Final = 44
_TOP: Final = 48
_TICKS: Final = 5
_FONT: Final = "font-family='sans-serif'"


def plot_measurements(path: str, title: str, found: Sequence[Measurement]) -> None:
    """Write a plot: .svg, or .png if matplotlib is installed."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".svg", ".png"):
        raise UsageError(
            "a plot is .svg or .png", who=path, expected=".svg or .png",
            got=suffix or "no suffix",
        )  # fmt: skip
    content = svg_text(title, found).encode() if suffix == ".svg" else b""
    with replace_file(Path(path)) as file:
        file.write(content or _png(title, found))


def svg_text(title: str, found: Sequence[Measurement]) -> str:
    """The plot as SVG: the shorter the bar, the faster the backend."""
    most = _axis_end(max(each.quartiles[1] for each in found) * 1e3)
    scale = (_RIGHT - _LEFT) / most
    height = _TOP + _ROW * len(found) + 60
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height}' "
        f"viewBox='0 0 {_WIDTH} {height}'>",
        "<rect width='100%' height='100%' fill='white'/>",
        f"<text x='16' y='26' {_FONT} font-size='16'>{escape(title)}</text>",
    ]
    lines += _axis(most, scale, _TOP + _ROW * len(found))
    lines.append(
        f"<text x='{_LEFT}' y='{height - 12}' {_FONT} font-size='12' fill='#666666'>"
        "bar: median; orange: quartiles; black: calls, slower ones at the edge</text>"
    )
    for i, each in enumerate(found):
        lines += _bar(each, _TOP + _ROW * i, scale)
    return "\n".join([*lines, "</svg>", ""])


def _axis_end(most: float) -> float:
    """A round number of milliseconds from `most` on.

    >>> _axis_end(7.3), _axis_end(0.021)
    (8.0, 0.025)
    """
    size = 1.0
    while size > most:
        size /= 10
    while size * 10 <= most:
        size *= 10
    ends = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next((size * end for end in ends if size * end >= most), most or 1.0)


def _axis(most: float, scale: float, bottom: float) -> list[str]:
    lines = []
    for i in range(_TICKS + 1):
        value = most * i / _TICKS
        x = _LEFT + value * scale
        lines += [
            f"<line x1='{x:.1f}' y1='{_TOP - 8}' x2='{x:.1f}' y2='{bottom}' "
            "stroke='#dddddd'/>",
            f"<text x='{x:.1f}' y='{bottom + 18}' {_FONT} font-size='12' "
            f"text-anchor='middle'>{value:.3g}{' ms' if i == _TICKS else ''}</text>",
        ]
    return lines


def _bar(found: Measurement, top: float, scale: float) -> list[str]:
    """A bar to the median, a line between the quartiles, and a mark for each call."""
    low, high = (value * 1e3 for value in found.quartiles)
    median, middle = found.median * 1e3, top + _ROW / 2
    marks = (min(_LEFT + call * 1e3 * scale, _RIGHT) for call in found.calls)
    return [
        f"<text x='{_LEFT - 10}' y='{middle + 4:.1f}' {_FONT} font-size='13' "
        f"text-anchor='end'>{escape(str(found.backend))}</text>",
        f"<rect x='{_LEFT}' y='{top + 8:.1f}' width='{median * scale:.1f}' "
        f"height='{_ROW - 16}' fill='#9dbbd8'/>",
        *(f"<line x1='{x:.1f}' y1='{middle - 8:.1f}' x2='{x:.1f}' "
          f"y2='{middle + 8:.1f}' stroke='#222222' stroke-opacity='0.5'/>"
          for x in marks),
        f"<line x1='{_LEFT + low * scale:.1f}' y1='{middle:.1f}' "
        f"x2='{_LEFT + high * scale:.1f}' y2='{middle:.1f}' stroke='#e07b39' "
        "stroke-width='4'/>",
        f"<text x='{_WIDTH - 16}' y='{middle + 4:.1f}' {_FONT} font-size='13' "
        f"text-anchor='end'>{median:.3g} ms</text>",
    ]  # fmt: skip


def _png(title: str, found: Sequence[Measurement]) -> bytes:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise PluginMissingError(
            "plots in .png are drawn by matplotlib, which is not installed",
            hint="pip install matplotlib, or name a .svg file",
        ) from None
    import io

    names = [str(each.backend) for each in found]
    medians = [each.median * 1e3 for each in found]
    spread = [
        [m - each.quartiles[0] * 1e3 for m, each in zip(medians, found, strict=True)],
        [each.quartiles[1] * 1e3 - m for m, each in zip(medians, found, strict=True)],
    ]
    figure = Figure(figsize=(8, 1.2 + 0.5 * len(found)), layout="constrained")
    axes = FigureCanvasAgg(figure).figure.add_subplot()
    axes.barh(names, medians, xerr=spread, ecolor="#e07b39", color="#9dbbd8")
    axes.invert_yaxis()
    axes.set_xlabel("ms, median with quartiles")
    axes.set_title(title)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120)
    return out.getvalue()
