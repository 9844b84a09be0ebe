"""One op as its entry describes it, with everything told that can be told."""

from __future__ import annotations

from typing import Any

from amanda.dictionary import (
    Attr,
    Dictionary,
    DictionaryHeader,
    DictionaryHistory,
    OpDef,
    OpHistory,
    Port,
    TypePattern,
    encode_data_file,
    format_definition,
    parse_signature,
)
from amanda.graph import Graph, OutputPort
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Shape, TensorType, Type

__all__ = ["acme", "specimen"]

_VALUES: dict[str, Any] = {
    "bool": True,
    "int": 3,
    "float": 0.5,
    "string": "text",
    "dtype": DType("float32"),
    "type": DType("float32"),
    "shape": Shape([2]),
    "tensor": Tensor.splat("int8", (1,), 0),
    "sparse": {"dims": [1]},
    "function": FunctionRef("made"),
}


def acme(*lines: str, **head: Any) -> Dictionary:
    """A dictionary of these entries."""
    entries = map(parse_signature, lines)
    blocks = [
        OpHistory(entry.name, "", (("1", format_definition(entry)),))
        for entry in entries
    ]
    header = DictionaryHeader("acme/x", ("1",), **head)
    return DictionaryHistory("acme/x", lambda: encode_data_file(header, blocks)).at("1")


def specimen(entry: OpDef, dictionary: Dictionary) -> Graph:
    """A graph that holds such an op."""
    graph = Graph(dictionary.name)
    graph.add_function("made", Graph(dictionary.name))
    recorded = dictionary.header.recorded
    told = (*entry.attrs, *(entry.variables if recorded else ()))
    attrs = {a.name: _value(a) for a in told if a.element != "graph"}
    chosen = {**attrs, **{a.name: _value(a) for a in entry.variables}}
    inputs: list[OutputPort] = []
    for port in entry.inputs:
        inputs += [graph.parameter(type) for type in _types(port, chosen)]
    types = [type for port in entry.outputs for type in _types(port, chosen)]
    op = graph.add(entry.name, inputs, attrs, outputs=len(types), name="specimen")
    for port, type in zip(op.outputs, types, strict=True):
        port.type = type
    return graph


def _value(attr: Attr) -> Any:
    if attr.is_list:
        count = max(attr.minimum or 0, 2)
        item = attr.allowed[0] if attr.allowed else _VALUES[attr.element]
        return [_within(attr, item)] * count
    if attr.allowed:
        return attr.allowed[-1]
    if attr.default is not None:
        return attr.default
    value = _VALUES[attr.element]
    return (
        max(value, attr.minimum) if attr.minimum is not None else _within(attr, value)
    )


def _within(attr: Attr, value: Any) -> Any:
    """The value, or the nearest one within the bounds of the attribute."""
    if attr.bounds is None:
        return value
    least, most = attr.bounds
    return min(max(value, least), most)


def _types(port: Port, chosen: dict[str, Any]) -> list[Type]:
    """The type of each value that a port stands for."""
    told = chosen[port.type] if isinstance(port.type, str) else port.type
    if port.form == "list":
        return [_type(item) for item in told]
    many = 2 if port.form in ("many", "each") else 1
    number = chosen[port.number] if port.form == "count" else many
    return [_type(told)] * number


def _type(pattern: TypePattern) -> Type:
    return TensorType(pattern, [2]) if isinstance(pattern, DType) else pattern
