"""The content of lookup tables, from the ops that initialize them.

An initializer is an op of the graph, or of a function that it calls with the handle of
the table, as in SavedModels. Its keys and values have to be constants, or lines of a
text file that the SavedModel has among its assets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from amanda.errors import FormatError
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import constant_of
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType
from amanda_tf.mapping.variables.resources import TABLES
from amanda_tf.notes import TABLE_KEYS, TABLE_VALUES

__all__ = ["note_table_contents"]

_INITIALIZERS: Final = (
    "InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2",
)  # fmt: skip
_FROM_FILES: Final = ("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
_LINE_NUMBER: Final = -1
_WHOLE_LINE: Final = -2
_MAX_DEPTH: Final = 16
_T = TypeVar("_T")


def note_table_contents(
    graph: Graph, assets: Mapping[OutputPort, Tensor] | None = None
) -> None:
    """Note keys and values on the tables of a graph whose initializers it has.

    `assets` are the contents of files, by the values of the graph that are their paths.
    """
    if any(op.type in TABLES for op in graph):
        _Initializers(graph, assets or {}).note(graph, {}, _MAX_DEPTH)


class _Initializers:
    """The initializers of a graph and of the functions that it calls."""

    def __init__(self, root: Graph, assets: Mapping[OutputPort, Tensor]) -> None:
        self.root = root
        self.assets = assets

    def note(
        self, part: Graph, given: Mapping[OutputPort, OutputPort], depth: int
    ) -> None:
        """Note the contents that a part of the graph states.

        `given` has the values of the root that parameters of a function stand for.
        """

        def outer(value: OutputPort | None) -> OutputPort | None:
            while value is not None and value.op.type == "Identity":
                value = _first_input(value.op)
            return None if value is None else given.get(value, value)

        for op in part:
            values = [outer(value) for value in op.inputs]
            table = values[0] if values else None
            if table is not None and table.op.type in TABLES:
                self._note_content(op, table.op, values[1:])
            callee = _callee(self.root, op) if depth else None
            if callee is not None and any(v is not None and v.op.type in TABLES
                                          for v in values):  # fmt: skip
                rows = zip(callee.parameters, values, strict=False)
                inner: dict[OutputPort, OutputPort] = {
                    port: value for port, value in rows if value is not None
                }
                self.note(callee, inner, depth - 1)

    def _note_content(self, op: Op, table: Op, values: list[OutputPort | None]) -> None:
        content: tuple[object, object] | None = None
        if op.type in _INITIALIZERS:
            found = [None if v is None else constant_of(v) for v in values[:2]]
            content = (found[0], found[1]) if len(found) == 2 else None
        elif op.type in _FROM_FILES and values and values[0] is not None:
            file = self.assets.get(_assigned_value(values[0]))
            content = None if file is None else _read_lines(op, table, file)
        if content and all(isinstance(each, Tensor) for each in content):
            table.attrs.setdefault(TABLE_KEYS, content[0])
            table.attrs.setdefault(TABLE_VALUES, content[1])


def _first_input(op: Op) -> OutputPort | None:
    return op.inputs[0] if op.inputs else None


def _assigned_value(value: OutputPort) -> OutputPort:
    """The value that a variable has which is read: what is assigned to it."""
    handle = _first_input(value.op) if value.op.type == "ReadVariableOp" else None
    users = () if handle is None else handle.user_ops
    assigned = [u.inputs[1] for u in users
                if u.type == "AssignVariableOp" and len(u.inputs) == 2]  # fmt: skip
    return assigned[0] if len(assigned) == 1 and assigned[0] is not None else value


def _read_lines(op: Op, table: Op, file: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values of a table from the lines of a text file."""
    lines = bytes(file.numpy()).replace(b"\r", b"").removesuffix(b"\n").split(b"\n")
    size = _attribute(op, "vocab_size", int, -1)
    lines = lines if size < 0 else lines[:size]
    if b"" in lines or size > len(lines):
        raise FormatError(
            f"the text file of {table.label} is not its vocabulary",
            expected=f"{'non-empty' if size < 0 else size} lines",
            got=f"{len(lines)}, of which {lines.count(b'')} are empty",
        )  # fmt: skip
    keys, values = (
        _column(lines, op, table, _attribute(op, f"{side}_index", int),
                _attribute(table, f"{side}_dtype", DType))
        for side in ("key", "value")
    )  # fmt: skip
    return keys, values


def _attribute(op: Op, name: str, kind: type[_T], default: _T | None = None) -> _T:
    """An attribute of this class; a file may have any."""
    value = op.attrs.get(name, default)
    if isinstance(value, kind):
        return value
    raise FormatError(
        f"{name} of {op.label} is no {kind.__name__}", got=type(value).__name__
    )


def _column(lines: list[bytes], op: Op, table: Op, index: int, dtype: DType) -> Tensor:
    """One column of a text file, as the element type of a table."""
    try:
        if index == _LINE_NUMBER:
            first = _attribute(op, "offset", int, 0)
            return Tensor.of(range(first, first + len(lines)), dtype)
        if index != _WHOLE_LINE:
            delimiter = _attribute(op, "delimiter", str, "\t").encode()
            lines = [line.split(delimiter)[index] for line in lines]
        if dtype.kind == "string":
            return Tensor.strings(lines, (len(lines),))
        convert = float if dtype.kind == "float" else int
        return Tensor.of([convert(item) for item in lines], dtype)
    except (IndexError, ValueError, OverflowError) as error:
        raise FormatError(
            f"a line of the text file of {table.label} is no row of it",
            expected=f"a {dtype} in column {index}", got=str(error),
        ) from error  # fmt: skip


def _callee(root: Graph, op: Op) -> Graph | None:
    named = op.attrs.get("f") if op.has_attrs else None
    name = named.name if isinstance(named, FunctionRef) else op.type
    return root.functions.get(name or "")
