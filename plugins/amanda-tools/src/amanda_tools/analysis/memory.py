"""The tool `memory`: bytes of weights and activations, and what bounds each op."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from amanda.backend import estimate_memory, type_bytes
from amanda.graph import set_dims
from amanda.instrument import Instrumentation, Observation, Report, Site, Tool
from amanda.types import Dim
from amanda_std.backends import infer
from amanda_tools.analysis.flops import graph_costs

__all__ = ["Memory"]

_SIZE: Final = (560, 320)


class Memory(Tool):
    """Bytes of each op's output and weights, the peak, and the roofline.

    Sizes that are symbolic stay so; `sizes` sets some of them. For ops of known sizes,
    the intensity is FLOPs per byte that the op reads or writes. With `peak_flops` (per
    second) and `bandwidth` (bytes per second) of a machine, each op is bound by one of
    the two, and the least time of the model follows.
    """

    name = "memory"

    def __init__(
        self,
        *,
        sizes: Mapping[str, int] | None = None,
        peak_flops: float | None = None,
        bandwidth: float | None = None,
    ) -> None:
        self.sizes = dict(sizes or {})
        self.peak_flops = peak_flops
        self.bandwidth = bandwidth

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Record the bytes of all ops, and the totals."""
        if self.sizes:
            set_dims(instrumentation.graph, self.sizes)
            infer(instrumentation.graph)
        costs, _ = graph_costs(instrumentation.graph)
        least = 0.0
        for site in instrumentation.sites():
            moved = self._record_bytes(site)
            flops = costs[site.op].flops if site.op in costs else 0
            if isinstance(moved, int) and moved and isinstance(flops, int) and flops:
                site.record("intensity", flops / moved)
                least += self._record_bound(site, flops, moved)
        found = estimate_memory(instrumentation.graph)
        summary: dict[str, object] = {
            "weight bytes": found.weights, "peak bytes": found.peak,
            "peak at": found.peak_at or "", "values of unknown size": found.unknown,
        }  # fmt: skip
        if least:
            summary["least seconds"] = least
        instrumentation.report.summary |= summary

    def _record_bytes(self, site: Site) -> Dim | None:
        """Record the bytes of an op; returns how many it reads and writes."""
        outputs = [type_bytes(port.type) for port in site.op.outputs]
        read = [port for port in site.op.inputs if port is not None]
        weights = [type_bytes(p.type) for p in read if p.op.is_constant]
        values = [type_bytes(p.type) for p in read if not p.op.is_constant]
        if any(size is None for size in (*outputs, *weights, *values)):
            return None
        written = _total(outputs)
        site.record("output bytes", written)
        if weights:
            site.record("weight bytes", _total(weights))
        moved: Dim = written + _total(weights) + _total(values)
        return moved

    def _record_bound(self, site: Site, flops: int, moved: int) -> float:
        """Record what bounds an op; returns its least time in seconds."""
        if not self.peak_flops or not self.bandwidth:
            return 0.0
        compute, traffic = flops / self.peak_flops, moved / self.bandwidth
        site.record("bound", "compute" if compute > traffic else "memory")
        return max(compute, traffic)

    def picture(self, report: Report) -> str | None:
        """The roofline: intensity of each op, and what the machine allows there."""
        rows = report.select("intensity", tool=self.name)
        if not rows or not self.peak_flops or not self.bandwidth:
            return None
        return _roofline(rows, self.peak_flops, self.bandwidth)


def _total(sizes: list[Dim | None]) -> Any:
    total: Any = 0
    for size in sizes:
        total = total + size
    return total


def _roofline(rows: list[Observation], peak: float, bandwidth: float) -> str:
    """Intensity against FLOPs per second, on logarithmic axes."""
    width, height = _SIZE
    values = [max(float(row.value), 1e-3) for row in rows]
    ridge = peak / bandwidth
    low = math.log10(min(*values, ridge) / 2)
    high = math.log10(max(*values, ridge) * 2)
    bottom = math.log10(10**low * bandwidth)
    top = math.log10(peak * 2)

    def place(intensity: float, flops: float) -> tuple[float, float]:
        x = 50 + (math.log10(intensity) - low) / (high - low) * (width - 70)
        y = height - 30 - (math.log10(flops) - bottom) / (top - bottom) * (height - 50)
        return x, y

    roof = [
        place(10**low, 10**low * bandwidth),
        place(ridge, peak),
        place(10**high, peak),
    ]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in roof)
    dots = []
    for row, value in zip(rows, values, strict=True):
        x, y = place(value, min(peak, value * bandwidth))
        color = "#dc2626" if value < ridge else "#2563eb"
        dots.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}" '
            f'fill-opacity=".6"><title>{escape(row.op)}: {value:.3g}</title></circle>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" font-family="sans-serif" font-size="11" fill="currentColor">'
        f'<polyline points="{points}" fill="none" stroke="#888" stroke-width="2"/>'
        f'{"".join(dots)}<text x="{width - 10}" y="{height - 8}" text-anchor="end">'
        "FLOPs per byte (red: bound by memory, blue: by compute)</text>"
        f'<text x="50" y="14">{peak:.3g} FLOP/s</text></svg>'
    )
