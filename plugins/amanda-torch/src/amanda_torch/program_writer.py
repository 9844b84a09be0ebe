"""Graphs as exported programs: their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda_torch.node_writer import NodeWriter, is_weight
from amanda_torch.program_facts import UNBOUNDED, module_call, usual_facts
from amanda_torch.records import INPUT_RECORDS, PROGRAM_RECORDS, VALUE
from amanda_torch.value_types import TypeReader
from amanda_torch.written_values import ValueTable

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["program_json"]

_IS_LEAF: Final = '"type": null'


def program_json(graph: Graph, dictionary: Dictionary) -> dict[str, Any]:
    """The program of a root graph."""
    record = PROGRAM_RECORDS.of(graph)
    ranges = dict(record.get("range_constraints", {}))
    types = TypeReader(ranges)
    types.hints.values.update(record.get("hints", {}))
    writer = _Writer(dictionary, types)
    body, signature = writer.root(graph, record)
    for name in types.hints.symbols | types.hints.values.keys():
        ranges.setdefault(name, dict(UNBOUNDED))
    module = {
        "graph": body, "signature": signature,
        "module_call_graph": _module_calls(graph, signature, record),
        "metadata": dict(record.get("metadata", {})),
        "treespec_namedtuple_fields":
            dict(record.get("treespec_namedtuple_fields", {})),
    }  # fmt: skip
    facts = {
        key: record.get(key, value) for key, value in usual_facts(dictionary).items()
    }
    return {"graph_module": module, "range_constraints": ranges, **facts}


class _Writer:
    """What the graphs of a program share."""

    def __init__(self, dictionary: Dictionary, types: TypeReader) -> None:
        self.dictionary = dictionary
        self.types = types

    def root(
        self, graph: Graph, record: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The graph of a program, and its signature."""
        values = self._values(graph)
        inputs = _RootInputs(graph, values, record)
        outputs, specs = _root_outputs(graph, values)
        body = self._graph(graph, values, inputs.arguments, outputs)
        return body, {"input_specs": inputs.specs, "output_specs": specs}

    def body(self, graph: Graph) -> dict[str, Any]:
        """A graph that is an argument."""
        values = self._values(graph)
        inputs = [values.argument(port) for port in graph.parameters]
        outputs = [
            values.argument(v) if v is not None
            else dict(INPUT_RECORDS.of(port).get("value") or {"as_none": True})
            for port, v in zip(graph.outputs, graph.results, strict=True)
        ]  # fmt: skip
        found = self._graph(graph, values, inputs, outputs)
        single = PROGRAM_RECORDS.of(graph).get("single", False)
        return {**found, "is_single_tensor_return": single}

    def _values(self, graph: Graph) -> ValueTable:
        return ValueTable(graph, self.dictionary, self.types)

    def _graph(
        self, graph: Graph, values: ValueTable, inputs: list[Any], outputs: list[Any]
    ) -> dict[str, Any]:
        writer = NodeWriter(self.dictionary, values, self.body)
        nodes = [writer.node(op) for op in graph if not is_weight(op)]
        return {
            "inputs": inputs, "outputs": outputs, "nodes": nodes, **values.tables,
            "is_single_tensor_return": False,
        }  # fmt: skip


class _RootInputs:
    """The inputs of a program in their order, with their roles."""

    def __init__(
        self, graph: Graph, values: ValueTable, record: Mapping[str, Any]
    ) -> None:
        self.arguments: list[Any] = []
        self.specs: list[Any] = []
        constants = record.get("constants", {})
        weights = {values.op_names[op]: op for op in graph if is_weight(op)}
        parameters = {values.names[port]: port for port in graph.parameters}
        order = [
            name for name in record.get("inputs", ())
            if name in constants or name in weights or name in parameters
        ]  # fmt: skip
        rest = [n for n in (*weights, *parameters) if n not in order]
        for name in (*order, *rest):
            if name in constants:
                self.arguments.append(constants[name]["input"])
                self.specs.append(constants[name]["spec"])
            elif name in weights:
                self._add_weight(weights[name], values)
            else:
                self._add_parameter(parameters[name], values)

    def _add_weight(self, op: Op, values: ValueTable) -> None:
        argument = values.argument(op.output)
        [fields] = argument.values()
        kind = op.attrs.get("kind")
        role = {"constant": "tensor_constant", "non_persistent_buffer": "buffer"}.get(
            str(kind), str(kind)
        )
        spec = {"arg": fields, f"{role}_name": op.attrs.get("target")}
        if role == "buffer":
            spec["persistent"] = kind == "buffer"
        self.arguments.append(argument)
        self.specs.append({role: spec})

    def _add_parameter(self, port: OutputPort, values: ValueTable) -> None:
        argument = values.argument(port)
        self.arguments.append(argument)
        if "as_token" in argument:
            self.specs.append({"token": {"arg": argument["as_token"]}})
        else:
            self.specs.append({"user_input": {"arg": argument}})


def _root_outputs(graph: Graph, values: ValueTable) -> tuple[list[Any], list[Any]]:
    """The outputs of a program, and their roles."""
    arguments, specs = [], []
    for port, value in zip(graph.outputs, graph.results, strict=True):
        record = INPUT_RECORDS.of(port)
        argument = (
            values.argument(value) if value is not None
            else dict(record.get("value") or {"as_none": True})
        )  # fmt: skip
        arguments.append(argument)
        spec = record.get("spec")
        if spec and value is not None:
            [(role, rest)] = spec.items()
            [fields] = argument.values()
            specs.append({role: {"arg": fields, **rest}})
        else:
            specs.append({"user_output": {"arg": argument}})
    return arguments, specs


# -- trees of arguments ------------------------------------------------------------


def _module_calls(
    graph: Graph, signature: Mapping[str, Any], record: Mapping[str, Any]
) -> list[Any]:
    """The calls of modules as recorded, if the program still has these inputs."""
    roles = ("user_input", "constant_input")
    inputs = sum(next(iter(spec)) in roles for spec in signature["input_specs"])
    roles = ("user_output", "loss_output")
    outputs = sum(next(iter(spec)) in roles for spec in signature["output_specs"])
    known = list(record.get("module_call_graph", ()))
    first = known[0].get("signature") if known else None
    first = first if isinstance(first, dict) else {}
    counts = [str(first.get(k, "")).count(_IS_LEAF) for k in ("in_spec", "out_spec")]
    if counts == [inputs, outputs]:
        return known
    names = [port.name for port in graph.parameters]
    return [module_call(names, inputs, outputs), *known[1:]]


def weight_of(op: Op) -> Tensor | None:
    """The value of a parameter, buffer or constant."""
    value = op.attrs.get(VALUE)
    return value if isinstance(value, Tensor) else None
