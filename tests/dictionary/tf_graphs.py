"""Frozen TensorFlow graphs as graphs of amanda/tensorflow: the least validation needs.

Not the TensorFlow format, which is a plug-in: the wire format is read by hand, the
content of tensors is passed over, and types are those that attributes say.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from amanda.dictionary import Dictionary, OpDef
from amanda.graph import Graph, Op
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, RefType, Shape, Sym, TensorType, Type

__all__ = ["graph_of"]

_TYPES = (  # by their number
    *("?", "float32", "float64", "int32", "uint8", "int16", "int8", "string"),
    *("complex64", "int64", "bool", "qint8", "quint8", "qint32", "bfloat16", "qint16"),
    *("quint16", "uint16", "complex128", "half", "resource", "variant", "uint32"),
    "uint64",
)


def graph_of(data: bytes, dictionary: Dictionary) -> Graph:
    """The nodes of a serialized GraphDef."""
    graph = Graph(dictionary.name)
    nodes = [_node(value) for number, value in _fields(data) if number == 1]
    ops: dict[str, Op] = {}
    with graph.wiring():
        for name, kind, inputs, attrs in nodes:
            entry = dictionary[kind]
            data_inputs = [i for i in inputs if not i.startswith("^")]
            ops[name] = op = graph.add(
                kind,
                [None] * len(data_inputs),
                attrs,
                name=name,
                outputs=len(list(_output_types(entry, attrs))),
                feedback=entry.feedback,
            )
            for port, type in zip(op.outputs, _output_types(entry, attrs), strict=True):
                port.type = type
        for name, _, inputs, _ in nodes:
            for i, text in enumerate(i for i in inputs if not i.startswith("^")):
                source, _, index = text.partition(":")
                ops[name].input_ports[i].connect(ops[source].outputs[int(index or 0)])
    for name, _, inputs, _ in nodes:
        for text in inputs:
            if text.startswith("^") and not ops[name].feedback:
                graph.control(ops[text[1:]], ops[name])
    return graph


def _output_types(entry: OpDef, attrs: dict[str, Any]) -> Iterator[Type | None]:
    for port in entry.outputs:
        told = attrs.get(port.type) if isinstance(port.type, str) else port.type
        types = told if isinstance(told, list) else [told]
        for dtype in types * (attrs[port.number] if port.number else 1):
            type = TensorType(dtype) if isinstance(dtype, DType) else None
            yield RefType(type) if port.ref and type is not None else type


def _node(data: bytes) -> tuple[str, str, list[str], dict[str, Any]]:
    name = kind = ""
    inputs: list[str] = []
    attrs: dict[str, Any] = {}
    for number, value in _fields(data):
        if number == 1:
            name = value.decode()
        elif number == 2:
            kind = value.decode()
        elif number == 3:
            inputs.append(value.decode())
        elif number == 5:
            row = dict(_fields(value))
            attrs[row[1].decode()] = _value(row.get(2, b""))
    return name, kind, inputs, attrs


def _value(data: bytes) -> Any:
    for number, value in _fields(data):
        if number == 1:
            return list(_items(value))
        if number in _ONE:
            return _ONE[number](value)
    return None


def _items(data: bytes) -> Iterator[Any]:
    for number, value in _fields(data):
        if number in (3, 5, 6) and isinstance(value, bytes):
            yield from (_ONE[number](item) for item in _varints(value))
        elif number == 4:
            yield from (item[0] for item in struct.iter_unpack("<f", value))
        else:
            yield _ONE[number](value)


def _dtype(number: int) -> DType:
    return DType(_TYPES[number % 100])


def _shape(data: bytes) -> Shape:
    fields = list(_fields(data))
    if any(number == 3 and value for number, value in fields):
        return Shape(None)
    sizes = [dict(_fields(value)).get(1, 0) for number, value in fields if number == 2]
    return Shape([Sym.unknown() if size >= 1 << 63 else size for size in sizes])


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_ONE: dict[int, Any] = {
    2: lambda value: value.decode("utf-8", "replace"),
    3: _signed,
    4: lambda value: struct.unpack("<f", value)[0],
    5: bool,
    6: _dtype,
    7: _shape,
    8: lambda _: Tensor.splat("float32", (), 0),
    10: lambda value: FunctionRef(dict(_fields(value))[1].decode()),
}


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values of a message of protocol buffers."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(wire)
        if size is None:
            size, at = _varint(data, at)
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value
