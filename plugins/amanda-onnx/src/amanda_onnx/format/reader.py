"""A graph from the bytes of a model.

Messages are read in place: nodes are parsed, weights only located. Every length is
checked before it is used, so a hostile file costs time and memory in proportion to its
size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from amanda.errors import FormatError
from amanda.formatkit import UNKNOWN_FIELDS, Span, join_spans, raise_at
from amanda.graph import (
    STATE_NOTE,
    UNCHECKED_DIM_NAMES,
    VALUE_NOTE,
    Graph,
    Op,
    OutputPort,
    bulk,
    shares_dims,
)
from amanda.tensors import Tensor
from amanda.types import uint8
from amanda_onnx.domains import DEFAULT, function_key, namespace_of, opset_of
from amanda_onnx.format.attribute_reader import AttributeReader
from amanda_onnx.format.free_attributes import restore_attributes
from amanda_onnx.format.messages import SCHEMA
from amanda_onnx.format.model_file import ModelFile
from amanda_onnx.format.model_metadata import MODEL_KEY, NOTES_KEY, add_notes
from amanda_onnx.format.node_reader import GraphReader, locate_nodes
from amanda_onnx.format.state_metadata import STATE_KEY, ModelState, read_state
from amanda_onnx.format.tensor_reader import read_sparse, read_tensor
from amanda_onnx.format.value_types import TypeReader, same_type

__all__ = ["ModelReader", "read_model"]

_NODES_OF_GRAPH, _NODES_OF_FUNCTION = 1, 7  # fields; a test compares them
_INFO_NAME, _INFO_TYPE = 0x0A, 0x12  # keys of a ValueInfoProto
_PLAIN: Final = (
    "ir_version", "producer_name", "producer_version", "domain", "model_version",
    "doc_string",
)  # fmt: skip


def read_model(source: ModelFile) -> Graph:
    """The graph of a model; its weights stay in the file."""
    with bulk():
        return ModelReader(source).read()


class ModelReader:
    """Reads one model; what its graphs share."""

    def __init__(self, source: ModelFile) -> None:
        self.source = source
        self.types = TypeReader(source)
        self.attributes = AttributeReader(source, self.types)
        self.imports: dict[str, int] = {}
        self.state = ModelState({}, {})
        self.initial_values: dict[str, Tensor] = {}  # of variables, by input
        self.waiting: deque[tuple[GraphReader, Span]] = deque()  # bodies not read yet

    def read(self) -> Graph:
        fields = self.source.read("ModelProto", (0, len(self.source.data)))
        if "graph" not in fields:
            raise FormatError(
                "no graph in it, so this is not an ONNX model",
                where=f"byte {len(self.source.data)}",
            )
        self.imports = self._imports(fields.get("opset_import", []))
        root = Graph(namespace_of("", opset_of(self.imports)))
        root.imports.update(self.imports)
        self._note_model(root, fields)
        functions = [
            self._declare_function(root, span) for span in fields.get("functions", [])
        ]
        self.waiting.append((GraphReader(self, root, None, 0), fields["graph"]))
        self._bodies()
        if shares_dims(root):
            root.attrs[UNCHECKED_DIM_NAMES] = True
        for graph, span in functions:
            self.imports = graph.imports or root.imports
            self._function(GraphReader(self, graph, None, span[0]), span)
            self._bodies()
        return root

    def namespace(self, domain: str) -> str | None:
        """The namespace of an op of a domain; None if it is the graph's own."""
        if domain in DEFAULT:
            return None
        return namespace_of(domain, self.imports.get(domain, 0))

    def _imports(self, spans: list[Span]) -> dict[str, int]:
        imports: dict[str, int] = {}
        for span in spans:
            fields = self.source.read("OperatorSetIdProto", span)
            domain, version = fields.get("domain", ""), fields.get("version", 0)
            if not 0 < version < 1 << 31:
                raise_at(
                    f"an invalid version of {domain or 'ONNX'!r}", span[0], got=version
                )
            if imports.setdefault(domain, version) != version:
                raise_at(f"two versions of the domain {domain!r}", span[0])
        return imports

    def _note_model(self, root: Graph, fields: Mapping[str, Any]) -> None:
        source = self.source
        facts: dict[str, Any] = {}
        facts["metadata_props"] = source.pairs(fields.get("metadata_props", []))
        facts["configuration"] = [
            bytes(source.data[start:end])
            for start, end in fields.get("configuration", [])
        ]
        # Stored as bytes: a graph of ours cannot express them, since they assign to the
        # initializers of the model by name.
        facts["training_info"] = [
            source.tensor(span, uint8, (span[1] - span[0],))
            for span in fields.get("training_info", [])
        ]
        facts["rest"] = fields.get(UNKNOWN_FIELDS)
        plain = {key: fields[key] for key in _PLAIN if key in fields}
        told_more = {key: value for key, value in facts.items() if value}
        root.attrs[MODEL_KEY] = {**plain, **told_more}

    def _bodies(self) -> None:
        """Read the bodies of ops, and the bodies inside."""
        while self.waiting:
            self._graph(*self.waiting.popleft())

    # -- graphs --------------------------------------------------------------------

    def _graph(self, scope: GraphReader, span: Span) -> None:
        stretches, others = locate_nodes(self.source, span, _NODES_OF_GRAPH)
        fields = self._read_rest("GraphProto", others)
        graph = scope.graph
        graph.name = fields.get("name") or None
        if graph.owner is None and scope.outer is None:
            self._read_state(graph, fields)
        weights = self._weights(scope, fields)
        self._inputs(scope, fields.get("input", []), weights)
        scope.nodes(stretches)
        results = [
            (span, self.source.read("ValueInfoProto", span))
            for span in fields.get("output", [])
        ]
        names = {each.get("name", "") for _, each in results}
        dangling = self._value_infos(scope, fields.get("value_info", []), names)
        self._results(scope, results)
        self._note_state(graph)
        strange = self._annotations(scope, fields.get("quantization_annotation", []))
        _name_weights(graph, weights)
        pairs = self.source.pairs(fields.get("metadata_props", []))
        add_notes(
            graph,
            doc_string=fields.get("doc_string"),
            metadata_props=restore_attributes(graph, pairs),
            value_info=dangling,
            quantization=strange,
            rest=fields.get(UNKNOWN_FIELDS),
        )

    def _read_state(self, root: Graph, fields: Mapping[str, Any]) -> None:
        """Find which inputs and outputs of the model are those of variables."""
        props = root.attrs[MODEL_KEY].get("metadata_props")
        if not isinstance(props, dict) or STATE_KEY not in props:
            return
        names = [
            {self.source.read("ValueInfoProto", s).get("name", "") for s in spans}
            for spans in (fields.get("input", []), fields.get("output", []))
        ]
        self.state = read_state(props[STATE_KEY], *names)
        if self.state.inputs:
            del props[STATE_KEY]

    def _note_state(self, graph: Graph) -> None:
        """Note the variables at the inputs and results of a model."""
        if graph.holder is not None or not self.state.inputs:
            return
        for ports, keys in (
            (graph.parameters, self.state.inputs),
            (graph.outputs, self.state.outputs),
        ):
            for port in ports:
                key = keys.get(port.name or "")
                if key is not None:
                    port.attrs[STATE_NOTE] = key

    def _read_rest(
        self, message: str, others: list[tuple[int, int, int, int]]
    ) -> dict[str, Any]:
        """The fields of a graph other than its nodes."""
        codecs = SCHEMA.codecs[message]
        found: dict[str, Any] = {}
        small: list[Span] = []
        for number, place, start, end in others:
            codec = codecs.get(number)
            if codec is not None and codec.is_message:
                found.setdefault(codec.name, []).append((start, end))
            else:
                small.append((place, end))
        if small:
            raw = join_spans(self.source.data, small)
            found.update(SCHEMA.read(message, raw, 0, len(raw), small[0][0]))
        return found

    def _weights(self, scope: GraphReader, fields: Mapping[str, Any]) -> dict[str, Op]:
        weights: dict[str, Op] = {}
        for span in fields.get("initializer", []):
            self.source.release(span[1])
            name, tensor, facts = read_tensor(self.source, span)
            if scope.outer is None and name in self.state.inputs:
                self.initial_values[name] = tensor
                continue
            op = scope.graph.constant(tensor)
            if facts:
                add_notes(op, values={"value": facts})
            self._define_weight(scope, weights, name, op, span[0])
        for span in fields.get("sparse_initializer", []):
            name, value, facts = read_sparse(self.source, span)
            op = scope.graph.add("Constant", attrs={"sparse_value": value})
            add_notes(
                op, initializer=True, values={"sparse_value": facts} if facts else None
            )
            self._define_weight(scope, weights, name, op, span[0])
        return weights

    @staticmethod
    def _define_weight(
        scope: GraphReader, weights: dict[str, Op], name: str, op: Op, place: int
    ) -> None:
        if not name:
            raise_at("an initializer without a name", place)
        scope.define(name, op.output, place)
        weights[name] = op

    def _inputs(
        self, scope: GraphReader, spans: list[Span], weights: dict[str, Op]
    ) -> None:
        seen: set[str] = set()
        for i, span in enumerate(spans):
            fields = self.source.read("ValueInfoProto", span)
            name = fields.get("name", "")
            if not name:
                raise_at("an input of a graph without a name", span[0])
            if name in seen:
                raise_at("two inputs of the same name", span[0], got=repr(name))
            seen.add(name)
            held = weights.get(name)
            if held is not None:
                add_notes(held, input=i + 1)
                self._set_type(held.output, fields)
                continue
            port = scope.graph.parameter()
            scope.define(name, port, span[0])
            self._set_type(port, fields)
            if scope.outer is None and name in self.initial_values:
                port.attrs[VALUE_NOTE] = self.initial_values.pop(name)

    def _results(
        self, scope: GraphReader, results: list[tuple[Span, dict[str, Any]]]
    ) -> None:
        graph = scope.graph
        for span, fields in results:
            name = fields.get("name", "")
            found = scope.find(name)
            if found is None:
                raise_at(
                    "an output of a graph that no node produces",
                    span[0],
                    got=repr(name),
                )
            graph.result(found, name)
        rows = zip(graph.outputs, graph.results, results, strict=True)
        for port, value, (_, fields) in rows:
            self._set_type(port, fields)
            # The type belongs to the value, unless the value has another one.
            if value is not None and value.type is None and value.graph is graph:
                value.type = port.type
            if value is not None and same_type(value.type, port.type):
                port.type = None

    def _set_type(
        self, port: OutputPort, fields: Mapping[str, Any], **more: Any
    ) -> None:
        """Set the type of a value, and record the rest of its ValueInfoProto."""
        notes: dict[str, Any] = {}
        if "type" in fields:
            type_, notes = self.types.read(fields["type"])
            if type_ is None and not notes:
                notes = {"untyped": True}
            if port.type is None or type_ is None:
                port.type = type_
            elif type_ != port.type:
                start, end = fields["type"]
                notes = {**notes, "type": bytes(self.source.data[start:end])}
        add_notes(
            port,
            **notes,
            doc_string=fields.get("doc_string"),
            metadata_props=self.source.pairs(fields.get("metadata_props", [])),
            rest=fields.get(UNKNOWN_FIELDS),
            **more,
        )

    def _value_infos(
        self, scope: GraphReader, spans: list[Span], results: set[str]
    ) -> list[bytes]:
        """Set the types of values; returns those of values that do not exist."""
        dangling = []
        seen: set[str] = set()
        for span in spans:
            raw = bytes(self.source.data[span[0] : span[1]])
            name, type_raw = _name_and_type(raw)
            port = scope.values.get(name)
            inside = type(port) is OutputPort and name not in results
            if inside and port is not None and port.type is None and name not in seen:
                type_, notes = self.types.of(type_raw, span[0])
                if type_ is not None and not notes:  # the usual case
                    port.type = type_
                    seen.add(name)
                    continue
            if not self._value_info(scope, span, results, seen):
                dangling.append(raw)
        return dangling

    def _value_info(
        self, scope: GraphReader, span: Span, results: set[str], seen: set[str]
    ) -> bool:
        """Set the type of one value; False if there is no such value."""
        fields = self.source.read("ValueInfoProto", span)
        name = fields.get("name", "")
        port = scope.values.get(name)
        start, end = fields.get("type", (0, 0))
        if port is None or name in seen or start == end:
            return False
        seen.add(name)
        inside = type(port) is OutputPort and name not in results
        self._set_type(port, fields, value_info=not (inside and port.type is None))
        return True

    def _annotations(self, scope: GraphReader, spans: list[Span]) -> list[bytes]:
        """Record the names of scales and zero points at the values they belong to."""
        strange = []
        for span in spans:
            fields = self.source.read("TensorAnnotation", span)
            port = scope.values.get(fields.get("tensor_name", ""))
            pairs = self.source.pairs(fields.get("quant_parameter_tensor_names", []))
            twice = port is not None and "quantization" in port.attrs.get(NOTES_KEY, {})
            if port is None or not pairs or twice or UNKNOWN_FIELDS in fields:
                strange.append(bytes(self.source.data[span[0] : span[1]]))
            else:
                add_notes(port, quantization=pairs)
        return strange

    # -- functions -------------------------------------------------------------------

    def _declare_function(self, root: Graph, span: Span) -> tuple[Graph, Span]:
        """An empty function, so that calls are recognized before it is read."""
        _, others = locate_nodes(self.source, span, _NODES_OF_FUNCTION)
        fields = self._read_rest("FunctionProto", others)
        name, domain = fields.get("name", ""), fields.get("domain", "")
        if not name:
            raise_at("a local function without a name", span[0])
        imports = self._imports(fields.get("opset_import", []))
        opset = opset_of(imports or self.imports)
        graph = Graph(namespace_of("", opset), name)
        graph.imports.update(imports)
        key = function_key(domain, name, fields.get("overload", ""))
        if key in root.functions:
            raise_at("two local functions of the same name", span[0], got=key)
        return root.add_function(key, graph), span

    def _function(self, scope: GraphReader, span: Span) -> None:
        stretches, others = locate_nodes(self.source, span, _NODES_OF_FUNCTION)
        fields = self._read_rest("FunctionProto", others)
        graph = scope.graph
        for name in fields.get("input", []):
            scope.define(name, graph.parameter(), span[0])
        scope.nodes(stretches)
        for name in fields.get("output", []):
            value = scope.find(name)
            if value is None:
                raise_at(
                    "an output of a function that no node produces", span[0], got=name
                )
            graph.result(value, name)
        notes: dict[str, Any] = {}
        for start, end in fields.get("attribute_proto", []):
            each = self.attributes.read(self.source.data, start, end, 0)
            if each.value is None or each.name in graph.attrs:
                raise_at(
                    "an invalid default value of a function attribute",
                    start,
                    got=each.name,
                )
            graph.attrs[each.name] = each.value
            scope.note(each, notes)
        dangling = self._value_infos(scope, fields.get("value_info", []), set())
        pairs = self.source.pairs(fields.get("metadata_props", []))
        add_notes(
            graph,
            **notes,
            domain=fields.get("domain"),
            overload=fields.get("overload"),
            attributes=fields.get("attribute"),
            doc_string=fields.get("doc_string"),
            metadata_props=restore_attributes(graph, pairs),
            value_info=dangling,
            rest=fields.get(UNKNOWN_FIELDS),
        )


def _name_and_type(raw: bytes) -> tuple[str, bytes]:
    """Name and type of a short ValueInfoProto with nothing else; otherwise no name."""
    if len(raw) > 4 and raw[0] == _INFO_NAME and raw[1] < 127:
        end = 2 + raw[1]
        start = end + 2
        plain = start < len(raw) < start + 128 and raw[end] == _INFO_TYPE
        if plain and raw[end + 1] == len(raw) - start and raw.isascii():
            return raw[2:end].decode(), raw[start:]
    return "", b""


def _name_weights(graph: Graph, weights: Mapping[str, Op]) -> None:
    """Name each weight after its value, unless a node has that name."""
    for name, op in weights.items():
        if name not in graph:
            graph.rename(op, name)
