"""Ranges of values from example inputs, and the scales that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from amanda import run
from amanda.errors import UsageError
from amanda.graph import Graph, OutputPort
from amanda_std import Value, ops

__all__ = ["METHODS", "Levels", "calibrate", "weight_levels"]

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Any] | Sequence[Any]

_BINS: Final = 2048
_CANDIDATES: Final = 100
METHODS: Final = ("minmax", "percentile", "entropy", "mse")
"""How the range of an activation is chosen from its histogram."""


class Levels(NamedTuple):
    """Quantization levels: (q - zero_point) * scale for q in a type's range."""

    scale: Array
    zero_point: Array
    """Of the quantized type."""
    axis: int | None = None
    """The axis that a scale for each channel is along."""


def calibrate(
    graph: Graph,
    ports: Sequence[OutputPort],
    data: Sequence[Feeds],
    method: str,
    backend: str,
    *,
    symmetric: bool,
    percentile: float,
) -> list[Levels]:
    """The levels of 8-bit activations, from runs on example inputs."""
    if not data:
        raise UsageError(
            "static quantization needs example inputs",
            hint="amanda.apply(graph, Quantise(), data=[feeds, ...]), or "
            "`amanda instrument FILE --tool quantise --feed DATA`",
        )
    if method not in METHODS:
        raise UsageError(
            f"there is no calibration {method!r}", expected=" or ".join(METHODS)
        )
    lows, highs = _extremes(graph, ports, data, backend)
    if method == "minmax":
        limits = list(zip(lows, highs, strict=True))
    else:
        counts = _histograms(graph, ports, data, backend, lows, highs)
        limits = [
            _limits(method, each, low, high, percentile)
            for each, low, high in zip(counts, lows, highs, strict=True)
        ]
    return [_activation_levels(low, high, symmetric) for low, high in limits]


def _with_results(
    graph: Graph, ports: Sequence[OutputPort], functions: Sequence[Any]
) -> Graph:
    """A copy of a graph whose results are functions of some of its values."""
    memo: dict[Any, Any] = {}
    copy = graph.clone(memo=memo)
    for index in reversed(range(len(copy.results))):
        copy.remove_result(index)
    for i, port in enumerate(ports):
        for j, function in enumerate(functions):
            copy.result(function(i, Value(memo[port])).port, f"{i}.{j}")
    return copy


def _extremes(
    graph: Graph, ports: Sequence[OutputPort], data: Sequence[Feeds], backend: str
) -> tuple[list[float], list[float]]:
    copy = _with_results(
        graph, ports, [lambda _, x: ops.min(x), lambda _, x: ops.max(x)]
    )
    rows = [[float(v) for v in run(copy, f, backend=backend).values()] for f in data]
    low, high = np.min(rows, axis=0)[::2], np.max(rows, axis=0)[1::2]
    return low.tolist(), high.tolist()


def _histograms(
    graph: Graph,
    ports: Sequence[OutputPort],
    data: Sequence[Feeds],
    backend: str,
    lows: Sequence[float],
    highs: Sequence[float],
) -> list[Array]:
    def count(i: int, x: Any) -> Any:
        return ops.histogram(x, lows[i], max(highs[i], lows[i] + 1e-9), _BINS)

    copy = _with_results(graph, ports, [count])
    totals = [np.zeros(_BINS, "int64") for _ in ports]
    for feeds in data:
        found = run(copy, feeds, backend=backend).values()
        totals = [a + np.asarray(b) for a, b in zip(totals, found, strict=True)]
    return totals


def _limits(
    method: str, counts: Array, low: float, high: float, percentile: float
) -> tuple[float, float]:
    """The part of a range that is worth its levels."""
    if high <= low:
        return low, high
    centers = low + (np.arange(_BINS) + 0.5) * (high - low) / _BINS
    if method == "percentile":
        share = np.cumsum(counts) / max(counts.sum(), 1)
        tail = (1 - percentile / 100) / 2
        inside = np.flatnonzero((share >= tail) & (share <= 1 - tail))
        if len(inside) == 0:
            return low, high
        return float(centers[inside[0]]), float(centers[inside[-1]])
    best = min(
        (_loss(method, counts, centers, low * part, high * part), part)
        for part in np.linspace(1 / _CANDIDATES, 1, _CANDIDATES)
    )
    return low * best[1], high * best[1]


def _loss(method: str, counts: Array, centers: Array, low: float, high: float) -> float:
    """The squared error, or the divergence, of a histogram that is quantized."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / 255 or 1.0
    steps = np.clip(np.round((centers - low) / scale), 0, 255)
    if method == "mse":
        return float(np.sum(counts * (low + steps * scale - centers) ** 2))
    return _divergence(counts, steps.astype("int64"), centers, low, high)


def _divergence(
    counts: Array, steps: Array, centers: Array, low: float, high: float
) -> float:
    """The divergence of the levels from the values, those outside at the edges."""
    places = np.flatnonzero((centers >= low) & (centers <= high))
    if len(places) == 0:
        return float("inf")
    inside = np.zeros(len(counts))
    inside[places] = counts[places]
    p = inside.copy()
    p[places[0]] += counts[: places[0]].sum()
    p[places[-1]] += counts[places[-1] + 1 :].sum()
    # each level stands for the bins in it that have values, alike
    weights = np.bincount(steps, inside, 256)
    filled = np.bincount(steps, inside > 0, 256)
    spread = np.divide(weights, filled, out=np.zeros(256), where=filled > 0)
    q = np.where(inside > 0, spread[steps], 0.0)
    p, q = p / max(p.sum(), 1), q / max(q.sum(), 1)
    chosen = p > 0
    return float(np.sum(p[chosen] * np.log(p[chosen] / np.maximum(q[chosen], 1e-6))))


def _activation_levels(low: float, high: float, symmetric: bool) -> Levels:
    """Levels of uint8, or of int8 around zero; zero is always a level."""
    low, high = min(low, 0.0), max(high, 0.0)
    if symmetric:
        scale = max(-low, high) / 127 or 1.0
        return Levels(np.asarray(scale, "float32"), np.asarray(0, "int8"))
    scale = (high - low) / 255 or 1.0
    zero = int(np.clip(round(-low / scale), 0, 255))
    return Levels(np.asarray(scale, "float32"), np.asarray(zero, "uint8"))


def weight_levels(
    weight: Array, axis: int | None, bits: int = 8, block: int = 0
) -> Levels:
    """Symmetric levels of a weight, for each channel along an axis or for the whole."""
    highest = 2 ** (bits - 1) - 1
    if axis is None:
        largest: Array = np.max(np.abs(weight), initial=0.0)
    elif block:
        parts = np.moveaxis(np.abs(weight), axis, -1)
        padding = -parts.shape[-1] % block
        parts = np.pad(parts, [(0, 0)] * (parts.ndim - 1) + [(0, padding)])
        parts = parts.reshape(*parts.shape[:-1], -1, block).max(-1)
        largest = np.moveaxis(parts, -1, axis)
    else:
        others = tuple(i for i in range(weight.ndim) if i != axis)
        largest = np.max(np.abs(weight), axis=others, initial=0.0)
    scale = np.where(largest > 0, largest / highest, 1.0).astype("float32")
    return Levels(scale, np.zeros(scale.shape, "int8"), axis)
