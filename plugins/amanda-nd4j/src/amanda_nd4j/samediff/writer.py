"""A graph of nd4j as the tables of a SameDiff file.

Values have the numbers of the file that they were read from, if all have one; else all
are numbered anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amanda.errors import FormatError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import DType, TensorType
from amanda_nd4j.lenses import TYPE_CODES
from amanda_nd4j.samediff.arguments import ARGUMENTS
from amanda_nd4j.samediff.arrays import array_of
from amanda_nd4j.samediff.op_numbers import CUSTOM, LOGIC, usual_number
from amanda_nd4j.samediff.reader import (
    CONSTANT,
    GRAPH_RECORDS,
    PLACEHOLDER,
    RECORDS,
    items_of,
    output_names,
    result_names,
)
from amanda_nd4j.samediff.tables import FlatTable

__all__ = ["flat_graph"]

_ARRAY = 2
_DEVICE = -1


def flat_graph(graph: Graph) -> FlatTable:
    """The tables of a graph; FormatError for what SameDiff does not have."""
    _expect_flat(graph)
    return _Writer(graph).tables()


def _expect_flat(graph: Graph) -> None:
    problems = [
        f"{op.label}: {why}"
        for op in graph
        for why, is_there in (
            ("a body", bool(op.bodies)),
            (f"an op of {op.own_namespace}",
             op.own_namespace is not None and not op.is_constant),
            ("an absent input", None in op.inputs),
            ("several outputs of a placeholder",
             op.type == "placeholder" and len(op.outputs) != 1),
        )
        if is_there
    ]  # fmt: skip
    if graph.functions or graph.entries:
        problems.append("functions and entries")
    if problems:
        raise FormatError("SameDiff cannot have all of this graph", problems=problems)


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.record = GRAPH_RECORDS.of(graph)
        self.results = result_names(graph)
        self.names = {op: op.name or graph.fresh_name(f"{op.type}{i}")
                      for i, op in enumerate(graph)}  # fmt: skip
        usual = {item: i for i, item in enumerate(items_of(graph), 1)}
        self.numbers = self._recorded_numbers() or usual

    def _recorded_numbers(self) -> dict[Any, int]:
        """The numbers of the file; none where not all items have one of their own."""
        found = {
            item: RECORDS.of(item).get("ids", [None])[0]
            for item in items_of(self.graph)
        }
        numbers = list(found.values())
        is_complete = None not in numbers and len({*numbers}) == len(numbers)
        return found if is_complete else {}

    def tables(self) -> FlatTable:
        nodes = [self._node(op) for op in self.graph if is_node(op)]
        found: FlatTable = {
            "id": 0, "variables": self._variables(), "nodes": nodes,
            "outputs": [self._pair(value) for value in self.graph.results if value],
            "placeholders": [each["name"] for each in self._placeholders()],
        }  # fmt: skip
        return {**found, **self.record.get("fields", {})}

    # -- variables ---------------------------------------------------------------------

    def _variables(self) -> list[FlatTable]:
        found = {each["name"]: each for each in self._each_variable()}
        order = [name for name in self.record.get("order", ()) if name in found]
        rest = [name for name in found if name not in set(order)]
        return [found[name] for name in (*order, *rest)]

    def _each_variable(self) -> Iterable[FlatTable]:
        yield from self._placeholders()
        for op in self.graph:
            if op.is_constant:
                yield self._constant(op)
            elif is_node(op):
                for port, name in zip(op.outputs, self._output_names(op), strict=True):
                    yield {**self._head(port, name, port.index), "variabletype": _ARRAY}

    def _placeholders(self) -> Iterable[FlatTable]:
        """Parameters, and ops that stand for one."""
        ports: list[OutputPort] = [*self.graph.parameters]
        ports += [op.output for op in self.graph if op.type == "placeholder"]
        for port in ports:
            item = port if port.op.is_graph else port.op
            name = port.name if port.op.is_graph else self.names[port.op]
            fields = {"variabletype": PLACEHOLDER, **self._fields(item)}
            yield {**self._head(port, name or "", 0), **self._shape(port), **fields}

    def _head(self, port: OutputPort, name: str, index: int) -> FlatTable:
        owner = port if port.op.is_graph else port.op
        pair = {"first": self.numbers[owner], "second": index}
        return {"id": pair, "name": name, "dtype": _code_of(port), "device": _DEVICE}

    def _shape(self, port: OutputPort) -> FlatTable:
        shape = port.type.shape if isinstance(port.type, TensorType) else None
        if shape is None or not shape.has_rank:
            return {}
        return {"shape": [n if isinstance(n, int) else -1 for n in shape.dims]}

    def _constant(self, op: Op) -> FlatTable:
        name = self.names[op]
        array = array_of(op.attrs["value"], name)
        fields = {"variabletype": CONSTANT, **self._fields(op)}
        order = [self.names[first] for first in op.control_inputs]
        head = {**self._head(op.output, name, 0), "dtype": array["dtype"]}
        return {**head, "ndarray": array, **fields, **_present(controlDeps=order)}

    def _fields(self, item: Any) -> FlatTable:
        return dict(RECORDS.of(item).get("fields", {}))

    # -- nodes -------------------------------------------------------------------------

    def _node(self, op: Op) -> FlatTable:
        type, name = op.type or "", self.names[op]
        fields = self._fields(op)
        attrs = {k: v for k, v in op.attrs.items() if not _is_record(k)}
        usual_kind, number = usual_number(type)
        kind = fields.get("opType", usual_kind)
        is_legacy = kind not in (CUSTOM, LOGIC)
        dimensions = attrs.pop("dimensions", None) if is_legacy else None
        order = [self.names[first] for first in op.control_inputs]
        return {
            "id": self.numbers[op], "name": name, "opType": kind, "opNum": number,
            "inputPaired": [self._pair(value) for value in op.inputs],
            **ARGUMENTS.write(type, attrs, op.label),
            **_present(dimensions=_as_list(dimensions)),
            "device": _DEVICE, "outputNames": self._output_names(op), "opName": type,
            "outputTypes": bytes(_code_of(port) for port in op.outputs),
            **fields, **_present(controlDeps=order),
        }  # fmt: skip

    def _output_names(self, op: Op) -> list[str]:
        recorded = self._fields(op).get("outputNames")
        usual = output_names(self.names[op], len(op.outputs))
        names = recorded if recorded and len(recorded) == len(op.outputs) else usual
        return [
            self.results.get(port) or str(name)
            for port, name in zip(op.outputs, names, strict=True)
        ]

    def _pair(self, value: OutputPort | None) -> FlatTable:
        assert value is not None  # see _expect_flat
        owner = value if value.op.is_graph else value.op
        index = 0 if value.op.is_graph else value.index
        return {"first": self.numbers[owner], "second": index}


def is_node(op: Op) -> bool:
    """Whether an op is a node of a file, not a variable."""
    return not op.is_constant and op.type != "placeholder"


def _is_record(key: str) -> bool:
    return key.startswith(("_", "x-")) and key != "_a"


def _present(**fields: Any) -> FlatTable:
    return {name: value for name, value in fields.items() if value}


def _as_list(value: Any) -> list[int]:
    if value is None:
        return []
    return [int(n) for n in value] if isinstance(value, list | tuple) else [int(value)]


def _code_of(port: OutputPort) -> int:
    """nd4j's number of an element type; 0 where it is not known."""
    dtype = port.type.dtype if isinstance(port.type, TensorType) else None
    return TYPE_CODES.get(str(dtype), 0) if isinstance(dtype, DType) else 0
