"""Models that the onnx package brings, as graphs: the least that validation needs.

Not the ONNX format, which is a plug-in: weights are read by their type only.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from amanda.graph import Graph, OutputPort
from amanda.tensors import Tensor
from amanda.types import (
    DType,
    MapType,
    OptionalType,
    SequenceType,
    Sym,
    TensorType,
    Type,
)

__all__ = ["cases", "graph_of"]

_NAMES = {"float8e4m3fn": "float8_e4m3fn", "float6e2m3": "float6_e2m3fn"}
_NAMES |= {"float6e3m2": "float6_e3m2fn"}


def cases() -> Iterator[tuple[str, Any]]:
    """Every model of the backend suite: name and ModelProto; needs onnx."""
    from onnx.backend.test.case.model import collect_testcases as models
    from onnx.backend.test.case.node import collect_testcases as nodes

    seen = set()
    for case in [*nodes(None), *models()]:
        if case.model is not None and case.name not in seen:
            seen.add(case.name)
            yield case.name, case.model


def graph_of(model: Any) -> Graph:
    """A ModelProto as a graph of amanda/onnx."""
    imports = {row.domain: row.version for row in model.opset_import}
    graph = Graph(f"amanda/onnx/{imports.get('', imports.get('ai.onnx', 1))}")
    graph.imports.update(imports)
    for function in model.functions:
        made = graph.add_function(function.name, Graph(graph.namespace))
        own = {row.domain: row.version for row in function.opset_import}
        made.imports.update(own)
        if "" in own:
            made.namespace = f"amanda/onnx/{own['']}"
        values: dict[str, OutputPort] = {
            name: made.parameter(name=name) for name in function.input
        }
        _nodes(made, function.node, values, own)
    _fill(graph, model.graph, {}, imports)
    return graph


def _fill(
    graph: Graph, proto: Any, around: dict[str, OutputPort], imports: dict[str, int]
) -> None:
    types = {row.name: _type(row.type) for row in [*proto.value_info, *proto.output]}
    values = dict(around)
    weights = {tensor.name for tensor in proto.initializer}
    for row in proto.input:
        if row.name not in weights:
            values[row.name] = graph.parameter(_type(row.type), row.name)
    for tensor in proto.initializer:
        values[tensor.name] = graph.constant(_weight(tensor)).output
    _nodes(graph, proto.node, values, imports, types)
    for row in proto.output:
        graph.result(values.get(row.name), row.name)


def _nodes(
    graph: Graph,
    nodes: Any,
    values: dict[str, OutputPort],
    imports: dict[str, int],
    types: dict[str, Type | None] | None = None,
) -> None:
    for node in nodes:
        attrs, bodies = {}, {}
        for attr in node.attribute:
            kind = attr.AttributeType.Name(attr.type)
            if kind == "GRAPH":
                bodies[attr.name] = Graph(graph.namespace, outer=graph)
                _fill(bodies[attr.name], attr.g, values, imports)
            else:
                attrs[attr.name] = _value(attr, kind)
        inputs = [values.get(name) if name else None for name in node.input]
        domain = node.domain.removeprefix("ai.")
        space = None
        if domain not in ("", "onnx"):
            version = imports.get(node.domain, 1)
            known = domain.startswith("onnx.")
            space = (
                f"amanda/{domain}/{version}" if known else f"onnx/{domain}/{version}"
            )
        made = graph.add(
            node.op_type,
            inputs,
            attrs,
            outputs=len(node.output),
            bodies=bodies,
            namespace=space,
        )
        for name, port in zip(node.output, made.outputs, strict=True):
            port.name = name or None
            port.type = (types or {}).get(name)
            values[name] = port


def _value(attr: Any, kind: str) -> Any:
    from onnx import helper

    if kind == "TENSOR":
        return _weight(attr.t)
    if kind == "TYPE_PROTO":
        return _type(attr.tp)
    if kind == "SPARSE_TENSOR":
        return {"dims": list(attr.sparse_tensor.dims)}
    value = helper.get_attribute_value(attr)
    if isinstance(value, bytes):
        return value.decode()
    if kind.endswith("S"):
        return [item.decode() if isinstance(item, bytes) else item for item in value]
    return value


def _weight(proto: Any) -> Tensor:
    """A tensor of the same type; nobody looks at its content."""
    dtype, shape = _dtype(proto.data_type), tuple(proto.dims)
    if dtype.kind == "string":
        return Tensor.strings([b""] * prod(shape), shape)
    return Tensor.splat(dtype, shape, 0)


def _dtype(number: int) -> DType:
    from onnx import TensorProto

    name = TensorProto.DataType.Name(number).lower()
    return DType(_NAMES.get(name, name))


def _type(proto: Any) -> Type | None:
    match proto.WhichOneof("value"):
        case "tensor_type":
            row = proto.tensor_type
            if not row.elem_type:
                return None
            dims: list[Any] = []
            for dim in row.shape.dim:
                known = dim.WhichOneof("value") == "dim_value"
                dims.append(dim.dim_value if known else Sym.unknown())
            shape = dims if row.HasField("shape") else None
            return TensorType(_dtype(row.elem_type), shape)
        case "sequence_type":
            inner = _type(proto.sequence_type.elem_type)
            return None if inner is None else SequenceType(inner)
        case "optional_type":
            inner = _type(proto.optional_type.elem_type)
            return None if inner is None else OptionalType(inner)
        case "map_type":
            inner = _type(proto.map_type.value_type)
            key = _dtype(proto.map_type.key_type)
            return None if inner is None else MapType(key, inner)
    return None
