"""The graph of a SameDiff file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from amanda.errors import FormatError
from amanda.formatkit import FileRecords, list_of, of_class
from amanda.graph import Graph, Op, OutputPort, bulk
from amanda.types import DType, Shape, Sym, TensorType
from amanda_nd4j.samediff.archives import Part
from amanda_nd4j.samediff.arguments import ARGUMENTS
from amanda_nd4j.samediff.arrays import ELEMENT_TYPES, appended_array, tensor_of
from amanda_nd4j.samediff.op_numbers import (
    LOGIC,
    names_by_hash,
    op_of_2018,
    usual_number,
)
from amanda_nd4j.samediff.schema import CURRENT, OF_2018
from amanda_nd4j.samediff.tables import FlatTable, count_slots, read_root

__all__ = ["CONSTANT", "GRAPH_RECORDS", "PLACEHOLDER", "RECORDS", "VARIABLE",
           "read_flat_graph", "read_parts"]  # fmt: skip

VARIABLE, CONSTANT, ARRAY, PLACEHOLDER = range(4)
_FIELDS: Final = of_class(dict)
RECORDS: Final = FileRecords(
    "_samediff:fields", {"fields": _FIELDS, "ids": list_of(of_class(int))}
)
"""Of ops and parameters: the fields of the file that no part of a graph stands for."""
GRAPH_RECORDS: Final = FileRecords(
    "_samediff:graph",
    {"fields": _FIELDS, "order": list_of(of_class(str)), "generation": of_class(int)},
)
_OF_NODES: Final = (
    "opType", "opNum", "properties", "input", "output", "device", "scope_id",
    "scope_name", "scalar", "varControlDeps", "controlDepFor",
)  # fmt: skip
_OF_OLD_NODES: Final = ("device", "scope_id", "scope_name")
_OF_VARIABLES: Final = (
    "device", "variabletype", "controlDepForOp", "controlDepsForVar",
)  # fmt: skip
_OF_GRAPHS: Final = (
    "id", "configuration", "lossVariables", "trainingConfig", "updaterState",
    "metadataKeys", "metadataValues",
)  # fmt: skip


_NODES: Final = (2,)
_SLOTS_OF_2018: Final = 16


def read_parts(parts: Sequence[Part]) -> tuple[FlatTable, int]:
    """The tables of a model, with the arrays of all parts in their variables.

    The number is the generation of the schema: 2018, or 0 for now.
    """
    tables, generation = _read_tables(parts[0].flat_buffer)
    rest = [_read_tables(part.flat_buffer)[0] for part in parts[1:]]
    arrays = {
        each.get("name", ""): each["ndarray"]
        for table in rest
        for each in table.get("variables", ())
        if "ndarray" in each
    }
    appended = {name: data for part in parts for name, data in part.appended.items()}
    variables = tables.get("variables", ())
    lost = set(appended).difference(each.get("name", "") for each in variables)
    if lost:
        raise FormatError(
            "a file has data of variables that the graph does not have",
            got=", ".join(sorted(lost)[:8]),
        )
    for variable in variables:
        name = variable.get("name", "")
        if name in appended:
            variable["ndarray"] = appended_array(variable, appended[name])
        elif "ndarray" not in variable and name in arrays:
            variable["ndarray"] = arrays[name]
    return tables, generation


def _read_tables(data: memoryview) -> tuple[FlatTable, int]:
    if len(data) < 8:
        raise FormatError(
            "this is no FlatBuffer", expected="at least 8 bytes", got=len(data)
        )
    slots = count_slots(data, _NODES)
    if slots is not None and slots < _SLOTS_OF_2018:
        raise FormatError(
            "the file is of a schema before May 2018", got=f"nodes of {slots} fields",
            expected=f"at least {_SLOTS_OF_2018}",
            hint="save the file with a version of SameDiff since 2019",
        )  # fmt: skip
    is_old = slots == _SLOTS_OF_2018
    tables = read_root(data, OF_2018 if is_old else CURRENT, "FlatGraph")
    return tables, 2018 if is_old else 0


def read_flat_graph(tables: FlatTable, generation: int, namespace: str) -> Graph:
    """The graph that the tables of a file describe."""
    with bulk():
        return _Reader(tables, generation, namespace).graph()


def as_attribute(value: Any) -> Any:
    """A value of a table as one that an attribute may have."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {key: as_attribute(each) for key, each in value.items()}
    return [as_attribute(each) for each in value] if isinstance(value, list) else value


class _Reader:
    def __init__(self, tables: FlatTable, generation: int, namespace: str) -> None:
        self.tables = tables
        self.generation = generation
        self.made = Graph(namespace)
        self.values: dict[tuple[int, int], OutputPort] = {}
        self.variables: dict[str, FlatTable] = {}
        self.numbers: dict[Any, int] = {}
        self.output_names: dict[Op, list[str]] = {}
        self.custom = names_by_hash(ARGUMENTS.ops) if generation else {}
        self.nodes = {node.get("id", 0) for node in tables.get("nodes", ())}

    def graph(self) -> Graph:
        for variable in self.tables.get("variables", ()):
            self._add_variable(variable)
        nodes = self.tables.get("nodes", ())
        ops = [self._add_node(node) for node in nodes]
        for op, node in zip(ops, nodes, strict=True):
            self._connect(op, node)
        for op, node in zip(ops, nodes, strict=True):
            self._add_order(op, node.get("controlDeps", ()))
        for name, variable in self.variables.items():
            if name in self.made and variable.get("controlDeps"):
                self._add_order(self.made.ops[name], variable["controlDeps"])
        self._add_results()
        self._record_graph()
        return self.made

    def _record_graph(self) -> None:
        """What the writer would not write by itself: numbers, order, other fields."""
        self._record_output_names()
        usual = {item: i for i, item in enumerate(items_of(self.made), 1)}
        if any(self.numbers[item] != i for item, i in usual.items()):
            for item, number in self.numbers.items():
                RECORDS.add(item, ids=[number])
        order = [*variable_names(self.made)]
        given = [name for name in self.variables if name in set(order)]
        GRAPH_RECORDS.add(
            self.made, order=None if given == order else list(self.variables),
            fields=_fields(self.tables, _OF_GRAPHS, {"id": 0}),
        )  # fmt: skip

    def _record_output_names(self) -> None:
        results = result_names(self.made)
        for op, names in self.output_names.items():
            usual = zip(
                op.outputs, output_names(op.name or "", len(names)), strict=True
            )
            if names != [results.get(port, name) for port, name in usual]:
                fields = RECORDS.of(op).get("fields", {})
                RECORDS.add(op, fields={**fields, "outputNames": list(names)})

    # -- variables ---------------------------------------------------------------------

    def _add_variable(self, variable: FlatTable) -> None:
        name, key = variable.get("name", ""), _pair(variable.get("id", {}))
        if not name or name in self.variables:
            raise FormatError(
                "a variable has no name of its own", who=name or None, got=list(key)
            )
        self.variables[name] = variable
        kind = variable.get("variabletype", VARIABLE)
        array = variable.get("ndarray")
        is_old = bool(self.generation)
        if kind == ARRAY or (is_old and key[0] in self.nodes):
            return  # the value of a node
        if kind == PLACEHOLDER or (is_old and array is None):
            self._add_placeholder(name, key, variable)
            return
        if kind not in (VARIABLE, CONSTANT) or array is None:
            raise FormatError(
                "a variable has no value", who=name,
                expected="an array, or the kind of a placeholder", got=kind,
            )  # fmt: skip
        op = self.made.constant(tensor_of(array, name, self._dtype(variable)), name)
        self._record(op, variable, key, CONSTANT)
        self._put(key, op.output, name)

    def _dtype(self, variable: FlatTable) -> DType | None:
        code = variable.get("dtype", 0)
        if not code:
            return DType("float32") if self.generation else None
        return ELEMENT_TYPES.dtype(code, 0)

    def _add_placeholder(
        self, name: str, key: tuple[int, int], variable: FlatTable
    ) -> None:
        dims = variable.get("shape")
        if dims is not None and any(not -1 <= n < 2**48 for n in dims):
            raise FormatError(
                "the shape of a placeholder is invalid", who=name, got=dims
            )
        known = (
            None
            if dims is None
            else Shape([Sym.unknown() if n < 0 else n for n in dims])
        )
        dtype = self._dtype(variable)
        port = self.made.parameter(
            None if dtype is None else TensorType(dtype, known), name
        )
        self._record(port, variable, key, PLACEHOLDER)
        self._put(key, port, name)

    def _record(
        self, item: Any, variable: FlatTable, key: tuple[int, int], kind: int
    ) -> None:
        usual = {"device": -1, "variabletype": kind}
        self.numbers[item] = key[0]
        RECORDS.add(item, fields=_fields(variable, _OF_VARIABLES, usual))

    def _put(self, key: tuple[int, int], value: OutputPort, name: str) -> None:
        if key in self.values:
            raise FormatError("two values have one number", who=name, got=list(key))
        self.values[key] = value

    # -- nodes -------------------------------------------------------------------------

    def _add_node(self, node: FlatTable) -> Op:
        number, name = node.get("id", 0), node.get("name", "")
        type = self._op_type(node, name)
        is_logic = node.get("opType") == LOGIC
        attrs = self._attributes(type, node, is_logic=is_logic)
        names = node.get("outputNames")
        count = self._count(number, type) if names is None else len(names)
        fields = self._node_fields(type, node)
        if name in self.made:  # a constant may have the name of a node
            fields["name"], name = name, self.made.fresh_name(name)
        op = self.made.add(
            type, [None] * self._input_count(node), attrs, name=name or None,
            outputs=count, feedback=type == "next_iteration",
        )  # fmt: skip
        types = bytes(node.get("outputTypes", b""))
        for port in op.outputs:
            self._put((number, port.index), port, name)
            if port.index < len(types) and types[port.index]:
                port.type = TensorType(ELEMENT_TYPES.dtype(types[port.index], 0))
        self.output_names[op] = names or output_names(name, count)
        self.numbers[op] = number
        RECORDS.add(op, fields=fields)
        return op

    def _node_fields(self, type: str, node: FlatTable) -> dict[str, Any]:
        if self.generation:
            return _fields(node, _OF_OLD_NODES, {"device": -1})
        kind, number = usual_number(type)
        usual = {"opType": kind, "opNum": number, "device": -1}
        names = (*_OF_NODES, "extraInteger") if kind == LOGIC else _OF_NODES
        return _fields(node, names, usual)

    def _op_type(self, node: FlatTable, name: str) -> str:
        found = node.get("opName") or (
            op_of_2018(node, self.custom) if self.generation else None
        )
        if not found:
            raise FormatError(
                "the op of a node is not known by its number", who=name or None,
                expected="a name, or a number of the op descriptors",
                got=f"kind {node.get('opType', 0)}, number {node.get('opNum', 0)}",
                hint="save the file with a version of SameDiff since 2019",
            )  # fmt: skip
        return str(found)

    def _attributes(
        self, type: str, node: FlatTable, *, is_logic: bool
    ) -> dict[str, Any]:
        known = dict(node)
        frame = known.pop("extraInteger", None) if is_logic else None
        attrs = ARGUMENTS.read(type, known)
        if type == "enter" and frame and "frameName" not in attrs:
            attrs["frameName"] = str(frame[0])
        if node.get("dimensions") and "dimensions" not in attrs:
            axes = list(node["dimensions"])
            attrs["dimensions"] = axes if len(axes) > 1 else axes[0]
        return attrs

    def _count(self, number: int, type: str) -> int:
        """The number of outputs of a node of 2018: as many as others read."""
        pairs = [
            _pair(p) for n in self.tables["nodes"] for p in n.get("inputPaired", ())
        ]
        read = [index for key, index in pairs if key == number]
        return max([*read, int(type == "switch")]) + 1

    def _input_count(self, node: FlatTable) -> int:
        return len(node.get("inputPaired") or node.get("input", ()))

    def _connect(self, op: Op, node: FlatTable) -> None:
        pairs = [_pair(each) for each in node.get("inputPaired", ())] or [
            (number, 0) for number in node.get("input", ())
        ]
        for port, key in zip(op.input_ports, pairs, strict=True):
            value = self.values.get(key)
            if value is None:
                raise FormatError(
                    "a node reads a value that the file does not have", who=op.label,
                    where=f"input {port.index}", got=list(key),
                )  # fmt: skip
            port.connect(value)

    def _add_order(self, op: Op, names: Any) -> None:
        for name in names:
            if name not in self.made:
                raise FormatError(
                    "an op waits for one that the file does not have", who=op.label,
                    got=name,
                )  # fmt: skip
            first = self.made.ops[name]
            if first is not op and first not in op.control_inputs:
                self.made.control(first, op)

    def _add_results(self) -> None:
        names = {
            (node.get("id", 0), i): name
            for node in self.tables.get("nodes", ())
            for i, name in enumerate(node.get("outputNames", ()))
        }
        for pair in self.tables.get("outputs", ()):
            value = self.values.get(_pair(pair))
            if value is None:
                raise FormatError(
                    "a result is a value that the file does not have",
                    got=list(_pair(pair)),
                )  # fmt: skip
            own = value.name if value.op.is_graph else value.op.name
            self.made.result(value, names.get(_pair(pair), own))


def _fields(
    table: Mapping[str, Any], names: tuple[str, ...], usual: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields that the writer would not write by itself."""
    found = {name: as_attribute(table[name]) for name in names if name in table}
    return {
        name: value
        for name, value in found.items()
        if (value != usual[name] if name in usual else bool(value))
    }


def items_of(graph: Graph) -> Iterator[Any]:
    """What has a number in a file: parameters and ops."""
    yield from graph.parameters
    yield from graph


def output_names(name: str, count: int) -> list[str]:
    """The names of a node's values, where no other are given."""
    return [name, *(f"{name}:{i}" for i in range(1, count))][:count]


def variable_names(graph: Graph) -> Iterator[str]:
    """The names of all values, in the order of a file."""
    yield from (port.name or "" for port in graph.parameters)
    results = result_names(graph)
    for op in graph:
        if op.is_constant:
            yield op.name or ""
            continue
        recorded = RECORDS.of(op).get("fields", {}).get("outputNames")
        count = len(op.outputs)
        is_fitting = recorded is not None and len(recorded) == count
        names = recorded if is_fitting else output_names(op.name or "", count)
        for port, name in zip(op.outputs, names, strict=True):
            yield results.get(port) or name


def result_names(graph: Graph) -> dict[OutputPort, str]:
    """The names of results, which are those of their values in a file."""
    pairs = zip(graph.results, graph.outputs, strict=True)
    return {
        value: port.name
        for value, port in pairs
        if value is not None and port.name and not value.op.is_graph
    }


def _pair(pair: Mapping[str, int]) -> tuple[int, int]:
    return pair.get("first", 0), pair.get("second", 0)
