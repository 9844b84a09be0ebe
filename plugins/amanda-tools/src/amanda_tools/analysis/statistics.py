"""The tool `statistics`: the distribution of the values of each op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from amanda.graph import OutputPort
from amanda.instrument import Instrumentation, Report, Site, Tool
from amanda.types import TensorType
from amanda_std import ops
from amanda_tools.analysis.selection import chosen_sites, is_float_tensor

__all__ = ["Statistics"]

_COLUMNS: Final = 4
_WIDTH, _HEIGHT = 180, 90


class Statistics(Tool):
    """Mean, standard deviation, extremes, share of zeros and histogram of each op.

    All are computed where the model runs. `types`, `names` and `scope` choose ops, by
    shell patterns. `bins` is the number of bins of the histogram, between the extremes
    of the run; 0 for none. `percentiles` are percentages, computed by sorting.
    `channel_axis` adds the same of each channel along an axis: means, largest
    magnitudes, shares of zeros, and the histograms and percentiles that are asked for.
    Means are over all runs, histograms and percentiles are those of the last one.
    """

    name = "statistics"

    def __init__(
        self,
        *,
        types: Sequence[str] | str | None = None,
        names: Sequence[str] | str | None = None,
        scope: str | None = None,
        bins: int = 0,
        percentiles: Sequence[float] = (),
        channel_axis: int | None = None,
    ) -> None:
        self.types, self.names, self.scope = types, names, scope
        self.bins = bins
        self.percentiles = tuple(percentiles)
        self.channel_axis = channel_axis

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Observe the outputs of floats."""
        for site in chosen_sites(instrumentation, self.types, self.names, self.scope):
            for index, port in enumerate(site.op.outputs):
                if is_float_tensor(port):
                    with site.insertion_point():
                        self._observe(site, port, f" {index}" if index else "")

    def _observe(self, site: Site, port: OutputPort, suffix: str) -> None:
        x = site.outputs[port.index]
        mean = ops.mean(x)
        is_zero = ops.astype(ops.equal(x, 0.0), dtype="float32")
        low, high = ops.min(x), ops.max(x)
        site.observe(f"mean{suffix}", mean, "mean")
        difference = ops.subtract(x, mean)  # E[x^2] - E[x]^2 would cancel
        variance = ops.mean(ops.multiply(difference, difference))
        site.observe(f"std{suffix}", ops.sqrt(variance), "mean")
        site.observe(f"min{suffix}", low, "min")
        site.observe(f"max{suffix}", high, "max")
        site.observe(f"zeros{suffix}", ops.mean(is_zero), "mean")
        if self.bins:
            counts = ops.histogram(x, low, high, self.bins)
            site.observe(f"histogram{suffix}", counts)
        if self.percentiles:
            site.observe(f"percentiles{suffix}", self._percentiles(x))
        if self.channel_axis is not None:
            self._observe_channels(site, port, x, suffix)
            self._observe_channel_rows(site, port, x, suffix)

    def _percentiles(self, x: Any) -> Any:
        """The nearest elements of the sorted values."""
        flat = ops.sort(ops.reshape(x, (-1,)))
        last = ops.subtract(ops.astype(ops.size(flat), dtype="float64"), 1.0)
        places = ops.multiply(np.asarray(self.percentiles, "float64") / 100.0, last)
        return ops.gather(flat, ops.astype(ops.round(places), dtype="int64"))

    def _observe_channels(
        self, site: Site, port: OutputPort, x: Any, suffix: str
    ) -> None:
        type_ = port.type
        axis = self.channel_axis
        assert axis is not None
        if not isinstance(type_, TensorType) or not type_.shape.has_rank:
            return
        rank = type_.shape.rank
        if not -rank <= axis < rank:
            return
        others = tuple(i for i in range(rank) if i != axis % rank)
        site.observe(f"channel means{suffix}", ops.mean(x, axes=others), "mean")
        largest = ops.max(ops.abs(x), axes=others)
        site.observe(f"channel magnitudes{suffix}", largest, "max")
        is_zero = ops.astype(ops.equal(x, 0.0), dtype="float32")
        site.observe(f"channel zeros{suffix}", ops.mean(is_zero, axes=others), "mean")

    def _observe_channel_rows(
        self, site: Site, port: OutputPort, x: Any, suffix: str
    ) -> None:
        """What is computed from each channel as a row, if their number is known."""
        dims = getattr(getattr(port.type, "shape", None), "dims", None) or ()
        axis = self.channel_axis
        if axis is None or not -len(dims) <= axis < len(dims):
            return
        axis %= len(dims)
        channels = dims[axis]
        if not isinstance(channels, int):
            return
        order = (axis, *(i for i in range(len(dims)) if i != axis))
        rows = ops.reshape(ops.transpose(x, perm=order), (channels, -1))
        if self.bins:
            counts = _histograms(rows, channels, self.bins)
            site.observe(f"channel histograms{suffix}", counts)
        if self.percentiles:
            ordered = ops.sort(rows, axis=-1)
            last = ops.subtract(ops.astype(ops.dim(rows, axis=1), dtype="float64"), 1.0)
            shares = np.asarray(self.percentiles, "float64") / 100.0
            places = ops.astype(ops.round(ops.multiply(shares, last)), dtype="int64")
            found = ops.gather(ordered, places, axis=1)
            site.observe(f"channel percentiles{suffix}", found)

    def picture(self, report: Report) -> str | None:
        """The histograms as small multiples, if there are any."""
        rows = report.select("histogram", tool=self.name)
        low = {row.op: row.value for row in report.select("min", tool=self.name)}
        high = {row.op: row.value for row in report.select("max", tool=self.name)}
        if not rows:
            return None
        parts = [
            _bars(i, row.op, np.asarray(row.value), float(low[row.op]),
                  float(high[row.op]))
            for i, row in enumerate(rows)
        ]  # fmt: skip
        width = _COLUMNS * (_WIDTH + 16)
        height = -(-len(rows) // _COLUMNS) * (_HEIGHT + 40)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" font-family="sans-serif" font-size="10" '
            f'fill="currentColor">{"".join(parts)}</svg>'
        )


def _histograms(rows: Any, channels: int, bins: int) -> Any:
    """Histograms of rows, all between the extremes of all of them.

    Bins of all rows are numbered one after the other, and counted as one histogram."""
    low, high = ops.min(rows), ops.max(rows)
    wide = ops.astype(ops.subtract(rows, low), dtype="float64")
    span = ops.astype(ops.subtract(high, low), dtype="float64")
    share = ops.where(ops.greater(span, 0.0), ops.divide(wide, span), 0.0)
    places = ops.clip(ops.floor(ops.multiply(share, float(bins))), 0.0, bins - 1.0)
    starts = np.arange(channels, dtype="float64")[:, None] * bins + 0.5
    total = channels * bins
    counts = ops.histogram(
        ops.add(places, starts), np.float64(0), np.float64(total), total
    )
    return ops.reshape(counts, (channels, bins))


def _bars(
    number: int, title: str, counts: np.ndarray[Any, Any], low: float, high: float
) -> str:
    """One histogram, at its place in the grid."""
    from html import escape

    left = number % _COLUMNS * (_WIDTH + 16)
    top = number // _COLUMNS * (_HEIGHT + 40) + 14
    step = _WIDTH / max(len(counts), 1)
    tallest = max(int(counts.max(initial=0)), 1)
    bars = "".join(
        f'<rect x="{left + i * step:.1f}" y="{top + _HEIGHT * (1 - n / tallest):.1f}" '
        f'width="{step * 0.9:.1f}" height="{_HEIGHT * n / tallest:.1f}" '
        'fill="#2563eb"/>'
        for i, n in enumerate(counts.tolist())
    )
    base = top + _HEIGHT
    return (
        f'<text x="{left}" y="{top - 4}">{escape(title[:30])}</text>{bars}'
        f'<path d="M{left} {base}h{_WIDTH}" stroke="#888"/>'
        f'<text x="{left}" y="{base + 12}">{low:.3g}</text>'
        f'<text x="{left + _WIDTH}" y="{base + 12}" text-anchor="end">{high:.3g}</text>'
    )
