"""A graph as a static picture, with groups open to a depth."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from html import escape
from typing import Any, Final

from amanda_inspect.viewer.layers import Box, Layers, place_boxes
from amanda_inspect.viewer.nodes import Kind

__all__ = ["draw_graph"]

FIRST_VIEW: Final = 32
"""Nodes up to which groups are open where no depth is given."""
LONGEST: Final = 34
"""Characters of a line in a box."""
CHARACTER: Final = 6.9
HEADER, PADDING = 26.0, 16.0
STYLE: Final = """
text{font:11px system-ui,"Liberation Sans",sans-serif;fill:#1c2330;text-anchor:middle}
.t{font-weight:600;font-size:12px}.m{fill:#667085}.g text{text-anchor:start}
rect{fill:#fff;stroke:#c3cbd8}.g rect{fill:#e9edf3}.p rect{fill:#e3f0e6;stroke:#7fae8b}
.e{fill:none;stroke:#98a2b3;marker-end:url(#a)}#a path{fill:#98a2b3}
"""


def draw_graph(data: dict[str, Any], depth: int | None = None) -> str:
    """The picture of what a page shows first, or of groups open to a depth."""
    picture = _Picture(data, depth)
    inside = "".join(picture.draw())
    width, height = picture.size
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">'
        f"<title>{escape(data['head']['title'])}</title><style>{STYLE}</style>"
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0,0.5L8,4L0,7.5z"/></marker></defs>'
        f'<rect width="100%" height="100%" style="fill:#f4f5f7;stroke:none"/>'
        f"{inside}</svg>\n"
    )


class _Picture:
    def __init__(self, data: dict[str, Any], depth: int | None) -> None:
        self._data = data
        self._parents: list[int] = data["parent"]
        self._hidden = self._find_hidden()
        self._open = self._open_small() if depth is None else self._open_to(depth)
        self._shown = self._representatives()
        self._edges = self._edges_by_level()
        self._inner: dict[int, tuple[dict[int, Box], Layers]] = {}
        self.size = (0.0, 0.0)

    def _text(self, column: str, i: int) -> str:
        return str(self._data["strings"][self._data[column][i]])

    def _find_hidden(self) -> list[bool]:
        """Constants, and groups of nothing else."""
        kinds = self._data["kind"]
        hidden = [kind in (Kind.CONSTANT, Kind.GROUP) for kind in kinds]
        for i in range(len(kinds) - 1, 0, -1):
            if not hidden[i]:
                hidden[self._parents[i]] = False
        return hidden

    def _children(self, i: int) -> list[int]:
        ends, at, found = self._data["end"], i + 1, []
        while at < ends[i]:
            if not self._hidden[at]:
                found.append(at)
            at = ends[at]
        return found

    def _open_to(self, depth: int) -> set[int]:
        """The groups of the first levels."""
        found, level = {0}, [0]
        while level and depth > 1:
            inside = [c for i in level for c in self._children(i)]
            level = [c for c in inside if self._children(c)]
            found.update(level)
            depth -= 1
        return found

    def _open_small(self) -> set[int]:
        """Groups, one level after the other, while the picture stays small."""
        found: set[int] = set()
        level, shown = [0], 0
        while level:
            inside = [c for i in level for c in self._children(i)]
            is_lone = len(level) == 1 and len(inside) < 2 * FIRST_VIEW
            if level != [0] and not is_lone and shown + len(inside) > FIRST_VIEW:
                break
            found.update(level)
            shown += len(inside)
            level = [c for c in inside if self._children(c)]
        return found

    def _representatives(self) -> list[int]:
        """The outermost closed node around each node, or the node."""
        found = [0]
        for i in range(1, len(self._parents)):
            parent = self._parents[i]
            inside = found[parent] == parent and parent in self._open
            found.append(i if inside else found[parent])
        return found

    def _edges_by_level(self) -> dict[int, set[tuple[int, int]]]:
        """Edges between the children of each open group, which may be groups."""
        found: dict[int, set[tuple[int, int]]] = {i: set() for i in self._open}
        for i, row in enumerate(self._data["inputs"]):
            for source in row[::3]:
                if source >= 0 and not self._hidden[source]:
                    a, b = self._siblings(self._shown[source], self._shown[i])
                    if a != b:
                        found[self._parents[a]].add((a, b))
        return found

    def _siblings(self, a: int, b: int) -> tuple[int, int]:
        """The ancestors of two nodes in the innermost group that has both."""
        ends = self._data["end"]
        if a <= b < ends[a] or b <= a < ends[b]:
            return a, a  # one is inside of the other
        while not self._parents[a] <= b < ends[self._parents[a]]:
            a = self._parents[a]
        while self._parents[b] != self._parents[a]:
            b = self._parents[b]
        return a, b

    def draw(self) -> Iterator[str]:
        """The elements of the picture, outer groups first."""
        for i in sorted(self._open, reverse=True):
            self._place(i)
        width, height = self._box_size(0)
        self.size = (width, height - HEADER)
        yield from self._draw_inside(0, 0.0, -HEADER)

    def _place(self, group: int) -> None:
        boxes = {c: Box(*self._box_size(c)) for c in self._children(group)}
        self._inner[group] = (boxes, place_boxes(boxes, self._edges[group]))

    def _box_size(self, i: int) -> tuple[float, float]:
        lines = self._lines(i)
        width = max(64.0, max(map(len, lines)) * CHARACTER + 24)
        if i not in self._open:
            return width, 42.0 if lines[1] else 28.0
        layers = self._inner[i][1]
        sides = 2 * PADDING
        return max(width, layers.width + sides), layers.height + HEADER + sides

    def _lines(self, i: int) -> tuple[str, str]:
        """What is written on a box."""
        kind, label, type = self._data["kind"][i], *self._labels(i)
        if kind in (Kind.OP, Kind.REMOVED, Kind.GRAPH) and type:
            return _cut(type), _cut(label) if label != type else ""
        if kind in (Kind.GROUP, Kind.BODY, Kind.FUNCTION, Kind.GRAPH):
            count = sum(
                self._data["kind"][k] == Kind.OP for k in range(i, self._data["end"][i])
            )
            return _cut(label or "graph"), "1 op" if count == 1 else f"{count} ops"
        types = self._data["outputs"][i][1::2]
        return _cut(label), _cut(self._data["strings"][types[0]]) if types else ""

    def _labels(self, i: int) -> tuple[str, str]:
        return self._text("label", i), self._text("type", i)

    def _draw_inside(self, group: int, left: float, top: float) -> Iterator[str]:
        boxes, layers = self._inner[group]
        width = self._box_size(group)[0]
        x0 = left + (width - layers.width) / 2
        y0 = top + HEADER + PADDING
        for c, box in boxes.items():
            corner = x0 + box.x - box.width / 2, y0 + box.y - box.height / 2
            if c in self._open:
                yield self._group_element(c, *corner, box)
                yield from self._draw_inside(c, *corner)
            else:
                yield self._node_element(c, *corner, box)
        for edge in sorted(self._edges[group]):
            yield _edge_element(boxes, layers, edge, x0, y0)

    def _group_element(self, i: int, x: float, y: float, box: Box) -> str:
        return (
            f'<g class="g">{_rectangle(x, y, box, 8)}<text class="t m" '
            f'x="{x + 10:.1f}" y="{y + 18:.1f}">{escape(self._lines(i)[0])}</text></g>'
        )

    def _node_element(self, i: int, x: float, y: float, box: Box) -> str:
        title, below = map(escape, self._lines(i))
        is_port = self._data["kind"][i] in (Kind.PARAMETER, Kind.RESULT)
        middle = x + box.width / 2
        first = y + (18 if below else box.height / 2 + 4)
        text = f'<text class="t" x="{middle:.1f}" y="{first:.1f}">{title}</text>'
        if below:
            text += f'<text class="m" x="{middle:.1f}" y="{y + 33:.1f}">{below}</text>'
        shape = _rectangle(x, y, box, box.height / 2 if is_port else 6)
        return f'<g class="{"p" if is_port else "n"}">{shape}{text}</g>'


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _rectangle(x: float, y: float, box: Box, radius: float) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{radius:.0f}"/>'
    )


def _edge_element(
    boxes: dict[int, Box],
    layers: Layers,
    edge: tuple[int, int],
    x0: float,
    y0: float,
) -> str:
    """A curve from the bottom of a box to the top of another, through its way."""
    source, target = (boxes[i] for i in edge)
    points = [(source.x, source.y + source.height / 2)]
    points += [(box.x, box.y) for box in layers.ways.get(edge, ())]
    points.append((target.x, target.y - target.height / 2))
    moved = [(x + x0, y + y0) for x, y in points]
    text = f"M{moved[0][0]:.1f},{moved[0][1]:.1f}"
    for (ax, ay), (bx, by) in itertools.pairwise(moved):
        middle = (ay + by) / 2
        text += f"C{ax:.1f},{middle:.1f} {bx:.1f},{middle:.1f} {bx:.1f},{by:.1f}"
    return f'<path class="e" d="{text}"/>'
