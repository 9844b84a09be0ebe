"""The format: Lark's files as graphs of the namespace `example/lark`, without loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import amanda.formatkit as kit
from amanda.errors import FormatError
from amanda.files import replace_file
from amanda.graph import CONSTANT, Graph, Op, OutputPort
from amanda.types import TensorType

__all__ = ["Format"]

DTYPES = kit.DTypeCodes("Lark", {1: "float32", 2: "float64"})
SCHEMA = kit.ProtoSchema.load(Path(__file__).with_name("lark.proto"))


class Format:
    def read(self, source: Path) -> Graph:
        with kit.file_errors(source):
            return Reader(kit.MessageFile.open(source)).read()

    def write(self, graph: Graph, path: Path) -> None:
        with kit.file_errors(path):
            chunks = write_model(graph)
            with replace_file(path) as file:
                chunks.write(file)


class Reader:
    def __init__(self, file: kit.MessageFile) -> None:
        self.file = file
        self.values: dict[str, OutputPort | None] = {"": None}

    def read(self) -> Graph:
        graph = Graph("example/lark/1")
        model = SCHEMA.read("Model", self.file.data)
        if not model.get("outputs"):
            raise FormatError("a model without outputs: this is not a Lark file")
        for span in model.get("inputs", ()):
            name, dtype, shape = self.value(span)
            self.values[name] = graph.parameter(TensorType(dtype, shape), name)
        for span in model.get("weights", ()):
            fields = self.message("Weight", span)
            name, dtype, shape = self.value(fields.get("value", (0, 0)))
            data = self.file.tensor(fields.get("data", (0, 0)), dtype, tuple(shape))
            self.values[name] = graph.constant(data, name).output
        for span in model.get("nodes", ()):
            node = self.message("Node", span)
            name, inputs = node.get("name", ""), map(self.find, node.get("inputs", ()))
            attrs = dict(map(self.attribute, node.get("attributes", ())))
            op = graph.add(node.get("op", ""), [*inputs], attrs, name=name)
            self.values[name] = op.output
        for name in model["outputs"]:
            graph.result(self.find(name), name)
        return graph

    def message(self, kind: str, span: kit.Span) -> dict[str, Any]:
        return SCHEMA.read(kind, self.file.data, *span)

    def find(self, name: str) -> OutputPort | None:
        if name not in self.values:
            raise FormatError("no value before this has that name", got=repr(name))
        return self.values[name]

    def value(self, span: kit.Span) -> tuple[str, Any, list[int]]:
        fields = self.message("Value", span)
        dtype = DTYPES.dtype(fields.get("dtype", 0), span[0])
        return fields.get("name", ""), dtype, fields.get("shape", [])

    def attribute(self, span: kit.Span) -> tuple[str, Any]:
        fields = self.message("Attribute", span)
        name = fields.pop("name", "")
        if "ints" in fields:
            return name, self.message("Ints", fields["ints"]).get("values", [])
        return name, next(iter(fields.values()), None)


def write_model(graph: Graph) -> kit.MessageChunks:
    chunks = kit.MessageChunks()
    for port in graph.parameters:
        chunks.append(put("Model", inputs=write_value(port.name, port.type)))
    for op in (op for op in graph if op.type == CONSTANT):
        data = op.attrs["value"]
        value = put("Weight", value=write_value(op.name, data.type))
        weight = kit.MessageChunks(value)
        weight.append_tensor(SCHEMA.tag("Weight", "data"), data)
        chunks.append_message(SCHEMA.tag("Model", "weights"), weight)
    nodes = [write_node(op) for op in graph if op.type != CONSTANT]
    chunks.append(put("Model", nodes=nodes))
    names = ["" if v is None else v.name or v.op.name for v in graph.results]
    chunks.append(put("Model", outputs=names))
    return chunks


def put(message: str, **fields: Any) -> bytes:
    """A message with these fields."""
    writer = SCHEMA.writer(message)
    for name, value in fields.items():
        (writer.put_all if isinstance(value, list) else writer.put)(name, value)
    return writer.done()


def write_value(name: str | None, type: Any) -> bytes:
    if not isinstance(type, TensorType) or not type.shape.is_static:
        raise FormatError("Lark has static shapes only", who=name, got=str(type))
    shape = [int(dim) for dim in type.shape]
    return put("Value", name=name, dtype=DTYPES.code(type.dtype), shape=shape)


def write_node(op: Op) -> bytes:
    inputs = ["" if v is None else v.name or v.op.name for v in op.inputs]
    attributes = [write_attribute(key, value) for key, value in op.attrs.items()]
    return put("Node", name=op.name, op=op.type, inputs=inputs, attributes=attributes)


def write_attribute(name: str, value: Any) -> bytes:
    if isinstance(value, list | tuple):
        return put("Attribute", name=name, ints=put("Ints", values=[*value]))
    kind = {int: "i", float: "d", str: "s"}.get(type(value))
    if kind is None:
        raise FormatError("Lark has no such attribute", who=name, got=repr(value))
    return put("Attribute", name=name, **{kind: value})
