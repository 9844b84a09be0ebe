"""Exported programs as graphs: an op for every node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from amanda.dictionary import CallLayout
from amanda.errors import AmandaError, FormatError, LimitError
from amanda.formatkit import locate_error
from amanda.graph import Graph, Op, OutputPort, bulk, unused_name
from amanda.types import VoidType
from amanda_torch.aliases import order_writes
from amanda_torch.codes import (
    DTYPES,
    KINDS_OF_FRAMEWORK,
    LAYOUTS,
    MEMORY_FORMATS,
    device_name,
    op_type,
    variant,
)
from amanda_torch.payloads import NO_PAYLOADS, Payloads
from amanda_torch.program_facts import drop_usual_facts
from amanda_torch.records import (
    INPUT_RECORDS,
    NODE_RECORDS,
    PROGRAM_RECORDS,
    VALUE,
    is_trained,
    usual_groups,
)
from amanda_torch.value_types import TypeReader

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["read_program"]

_MAX_LEVELS: Final = 32
_KEYWORD: Final = 2
_MALFORMED: Final = (KeyError, TypeError, AttributeError, ValueError, IndexError)
_FIELDS: Final = (
    "torch_version", "schema_version", "opset_version", "range_constraints",
    "guards_code", "verifiers",
)  # fmt: skip
_MODULE_FIELDS: Final = ("module_call_graph", "metadata", "treespec_namedtuple_fields")
_CODES: Final = {"as_layout": LAYOUTS, "as_memory_format": MEMORY_FORMATS}


def read_program(
    program: Mapping[str, Any], dictionary: Dictionary, weights: Payloads = NO_PAYLOADS,
    constants: Payloads = NO_PAYLOADS,
) -> Graph:  # fmt: skip
    """The graph of the JSON of a program; its weights are given by their names."""
    with bulk(), _place("the program"):
        module = program["graph_module"]
        reader = ProgramReader(program, dictionary, weights, constants)
        graph = Graph(reader.namespace)
        reader.read_root(graph, module)
        order_writes(graph, dictionary)
        facts = {key: program[key] for key in _FIELDS if key in program}
        facts |= {key: module[key] for key in _MODULE_FIELDS if key in module}
        PROGRAM_RECORDS.add(graph, hints=reader.types.hints.unusual(), **facts)
        drop_usual_facts(graph, dictionary, reader.types.hints.values)
    return graph


@contextmanager
def _place(place: str) -> Iterator[None]:
    """Raise any error of the block as a FormatError that names the place."""
    try:
        yield
    except AmandaError as error:
        raise locate_error(error, place) from error
    except _MALFORMED as error:
        what = f"{type(error).__name__}: {error}"
        raise FormatError(
            "the program is malformed", where=place, got=f"{what:.100}"
        ) from error


class ProgramReader:
    """What the graphs of a program share."""

    def __init__(
        self, program: Mapping[str, Any], dictionary: Dictionary, weights: Payloads,
        constants: Payloads,
    ) -> None:  # fmt: skip
        self.dictionary = dictionary
        version = dictionary.assumed or dictionary.version
        self.namespace = f"{dictionary.path}/{version}"
        self.types = TypeReader(program.get("range_constraints") or {})
        self.weights = weights
        self.constants = constants
        self.layouts: dict[str, CallLayout] = {}
        self.level = 0

    def layout(self, kind: str) -> CallLayout:
        found = self.layouts.get(kind)
        if found is None:
            found = self.layouts[kind] = CallLayout(self.dictionary.get(kind))
        return found

    def read_root(self, graph: Graph, module: Mapping[str, Any]) -> None:
        """The graph of the whole program."""
        signature = module["signature"]
        reader = GraphReader(self, graph, module["graph"])
        reader.read_inputs(signature["input_specs"])
        reader.read_nodes()
        reader.read_outputs(signature["output_specs"])
        reader.record_order()

    def read_body(self, data: Mapping[str, Any], name: str) -> Graph:
        """A graph that is an argument of a node."""
        self.level += 1
        if self.level > _MAX_LEVELS:
            raise LimitError("graphs are nested too deeply", expected=_MAX_LEVELS)
        graph = Graph(self.namespace, name)
        with _place(f"the graph {name}"):
            reader = GraphReader(self, graph, data)
            reader.read_inputs(None)
            reader.read_nodes()
            reader.read_outputs(None)
            if data.get("is_single_tensor_return"):
                PROGRAM_RECORDS.add(graph, single=True)
        self.level -= 1
        return graph


class GraphReader:
    """The inputs, nodes and outputs of one graph."""

    def __init__(
        self, program: ProgramReader, graph: Graph, data: Mapping[str, Any]
    ) -> None:
        self.program = program
        self.graph = graph
        self.data = data
        self.values: dict[str, OutputPort] = {}
        self.inputs: list[str] = []
        self.constants: dict[str, Any] = {}

    # -- inputs and outputs ---------------------------------------------------------

    def read_inputs(self, specs: list[Any] | None) -> None:
        """Parameters, and ops of weights; `specs` are the roles of inputs."""
        for i, entry in enumerate(self.data["inputs"]):
            with _place(f"input {i}"):
                kind, value = variant(entry)
                if specs is None:
                    self._add_parameter(kind, value, None)
                else:
                    self._add_input(kind, value, *variant(specs[i]))

    def _add_input(self, kind: str, value: Any, role: str, spec: Any) -> None:
        """An input of the program, by its role."""
        if role in ("user_input", "token"):
            if isinstance(value, dict):
                self._add_parameter(
                    kind, value, {role: {}} if role == "token" else None
                )
            else:
                name = f"input_{len(self.inputs)}"
                self._add_constant(name, {kind: value}, role, spec)
        elif role == "constant_input":
            self._add_constant(spec["name"], {kind: value}, role, spec)
        else:
            self._add_weight(kind, value["name"], role, spec)

    def _add_constant(self, name: str, value: Any, role: str, spec: Any) -> None:
        self.inputs.append(name)
        self.constants[name] = {"input": value, "spec": {role: spec}}

    def _add_parameter(self, kind: str, value: Any, spec: Any) -> None:
        name = value["as_name"] if kind.startswith("as_sym") else value["name"]
        type, entry = self.program.types.value(kind, name, self.data)
        port = self.graph.parameter(type, name)
        recorded = "" if kind == "as_tensor" else kind
        if kind == "as_tensor" and self.program.types.is_usual(entry, type):
            entry = None
        INPUT_RECORDS.add(port, value=entry, spec=spec, kind=recorded)
        self._put(name, port)
        self.inputs.append(name)

    def _add_weight(self, kind: str, name: str, role: str, spec: Any) -> None:
        target = spec[f"{role}_name"]
        if role == "buffer" and not spec.get("persistent", True):
            role = "non_persistent_buffer"
        attrs = {"target": target, "kind": role.removeprefix("tensor_")}
        op = self.graph.add("get_attr", [], attrs, name=name)
        stored = role in ("parameter", "buffer")
        payloads = self.program.weights if stored else self.program.constants
        payload = payloads.get(target)
        type, entry = self.program.types.value(kind, name, self.data)
        if payload is not None and payload.tensor is not None:
            op.attrs[VALUE] = payload.tensor
            type = type or payload.tensor.type
        op.output.type = type
        record = {} if payload is None else payload.record
        NODE_RECORDS.add(op, payload=record)
        if entry is not None and kind == "as_tensor":
            usual = self.program.types.is_usual(entry, op.output.type, is_trained(op))
            entry = None if usual else entry
        NODE_RECORDS.add(op, values=[entry] if entry else None)
        self._put(name, op.output)
        self.inputs.append(name)

    def read_outputs(self, specs: list[Any] | None) -> None:
        """The results, with their roles where they are not plain outputs."""
        for i, entry in enumerate(self.data["outputs"]):
            with _place(f"output {i}"):
                kind, value = variant(entry)
                role, spec = ("user_output", {}) if specs is None else variant(specs[i])
                name = self._name_of(kind, value)
                source = None if name is None else self._value(name)
                self.graph.result(source, self._result_name(name))
                port = self.graph.outputs[-1]
                rest = {k: v for k, v in spec.items() if k != "arg"}
                plain = role == "user_output"
                INPUT_RECORDS.add(
                    port, spec=None if plain else {role: rest},
                    value=entry if name is None else None,
                )  # fmt: skip

    def _result_name(self, name: str | None) -> str | None:
        """The name of a result: another one where it is that of a value before."""
        if name is None:
            return None
        taken = {port.name for port in self.graph.outputs}
        return unused_name(
            name, lambda each: each in taken or (each != name and each in self.graph)
        )

    @staticmethod
    def _name_of(kind: str, value: Any) -> str | None:
        """The name of the value that an argument is; None for a number or none."""
        if kind in ("as_tensor", "as_custom_obj", "as_token"):
            return str(value["name"])
        if kind.startswith("as_sym") and "as_name" in value:
            return str(value["as_name"])
        return None

    def record_order(self) -> None:
        """Record the order of inputs, if weights are not the first."""
        first = [op.name for op in self.graph if op.type == "get_attr"]
        names = [port.name for port in self.graph.parameters]
        order = None if self.inputs == [*first, *names] else self.inputs
        PROGRAM_RECORDS.add(self.graph, inputs=order, constants=self.constants)

    # -- values ---------------------------------------------------------------------

    def _put(self, name: str, port: OutputPort) -> None:
        if name in self.values:
            raise FormatError("two values of a graph have one name", who=repr(name))
        self.values[name] = port

    def _value(self, name: str) -> OutputPort:
        found = self.values.get(name)
        if found is None:
            raise FormatError("a value is used that is not computed before", who=name)
        return found

    # -- nodes ----------------------------------------------------------------------

    def read_nodes(self) -> None:
        """Add an op for every node."""
        for i, node in enumerate(self.data["nodes"]):
            try:
                self._add_node(node)
            except (AmandaError, *_MALFORMED):
                with _place(f"node {i} {_node_label(node)}"):
                    raise

    def _add_node(self, node: Mapping[str, Any]) -> None:
        kind = op_type(node["target"])
        layout = self.program.layout(kind)
        record: dict[str, Any] = {}
        arguments = self._arguments(node["inputs"], layout, record)
        found = layout.inputs(arguments)
        outputs, groups = _output_names(node["outputs"])
        name = node.get("name") or self._fresh_name(kind, outputs)
        op = self.graph.add(
            kind, found.values, found.attrs, name=name, outputs=len(outputs),
            bodies=found.bodies or None,
        )  # fmt: skip
        ports = op.input_ports if found.names else []
        for place, label in found.names.items():
            ports[place].set_name(label)
        values = self._add_outputs(op, outputs)
        is_list = groups != [-1] * len(groups)
        if is_list and groups != usual_groups(layout, len(outputs)):
            record["groups"] = groups
        if node.get("is_hop_single_tensor_return"):
            record["single"] = True
        NODE_RECORDS.add(op, metadata=node.get("metadata"), values=values, **record)

    def _fresh_name(self, kind: str, outputs: list[tuple[str, str | None]]) -> str:
        """The name of a node of an old file, which has none."""
        if len(outputs) == 1 and outputs[0][1]:
            return outputs[0][1]
        return self.graph.fresh_name(kind.split(".")[1] if "." in kind else kind)

    def _add_outputs(self, op: Op, outputs: list[tuple[str, str | None]]) -> list[Any]:
        """Name the outputs of an op, and set their types."""
        entries: list[Any] = []
        types, data = self.program.types, self.data
        for port, (kind, name) in zip(op.outputs, outputs, strict=True):
            if name is None:
                port.type = VoidType()
                entries.append(None)
                continue
            port.type, entry = types.value(kind, name, data)
            is_tensor = entry is not None and "dtype" in entry
            usual = is_tensor and types.is_usual(entry, port.type)
            entries.append(None if usual else entry)
            if name != op.name:
                port.name = name
            self._put(name, port)
        return entries if any(entries) else []

    # -- arguments ------------------------------------------------------------------

    def _arguments(
        self, inputs: list[Any], layout: CallLayout, record: dict[str, Any]
    ) -> dict[str, Any]:
        """The arguments of a node by name; those of higher-order ops by position."""
        found: dict[str, Any] = {}
        unnamed: list[Any] = []
        for item in inputs:
            kind, value = variant(item["arg"])
            name = item["name"]
            if not name:
                unnamed.append(self._argument(kind, value, "", layout, record))
                continue
            argument = self._argument(kind, value, name, layout, record)
            if argument is None and name in layout.optional:
                record.setdefault("nulls", []).append(name)
            else:
                found[name] = argument
            passed = item.get("kind")
            by_name = name in layout.optional if passed is None else passed == _KEYWORD
            if by_name and name in layout.positional:
                record.setdefault("keywords", []).append(name)
        if unnamed:
            found = self._by_position(unnamed, layout, record) | found
        return found

    @staticmethod
    def _by_position(
        values: list[Any], layout: CallLayout, record: dict[str, Any]
    ) -> dict[str, Any]:
        """Names for positional arguments; the last port may take all the rest."""
        names = layout.positional
        last = names[-1] if names and names[-1] in layout.variadic else None
        if last is None:
            names = names + [f"arg{i}" for i in range(len(names), len(values))]
        elif len(values) >= len(names):
            rest = values[len(names) - 1 :]
            if len(rest) > 1 or not isinstance(rest[0], list):
                record["spread"] = True
                values = [*values[: len(names) - 1], rest]
        return dict(zip(names, values, strict=False))

    def _argument(
        self, kind: str, value: Any, name: str, layout: CallLayout,
        record: dict[str, Any],
    ) -> Any:  # fmt: skip
        """An argument: a value of the graph, a constant, or a list or dict of these."""
        if kind == "as_tensor":
            return self._value(value["name"])
        if kind in _PLAIN:
            return value
        if kind == "as_none":
            return None
        if kind in ("as_float", "as_floats", "as_float_lists"):
            return _floats(value)
        reader = _READERS.get(kind)
        if reader is not None:
            return reader(self, value)
        if kind == "as_string_to_argument":
            return {
                key: self._argument(*variant(item), "", layout, record)
                for key, item in value.items()
            }
        attr = layout.attrs.get(name)
        if attr is None or attr.kind.rstrip("?") != KINDS_OF_FRAMEWORK.get(kind):
            record.setdefault("kinds", {})[name] = kind
        return _read_framework_kind(kind, value)

    def _sym(self, value: Mapping[str, Any]) -> Any:
        [(kind, found)] = value.items()
        return self._value(found) if kind == "as_name" else _floats(found)

    def _graph(self, value: Mapping[str, Any]) -> Graph:
        return self.program.read_body(value["graph"], value["name"])

    def _tensors(self, value: list[Any]) -> list[Any]:
        return [self._value(item["name"]) for item in value]

    def _optional_tensor(self, value: Any) -> Any:
        kind, found = variant(value)
        return None if kind == "as_none" else self._value(found["name"])


_PLAIN: Final = frozenset([
    "as_int", "as_ints", "as_bool", "as_bools", "as_string", "as_strings",
    "as_int_lists",
])  # fmt: skip

_READERS: Final[Mapping[str, Any]] = {
    "as_tensors": GraphReader._tensors,
    "as_optional_tensor": GraphReader._optional_tensor,
    "as_optional_tensors": lambda reader, value: [
        reader._optional_tensor(item) for item in value
    ],
    "as_nested_tensors": lambda reader, value: [reader._tensors(v) for v in value],
    "as_sym_int": GraphReader._sym,
    "as_sym_float": GraphReader._sym,
    "as_sym_bool": GraphReader._sym,
    "as_sym_ints": lambda reader, value: [reader._sym(item) for item in value],
    "as_sym_floats": lambda reader, value: [reader._sym(item) for item in value],
    "as_sym_bools": lambda reader, value: [reader._sym(item) for item in value],
    "as_graph": GraphReader._graph,
    "as_scalar_type": lambda _, value: DTYPES.dtype(value),
    "as_complex": lambda _, v: complex(_floats(v["real"]), _floats(v["imag"])),
}
"""Arguments by their kind in files."""


def _read_framework_kind(kind: str, value: Any) -> Any:
    """A device, layout, memory format, operator or object."""
    if kind == "as_device":
        return device_name(value)
    if kind in _CODES:
        if value not in _CODES[kind]:
            raise FormatError(f"PyTorch has no {kind[3:]} of this number", got=value)
        return _CODES[kind][value]
    if kind in ("as_operator", "as_custom_obj"):
        return value
    raise FormatError("an argument of an unknown kind", got=kind)


def _floats(value: Any) -> Any:
    """Numbers; infinity and NaN are texts in files."""
    if isinstance(value, list):
        return [_floats(item) for item in value]
    return float(value) if isinstance(value, str) else value


def _output_names(
    outputs: list[Any],
) -> tuple[list[tuple[str, str | None]], list[int]]:
    """Kind and name of each output, and the lengths of those that are lists."""
    found: list[tuple[str, str | None]] = []
    groups: list[int] = []
    for entry in outputs:
        kind, value = variant(entry)
        if kind == "as_tensor":
            found.append((kind, value["name"]))
            groups.append(-1)
        elif isinstance(value, list):
            items = [item.get("as_tensor", item) for item in value]
            found += [("as_tensor", item.get("name")) for item in items]
            groups.append(len(value))
        else:
            found.append((kind, GraphReader._name_of(kind, value)))
            groups.append(-1)
    return found, groups


def _node_label(node: Any) -> str:
    label = node.get("name") or node.get("target") if isinstance(node, dict) else None
    return f"({label})" if isinstance(label, str) else ""
