"""The content of lookup tables, from the ops that initialize them.

An initializer is an op of the graph, or of a function that it calls with the handle of
the table, as in SavedModels. Its keys and values have to be constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import constant_of
from amanda.tensors import FunctionRef, Tensor
from amanda_tf.mapping.variables.resources import TABLES
from amanda_tf.notes import TABLE_KEYS, TABLE_VALUES

__all__ = ["note_table_contents"]

_INITIALIZERS: Final = (
    "InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2",
)  # fmt: skip
_MAX_DEPTH: Final = 16


def note_table_contents(graph: Graph) -> None:
    """Note keys and values on the tables of a graph whose initializers it has."""
    if any(op.type in TABLES for op in graph):
        _note_contents(graph, graph, {}, _MAX_DEPTH)


def _note_contents(
    root: Graph, part: Graph, given: Mapping[OutputPort, OutputPort], depth: int
) -> None:
    """The same for a function, whose parameters stand for values of the root."""

    def outer(value: OutputPort | None) -> OutputPort | None:
        while value is not None and value.op.type == "Identity":
            value = value.op.inputs[0]
        return None if value is None else given.get(value, value)

    for op in part:
        values = [outer(value) for value in op.inputs]
        table = values[0] if values else None
        if op.type in _INITIALIZERS and table is not None and table.op.type in TABLES:
            _note_content(table.op, values[1:])
        callee = _callee(root, op) if depth else None
        if callee is not None and any(v is not None and v.op.type in TABLES
                                      for v in values):  # fmt: skip
            rows = zip(callee.parameters, values, strict=False)
            inner: dict[OutputPort, OutputPort] = {
                port: value for port, value in rows if value is not None
            }
            _note_contents(root, callee, inner, depth - 1)


def _note_content(table: Op, values: list[OutputPort | None]) -> None:
    keys, found = (None if v is None else constant_of(v) for v in values[:2])
    if isinstance(keys, Tensor) and isinstance(found, Tensor):
        table.attrs.setdefault(TABLE_KEYS, keys)
        table.attrs.setdefault(TABLE_VALUES, found)


def _callee(root: Graph, op: Op) -> Graph | None:
    named = op.attrs.get("f") if op.has_attrs else None
    name = named.name if isinstance(named, FunctionRef) else op.type
    return root.functions.get(name or "")
