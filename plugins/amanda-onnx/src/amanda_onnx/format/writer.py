"""A model from a graph: first as chunks of known size, then as a file.

Weights are not held in memory: they are copied from their files in blocks. A model that
exceeds the size limit of protobuf gets external data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from amanda.errors import AmandaError, FormatError, LimitError
from amanda.files import lock_folder, new_file
from amanda.formatkit import MessageChunks, ModelNames, NameScope, encode_varint
from amanda.graph import (
    CONSTANT,
    Graph,
    OutputPort,
    Parameter,
    ScopeTable,
    bulk,
    is_note,
)
from amanda.tensors import Tensor
from amanda.types import Type
from amanda_onnx.domains import DEFAULT, IR_OF_OPSET, domain_of
from amanda_onnx.format.attribute_writer import attribute_chunks, encode_value_type
from amanda_onnx.format.external_data import (
    ExternalDataOptions,
    ExternalDataWriter,
    delete_old_files,
)
from amanda_onnx.format.free_attributes import metadata_of_graph
from amanda_onnx.format.messages import SCHEMA
from amanda_onnx.format.model_metadata import (
    NOTES_KEY,
    model_notes,
    notes_of,
    recorded_messages,
    string_pairs,
)
from amanda_onnx.format.node_reader import MAX_DEPTH
from amanda_onnx.format.node_writer import NodeWriter
from amanda_onnx.format.scope_metadata import ScopeWriter
from amanda_onnx.format.state_metadata import STATE_KEY, initial_value, state_text
from amanda_onnx.format.tensor_writer import (
    sparse_chunks,
    string_entries,
    tensor_chunks,
)

__all__ = ["MAX_MESSAGE_BYTES", "ModelWriter", "model_chunks", "write_model"]

MAX_MESSAGE_BYTES: Final = (1 << 31) - 1
"""The size limit of a protobuf message."""

_IR_INITIALIZER_INPUTS: Final = (
    3  # up to this IR version initializers must be inputs too
)
_IR_FUNCTIONS: Final = 8
_IR_MINIMUM: Final = 4
_CACHE_SIZE: Final = 4096
_INPUT: Final = SCHEMA.tag("GraphProto", "input")
_OUTPUT: Final = SCHEMA.tag("GraphProto", "output")
_INFO: Final = SCHEMA.tag("GraphProto", "value_info")
_INFO_OF_FUNCTION: Final = SCHEMA.tag("FunctionProto", "value_info")
_OPTIONAL_TYPES: Final = (_INFO, _INFO_OF_FUNCTION)  # types that may be omitted
_INFO_NAME: Final = SCHEMA.tag("ValueInfoProto", "name")
_INFO_TYPE: Final = SCHEMA.tag("ValueInfoProto", "type")


def write_model(
    graph: Graph,
    path: Path,
    external: bool | None,
    how: ExternalDataOptions,
    ir_version: int | None = None,
) -> None:
    """Write a model, after its external data files."""
    outside = ExternalDataWriter(how, recorded=external is None)
    pieces = model_chunks(graph, None if external is False else outside, ir_version)
    if pieces.size > MAX_MESSAGE_BYTES and external is None:
        outside = ExternalDataWriter(how, recorded=False)
        pieces = model_chunks(graph, outside, ir_version)
    check_size(pieces)
    with ExitStack() as stack:
        folder = os.fspath(path.parent)
        unnamed = os.path.join(folder, f"{path.name}.data")
        beside = [stack.enter_context(new_file(unnamed)) for _ in outside.files]
        names = [outside.write(i, new.file) for i, new in enumerate(beside)]
        if names:
            pieces = model_chunks(graph, outside.with_names(names), ir_version)
        model = stack.enter_context(new_file(path))
        pieces.write(model.file)
        for new in (*beside, model):
            new.synchronize()
        with lock_folder(folder):  # others delete the files of the model before theirs
            for new, name in zip(beside, names, strict=True):
                new.replace(name)
            model.replace()
            delete_old_files(folder, how.location, names)


def check_size(pieces: MessageChunks) -> None:
    if pieces.size > MAX_MESSAGE_BYTES:
        raise LimitError(
            "the model exceeds the protobuf limit of 2 GB",
            expected=f"at most {MAX_MESSAGE_BYTES} bytes",
            got=f"{pieces.size} bytes",
            hint="write it to a file, with external=True or a lower threshold",
        )


def model_chunks(
    graph: Graph,
    outside: ExternalDataWriter | None = None,
    ir_version: int | None = None,
) -> MessageChunks:
    """A ModelProto; all that it cannot hold is reported at once."""
    with bulk():
        return ModelWriter(graph, outside).model(ir_version)


class ModelWriter:
    """Writes one model."""

    def __init__(self, root: Graph, outside: ExternalDataWriter | None) -> None:
        self.root = root
        self.outside = outside
        self.names = ModelNames(root)
        self.problems: list[str] = []
        self.plain: dict[tuple[str, type, Any], str] = {}  # encoded attributes, cached
        self._types: dict[Type | None, bytes] = {}
        self._ir = 0
        self._state: str | None = None
        table = ScopeTable.of(root)
        self.scopes = None if table is None else ScopeWriter(table)
        self._imports: dict[str, int] = {}
        self._default: tuple[str, int] | None = None
        self._depth = 0

    def model(self, ir_version: int | None) -> MessageChunks:
        root, notes = self.root, model_notes(self.root)
        found = domain_of(root.namespace or "")
        if found is None or found[0]:
            raise FormatError(
                "only a graph of amanda/onnx can be written as ONNX",
                got=root.namespace or "no namespace",
                hint="amanda.convert(graph, 'onnx') first",
            )
        self._imports = _with_default(root.imports, found[1])
        self._ir = ir_version or self._own_ir_version(notes, found[1])
        if root.entries:
            self.problems.append("ONNX has no named entries")
        graph = self.graph(root, None)
        functions = [
            self._function(key, function) for key, function in root.functions.items()
        ]
        if self.problems:
            raise FormatError("ONNX cannot hold this graph", problems=self.problems)
        return self._model(notes, graph, functions)

    def require_domain(self, domain: str, version: int) -> None:
        """Import a domain at the version that an op has."""
        known = self._imports.get(domain)
        if domain in DEFAULT:
            known = next(
                (self._imports[d] for d in DEFAULT if d in self._imports), None
            )
        if known is None and version:
            self._imports[domain] = version
        elif known is not None and known != version:
            raise FormatError(
                f"ops of two versions of {domain or 'ONNX'!r} in one model",
                got=f"{version} and {known}",
            )

    def _own_ir_version(self, notes: Mapping[str, Any], opset: int) -> int:
        """The recorded IR version, or the oldest one that has the model's parts."""
        older = [ir for version, ir in IR_OF_OPSET.items() if version <= opset]
        own: int = notes.get("ir_version") or max(*older, _IR_MINIMUM)
        return max(own, _IR_FUNCTIONS) if self.root.functions else own

    def _model(
        self,
        notes: Mapping[str, Any],
        graph: MessageChunks,
        functions: list[MessageChunks],
    ) -> MessageChunks:
        head = SCHEMA.writer("ModelProto").put("ir_version", self._ir)
        for key in ("producer_name", "producer_version", "domain", "model_version"):
            head.put(key, notes.get(key))
        out = MessageChunks(head.put("doc_string", notes.get("doc_string")).done())
        out.append_message(SCHEMA.tag("ModelProto", "graph"), graph)
        out.append(_imports("ModelProto", self._imports))
        tail = SCHEMA.writer("ModelProto")
        props = string_pairs(notes.get("metadata_props"))
        if self._state is not None:
            props.append((STATE_KEY, self._state))
        out.append(tail.put_all("metadata_props", string_entries(props)).done())
        for info in notes.get("training_info", ()):
            if isinstance(info, Tensor):
                out.append_tensor(SCHEMA.tag("ModelProto", "training_info"), info)
        for function in functions:
            out.append_message(SCHEMA.tag("ModelProto", "functions"), function)
        last = SCHEMA.writer("ModelProto").put_all(
            "configuration", notes.get("configuration", ())
        )
        out.append(last.put_unknown(notes.get("rest", b"")).done())
        return out

    # -- graphs ----------------------------------------------------------------------

    def graph(self, graph: Graph, around: NameScope | None) -> MessageChunks:
        """A GraphProto, with the graphs inside."""
        if self._depth > MAX_DEPTH:
            raise LimitError(
                "graphs nested deeper than readers support",
                expected=f"at most {MAX_DEPTH} levels",
            )
        self._depth += 1
        space = NameScope(self.names, graph, around)
        space.reserve_results()
        inputs = [
            (port, space.assign(port, lambda: "input")) for port in graph.parameters
        ]
        nodes = NodeWriter(self, space, SCHEMA.tag("GraphProto", "node"), False)
        nodes.weights()
        out = nodes.write()
        results = self._results(graph, space, out, SCHEMA.tag("GraphProto", "node"))
        notes = notes_of(graph)
        out.append(SCHEMA.writer("GraphProto").put("name", self._name(graph)).done())
        self._initializers(out, nodes, "initializer")
        if graph is self.root:
            self._initial_values(out, inputs)
            outputs = [(outside, word) for outside, _, word in results]
            self._state = state_text(inputs, outputs)
        out.append(
            SCHEMA.writer("GraphProto")
            .put_if("doc_string", notes.get("doc_string"))
            .done()
        )
        for port, word in self._inputs(inputs, nodes):
            out.append(self._info(_INPUT, port, word, port))
        for outside, value, word in results:
            out.append(self._info(_OUTPUT, value, word, outside))
        self._rest(out, graph, nodes, notes)
        self._depth -= 1
        return out

    def _name(self, graph: Graph) -> str | None:
        """The name of a graph, which ONNX requires."""
        if graph.name is not None or notes_of(graph):
            return graph.name
        return "main" if graph is self.root else (graph.body_name or "body")

    def _rest(
        self,
        out: MessageChunks,
        graph: Graph,
        nodes: NodeWriter,
        notes: Mapping[str, Any],
    ) -> None:
        listed = set(graph.results)
        infos = [
            self._info(_INFO, port, word, port)
            for port, word in self._typed_values(graph, nodes)
            if port not in listed or notes_of(port).get("value_info")
        ]
        tail = SCHEMA.writer("GraphProto").put_raw(b"".join(infos))
        tail.put_all(
            "value_info", recorded_messages(notes, "value_info", "ValueInfoProto")
        )
        tail.put_all("quantization_annotation", self._annotations(graph, nodes))
        tail.put_all(
            "quantization_annotation",
            recorded_messages(notes, "quantization", "TensorAnnotation"),
        )
        out.append(tail.done())
        self._initializers(out, nodes, "sparse_initializer")
        last = SCHEMA.writer("GraphProto")
        last.put_all("metadata_props", self._metadata(graph, nodes, notes))
        out.append(last.put_unknown(notes.get("rest", b"")).done())

    def _metadata(
        self, graph: Graph, nodes: NodeWriter, notes: Mapping[str, Any]
    ) -> list[bytes]:
        """The properties of a graph, with the attributes that ONNX has no field for."""
        try:
            pairs = metadata_of_graph(
                graph, nodes.initializers, notes.get("metadata_props")
            )
        except FormatError as error:
            self.problems.append(str(error))
            return []
        return string_entries(pairs)

    def _typed_values(
        self, graph: Graph, nodes: NodeWriter
    ) -> list[tuple[OutputPort, str]]:
        """Values with a value_info: outputs of nodes, and others if recorded."""
        asked: list[OutputPort] = [
            *graph.parameters,
            *(op.outputs[0] for op, _ in nodes.initializers),
        ]
        noted = [port for port in asked if notes_of(port).get("value_info")]
        return [*((port, self.names.name_of(port)) for port in noted), *nodes.infos]

    def _initializers(self, out: MessageChunks, nodes: NodeWriter, field: str) -> None:
        for op, word in nodes.initializers:
            notes = notes_of(op)
            values = notes.get("values", {})
            try:
                if op.type != "Constant" and field == "initializer":
                    facts = values.get("value") or {}
                    tensor = op.attrs["value"]
                    pieces = tensor_chunks(word, tensor, facts, self.outside)
                elif op.type == "Constant" and field == "sparse_initializer":
                    facts = values.get("sparse_value") or {}
                    sparse = op.attrs["sparse_value"]
                    pieces = sparse_chunks(word, sparse, facts, self.outside)
                else:
                    continue
            except AmandaError as error:
                got = f" ({error.got})" if error.got else ""
                self.problems.append(f"{op.label}: {error.message}{got}")
                continue
            out.append_message(SCHEMA.tag("GraphProto", field), pieces)

    def _initial_values(
        self, out: MessageChunks, inputs: list[tuple[Parameter, str]]
    ) -> None:
        """Write the values of inputs that are not fed, as initializers."""
        for port, word in inputs:
            value = initial_value(port)
            if value is not None:
                pieces = tensor_chunks(word, value, {}, self.outside)
                out.append_message(SCHEMA.tag("GraphProto", "initializer"), pieces)

    def _inputs(
        self, inputs: list[Any], nodes: NodeWriter
    ) -> list[tuple[OutputPort, str]]:
        """Inputs in order, with the initializers that are inputs too."""
        found: list[tuple[OutputPort, str]] = list(inputs)
        everything = self._ir <= _IR_INITIALIZER_INPUTS
        late: list[Any] = []
        for op, word in nodes.initializers:
            place = notes_of(op).get("input")
            if place:
                late.append((place - 1, (op.outputs[0], word)))
            elif everything and nodes.space.outer is None:
                late.append((1 << 62, (op.outputs[0], word)))
        for at, row in sorted(late, key=lambda item: item[0]):
            found.insert(at, row)
        return found

    def _results(
        self, graph: Graph, space: NameScope, out: MessageChunks, field: bytes
    ) -> list[tuple[OutputPort, OutputPort, str]]:
        """The results; an Identity node renames a value to its result's name."""
        found: list[tuple[OutputPort, OutputPort, str]] = []
        given: set[str] = set()
        for outside, value in zip(graph.outputs, graph.results, strict=True):
            if value is None:
                self.problems.append(
                    f"result {outside.index} of {graph.label} is empty"
                )
                continue
            name, word = outside.name, self.names.name_of(value)
            same = name in (word, value.name) if name else word not in given
            if not same or (not name and value.graph is not graph):
                wanted = name if name and name not in space.taken else None
                word, source = wanted or self.names.new_name(name or word), word
                space.taken.add(word)
                node = (
                    SCHEMA.writer("NodeProto").put("input", source).put("output", word)
                )
                out.append_message(
                    field, MessageChunks(node.put("op_type", "Identity").done())
                )
            given.add(word)
            found.append((outside, value, word))
        return found

    def _info(
        self, field: bytes, value: OutputPort, word: str, described: OutputPort
    ) -> bytes:
        """A ValueInfoProto: the type of `value`, and the record of `described`."""
        notes = notes_of(described) if described.has_attrs else {}
        type_ = described.type if described.type is not None else value.type
        try:
            raw = self._types.get(type_) if not notes else None
            if raw is None:
                raw = encode_value_type(type_, notes, loose=value.op.type == CONSTANT)
                if not notes and len(self._types) < _CACHE_SIZE:
                    self._types[type_] = raw
        except AmandaError as error:
            if field in _OPTIONAL_TYPES:
                return b""
            self.problems.append(f"{word!r}: {error.message} ({error.got})")
            return b""
        info = _INFO_NAME + _with_length(word.encode())
        if raw or notes.get("untyped"):
            info += _INFO_TYPE + _with_length(raw)
        if notes:
            tail = SCHEMA.writer("ValueInfoProto").put_if(
                "doc_string", notes.get("doc_string")
            )
            tail.put_all("metadata_props", string_entries(notes.get("metadata_props")))
            info += tail.put_unknown(notes.get("rest", b"")).done()
        return field + _with_length(info)

    def _annotations(self, graph: Graph, nodes: NodeWriter) -> list[bytes]:
        ports: list[OutputPort] = list(graph.parameters)
        ports += nodes.noted
        found = []
        for port in ports:
            pairs = notes_of(port).get("quantization")
            if pairs:
                out = SCHEMA.writer("TensorAnnotation").put(
                    "tensor_name", self.names.name_of(port)
                )
                out.put_all("quant_parameter_tensor_names", string_entries(pairs))
                found.append(out.done())
        return found

    # -- functions ---------------------------------------------------------------------

    def _function(self, key: str, graph: Graph) -> MessageChunks:
        notes = notes_of(graph)
        domain, name, overload = _function_key_parts(key, graph, notes)
        field = SCHEMA.tag("FunctionProto", "node")
        space = NameScope(self.names, graph, None)
        space.reserve_results()
        inputs = [space.assign(port, lambda: "input") for port in graph.parameters]
        outer, self._imports = self._imports, _function_imports(graph, self._imports)
        nodes = NodeWriter(self, space, field, True)
        body = nodes.write()
        results = self._results(graph, space, body, field)
        head = SCHEMA.writer("FunctionProto").put("name", name).put_all("input", inputs)
        head.put_all("output", [word for _, _, word in results])
        out = MessageChunks(
            head.put_all("attribute", notes.get("attributes", ())).done()
        )
        out.parts += body.parts
        out.size += body.size
        out.append(
            SCHEMA.writer("FunctionProto")
            .put_if("doc_string", notes.get("doc_string"))
            .done()
        )
        out.append(_imports("FunctionProto", self._imports))
        out.append(SCHEMA.writer("FunctionProto").put("domain", domain).done())
        self._defaults(out, graph, notes)
        listed = [
            (port, self.names.name_of(port)) for port in graph.parameters if port.type
        ]
        for port, word in [*listed, *nodes.infos]:
            out.append(self._info(_INFO_OF_FUNCTION, port, word, port))
        tail = SCHEMA.writer("FunctionProto").put_all(
            "value_info", recorded_messages(notes, "value_info", "ValueInfoProto")
        )
        tail.put_if("overload", overload)
        tail.put_all("metadata_props", self._metadata(graph, nodes, notes))
        out.append(tail.put_unknown(notes.get("rest", b"")).done())
        self._imports = outer
        return out

    def _defaults(
        self, out: MessageChunks, graph: Graph, notes: Mapping[str, Any]
    ) -> None:
        field = SCHEMA.tag("FunctionProto", "attribute_proto")
        for key, value in graph.attrs.items() if graph.has_attrs else ():
            if key != NOTES_KEY and not is_note(key):
                out.append_message(
                    field, attribute_chunks(key, value, notes, self.outside)
                )


def _function_key_parts(
    key: str, graph: Graph, notes: Mapping[str, Any]
) -> tuple[str, str, str]:
    """Domain, name and overload of a function."""
    if graph.name and (notes.get("domain") or key.startswith("::")):
        return str(notes.get("domain", "")), graph.name, str(notes.get("overload", ""))
    domain, _, rest = key.partition("::")
    name, _, overload = rest.partition("::")
    return domain, name or key, overload


def _with_default(imports: Mapping[str, int], opset: int) -> dict[str, int]:
    """The imports, with the version of ONNX itself from the namespace."""
    if not imports:
        return {"": opset}
    return {d: opset if d in DEFAULT else version for d, version in imports.items()}


def _function_imports(graph: Graph, around: Mapping[str, int]) -> dict[str, int]:
    if not graph.imports:
        return dict(around)
    found = domain_of(graph.namespace or "")
    opset = found[1] if found and not found[0] else 1
    return _with_default(graph.imports, opset)


def _with_length(raw: bytes) -> bytes:
    return encode_varint(len(raw)) + raw


def _imports(message: str, imports: Mapping[str, int]) -> bytes:
    out = SCHEMA.writer(message)
    for domain, version in imports.items():
        entry = SCHEMA.writer("OperatorSetIdProto").put("domain", domain)
        out.put("opset_import", entry.put("version", version).done())
    return out.done()
