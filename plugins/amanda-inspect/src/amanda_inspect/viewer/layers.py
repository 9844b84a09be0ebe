"""A layout of boxes in layers, for pictures that are written without a browser.

Layers by the longest path, order by barycenters, positions near the mean of neighbors:
the method of Sugiyama, with dummy boxes where an edge crosses layers. It is a small
fraction of what the library of the page does, which needs a browser.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Box", "Layers", "place_boxes"]

SWEEPS: Final = 4
GAP: Final = 22.0
LAYER_GAP: Final = 34.0
DUMMY_WIDTH: Final = 6.0


@dataclass(eq=False)
class Box:
    """A box with the position of its center."""

    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)


@dataclass
class Layers:
    """Boxes that have positions, and the ways of edges through the layers."""

    width: float
    height: float
    ways: dict[tuple[int, int], list[Box]]
    """The dummy boxes of an edge, from its source to its target."""


def place_boxes(boxes: Mapping[int, Box], edges: Iterable[tuple[int, int]]) -> Layers:
    """Set the positions of boxes; edges lead from lower to higher numbers.

    Other edges do not count for the layers; they are drawn as they come.

    >>> boxes = {i: Box(10, 10) for i in range(3)}
    >>> layers = place_boxes(boxes, [(0, 1), (0, 2)])
    >>> boxes[1].y == boxes[2].y > boxes[0].y, boxes[1].x < boxes[2].x
    (True, True)
    """
    forward = sorted({(a, b) for a, b in edges if a < b})
    ranks = _ranks(boxes, forward)
    layers: list[list[Box]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for i, rank in ranks.items():
        layers[rank].append(boxes[i])
    ways = {edge: _add_way(boxes, edge, ranks, layers) for edge in forward}
    for k in range(SWEEPS):
        _sort_layers(layers if k % 2 == 0 else layers[::-1], down=k % 2 == 0)
    return Layers(_set_columns(layers), _set_rows(layers), ways)


def _ranks(
    boxes: Mapping[int, Box], edges: Sequence[tuple[int, int]]
) -> dict[int, int]:
    """The layer of each box: one below the lowest that it reads.

    A box that reads none is right above the first that reads it.
    """
    sources, readers = defaultdict(list), defaultdict(list)
    for a, b in edges:
        sources[b].append(a)
        readers[a].append(b)
    ranks: dict[int, int] = {}
    for i in sorted(boxes):
        ranks[i] = max((ranks[a] + 1 for a in sources[i]), default=0)
    for i in [i for i in boxes if not sources[i]]:
        ranks[i] = min((ranks[b] - 1 for b in readers[i]), default=0)
    return ranks


def _add_way(
    boxes: Mapping[int, Box],
    edge: tuple[int, int],
    ranks: Mapping[int, int],
    layers: list[list[Box]],
) -> list[Box]:
    """Link two boxes by a dummy box in each layer between them."""
    a, b = edge
    way = []
    last = boxes[a]
    for rank in range(ranks[a] + 1, ranks[b]):
        dummy = Box(DUMMY_WIDTH, 0)
        layers[rank].append(dummy)
        _link(last, dummy)
        way.append(dummy)
        last = dummy
    _link(last, boxes[b])
    return way


def _link(above: Box, below: Box) -> None:
    above.below.append(below)
    below.above.append(above)


def _sort_layers(layers: Sequence[list[Box]], *, down: bool) -> None:
    """Sort each layer by the mean place of the neighbors in the layer before."""
    for before, layer in itertools.pairwise(layers):
        places = {box: i for i, box in enumerate(before)}

        def mean(box: Box, places: Mapping[Box, int] = places) -> float:
            near = [places[n] for n in (box.above if down else box.below)]
            return sum(near) / len(near) if near else float(len(places))

        layer.sort(key=mean)


def _set_columns(layers: Sequence[list[Box]]) -> float:
    """Set x of all boxes; returns the width."""
    for layer in layers:
        _place_in_order(layer, [0.0] * len(layer))
    for k in range(SWEEPS):
        for layer in layers if k % 2 == 0 else reversed(layers):
            near = [(box.above if k % 2 == 0 else box.below) or [box] for box in layer]
            _place_in_order(layer, [sum(n.x for n in row) / len(row) for row in near])
    every = [box for layer in layers for box in layer]
    left = min((box.x - box.width / 2 for box in every), default=0.0)
    for box in every:
        box.x -= left
    return max((box.x + box.width / 2 for box in every), default=0.0)


def _place_in_order(layer: Sequence[Box], wanted: Sequence[float]) -> None:
    """Place boxes in order without overlap, on average where they are wanted."""
    edge = float("-inf")
    for box, x in zip(layer, wanted, strict=True):
        box.x = max(x, edge + box.width / 2)
        edge = box.x + box.width / 2 + GAP
    if layer:
        shift = sum(b.x - x for b, x in zip(layer, wanted, strict=True)) / len(layer)
        for box in layer:
            box.x -= shift


def _set_rows(layers: Sequence[list[Box]]) -> float:
    """Set y of all boxes; returns the height."""
    top = 0.0
    for layer in layers:
        height = max(box.height for box in layer)
        for box in layer:
            box.y = top + height / 2
        top += height + LAYER_GAP
    return max(0.0, top - LAYER_GAP)
