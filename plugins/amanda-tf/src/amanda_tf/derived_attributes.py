"""Attributes of nodes that follow from their inputs: element types and numbers.

In a GraphDef, `Add` of two float tensors has `T: DT_FLOAT`, and `Pack` of three values
`N: 3`. Graphs that no file had lack them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from amanda.dictionary import bind_ports
from amanda.graph import Graph, Op, OutputPort
from amanda.types import DType, RefType, ResourceType, TensorType, Type, resource
from amanda_tf.nodes.references import output_types

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary, OpDef, Port

__all__ = ["add_derived_attributes", "element_type"]


def element_type(type: Type | None) -> DType | None:
    """The element type of a value, also of a reference; None where it is unknown."""
    if isinstance(type, RefType):
        type = type.type if hasattr(type, "type") else type
    if isinstance(type, ResourceType):
        return resource
    if not isinstance(type, TensorType) or not isinstance(type.dtype, DType):
        return None
    return None if type.dtype.kind == "unknown" else type.dtype


def add_derived_attributes(graph: Graph, dictionary: Dictionary) -> None:
    """Add what the inputs of each op determine, and the types of its outputs."""
    for part in graph.graphs():
        for op in part:
            if op.own_namespace is None and not isinstance(op, Graph):
                entry = dictionary.get(op.type or "")
                if entry is not None:
                    _complete(op, entry)


def _complete(op: Op, entry: OpDef) -> None:
    known = {a.name for a in entry.variables}
    for key, value in _derived_values(op, entry):
        if key in known and key not in op.attrs and value is not None:
            op.attrs[key] = value
    types = output_types(entry, op.attrs)
    for port, type in zip(op.outputs, types, strict=False):
        if port.type is None or element_type(port.type) is None:
            port.type = type


def _derived_values(op: Op, entry: OpDef) -> Iterator[tuple[str, Any]]:
    """Names and values of attributes, from the inputs, then from the outputs."""
    lists = {v.name: v.is_list for v in entry.variables}
    for ports, values in ((entry.inputs, op.inputs), (entry.outputs, op.outputs)):
        bindings = bind_ports(ports, len(values), entry, op.attrs).bindings
        groups: dict[str, tuple[Port, list[OutputPort | None]]] = {}
        for binding, value in zip(bindings or (), values, strict=False):
            name = binding.port.name or str(binding.position)
            groups.setdefault(name, (binding.port, []))[1].append(value)
        for port in ports:
            port, found = groups.get(port.name or "", (port, []))
            dtypes = [element_type(v.type) if v is not None else None for v in found]
            if port.number:
                yield port.number, len(found)
            if isinstance(port.type, str) and None not in dtypes:
                if lists.get(port.type):
                    yield port.type, dtypes
                elif dtypes:
                    yield port.type, dtypes[0]
