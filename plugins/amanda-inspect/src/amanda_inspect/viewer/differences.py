"""The differences of two graphs as tables of the page, whose rows name its nodes.

>>> import amanda
>>> from amanda_inspect.difference import diff
>>> graphs = [amanda.Graph("amanda/onnx/18") for _ in range(2)]
>>> for axis, graph in enumerate(graphs):
...     x = graph.parameter("float32[2, 3]", "x")
...     _ = graph.result(graph.add("Softmax", [x], {"axis": axis}, name="soft").output)
>>> (table,) = difference_tables(diff(*graphs), {})
>>> table["rows"]
[[None, "Softmax 'soft'", '', 'attribute axis', '1', '0']]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from amanda.graph import Op
from amanda_inspect.difference import ChangedWeight, GraphDifference, scope_of
from amanda_inspect.viewer.tables import cut_text

__all__ = ["difference_tables"]

MAX_ROWS: Final = 2000
"""Rows of a table in the page."""
_CHANGED: Final = ("op", "in", "what", "new", "old")
_WEIGHTS: Final = (
    *("weight", "in", "type", "other elements", "max abs", "max rel", "SNR dB"),
    *("norm", "old norm", "hash", "old hash"),
)
_OPS: Final = ("op", "in", "type", "scope")


def difference_tables(
    difference: GraphDifference, places: Mapping[object, int]
) -> list[dict[str, Any]]:
    """Tables with a title, columns, and rows whose first cell is the node, if any.

    `places` are the numbers of nodes of ops. Differences of bodies and functions are
    among the rows; those of inputs, outputs and the namespace are a table of their own.
    """
    tables = {
        "Inputs, outputs and functions": (("difference", "in"), _head_rows),
        "Changed ops": (_CHANGED, _changed_rows),
        "Weights": (_WEIGHTS, _weight_rows),
        "Removed ops": (_OPS, _removed_rows),
        "Added ops": (_OPS, _added_rows),
    }
    found = []
    for title, (columns, rows_of) in tables.items():
        rows = [
            [None if op is None else places.get(op), *map(cut_text, cells)]
            for place, each in difference.walk()
            for op, *cells in rows_of(each, place)
        ]
        if rows:
            found.append(
                {"title": title, "columns": columns, "count": len(rows),
                 "rows": rows[:MAX_ROWS]}
            )  # fmt: skip
    return found


Rows = Iterator[tuple[Any, ...]]
"""The op of each row, and its cells."""


def _head_rows(found: GraphDifference, place: str) -> Rows:
    for line in found.head:
        yield None, line, place


def _changed_rows(found: GraphDifference, place: str) -> Rows:
    for each in found.changed:
        for what, new, old in each.changes:
            yield each.op, each.op.label, place, what, new, old


def _weight_rows(found: GraphDifference, place: str) -> Rows:
    for each in found.weights:
        yield each.op, each.place, place, *_weight_cells(each)


def _weight_cells(weight: ChangedWeight) -> Iterator[str]:
    found, (new, old) = weight.difference, weight.tensors
    yield str(new.type) if new.type == old.type else f"{new.type}, not {old.type}"
    yield found.why or f"{found.unequal:,} of {found.size:,}"
    for number in (found.max_abs, found.max_rel, found.snr, *weight.norms):
        yield "" if number is None else f"{number:.5g}"
    yield from (tensor.digest()[:12] for tensor in (new, old))


def _removed_rows(found: GraphDifference, place: str) -> Rows:
    yield from (_op_row(op, place) for op in found.removed)


def _added_rows(found: GraphDifference, place: str) -> Rows:
    yield from (_op_row(op, place) for op in found.added)


def _op_row(op: Op, place: str) -> tuple[Any, ...]:
    return op, op.label, place, op.type or "graph", scope_of(op)
