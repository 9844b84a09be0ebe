"""Numbers that the runtime has and no array holds, or has no kernel for, made wider.

Both ways are exact. A number of 4 or 2 bits goes in and out as one of 8. An op without
a kernel for short numbers is computed in wider ones, and each result is rounded to what
it would have been: as an op of short floats is defined, and as whole numbers wrap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from amanda.graph import Graph, Op, OutputPort
from amanda.types import DType, TensorType, Type

__all__ = ["ends_widened", "has_narrow_ends", "ops_widened"]

# The numbers that ONNX has for element types.
_CODES: Final = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6,
    "float16": 10, "uint32": 12, "bfloat16": 16, "uint4": 21, "int4": 22,
    "uint2": 25, "int2": 26,
}  # fmt: skip
_ENDS: Final = {"uint4": "uint8", "int4": "int8", "uint2": "uint8", "int2": "int8"}
_WIDER: Final = {
    "bfloat16": "float32", "float16": "float32",
    "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32",
}  # fmt: skip
_NEVER: Final = frozenset({"Cast", "BitCast", "BitShift", "CastLike"})
"""What would mean something else of wider numbers."""


def has_narrow_ends(graph: Graph) -> bool:
    """Are there inputs or outputs of few bits?"""
    values = [*graph.parameters, *graph.outputs, *graph.results]
    types = [value.type for value in values if value is not None]
    return any(_swapped(type_, _ENDS) is not None for type_ in types)


def ends_widened(graph: Graph) -> tuple[list[DType | None], list[DType | None]]:
    """Change inputs and outputs of few bits; the element types that they had."""
    inputs: list[DType | None] = []
    for port in graph.parameters:
        inputs.append(_swapped(port.type, _ENDS))
        if inputs[-1] is not None:
            first = next(iter(graph), None)
            with graph.before(first):
                cast = _cast(graph, port, inputs[-1])
            for user in [u for u in port.users if u.op is not cast.op]:
                user.connect(cast)
            port.type = _wider(port.type, _ENDS)
    outputs: list[DType | None] = []
    rows = list(zip(graph.outputs, graph.results, strict=True))
    for index, (outside, value) in enumerate(rows):
        told = outside.type or (None if value is None else value.type)
        outputs.append(_swapped(told, _ENDS))
        if outputs[-1] is not None and value is not None:
            wide = _wider(told, _ENDS)
            assert isinstance(wide, TensorType)
            cast = _cast(graph, value, wide.dtype)
            cast.type = outside.type = wide
            graph.result_ports[index].connect(cast)
    return inputs, outputs


def ops_widened(graph: Graph, kinds: Iterable[str]) -> int:
    """Compute ops of these types in wider numbers; how many that were.

    The types of all values have to be there.
    """
    wanted, count = set(kinds) - _NEVER, 0
    for part in list(graph.graphs()):
        for op in list(part):
            if op.type in wanted and op.own_namespace is None and not op.bodies:
                count += _op_widened(part, op)
    return count


def _op_widened(graph: Graph, op: Op) -> bool:
    values = [value for value in (*op.inputs, *op.outputs) if value is not None]
    if not any(_swapped(value.type, _WIDER) is not None for value in values):
        return False
    with graph.before(op):
        for place in op.input_ports:
            value = place.source
            if value is None:
                continue
            wide = _wider(value.type, _WIDER)
            if wide is not value.type and isinstance(wide, TensorType):
                cast = _cast(graph, value, wide.dtype)
                cast.type = wide
                place.connect(cast)
    following = next((o for o in graph if o.previous is op), None)
    for port in op.outputs:
        old = _swapped(port.type, _WIDER)
        if old is None:
            continue
        users = list(port.users)
        with graph.before(following):
            cast = _cast(graph, port, old)
        cast.type, port.type = port.type, _wider(port.type, _WIDER)
        cast.name, port.name = port.name, None
        for user in users:
            user.connect(cast)
    return True


def _cast(graph: Graph, value: OutputPort, dtype: object) -> OutputPort:
    return graph.add("Cast", [value], {"to": _CODES[str(dtype)]}).output


def _swapped(type_: Type | None, table: dict[str, str]) -> DType | None:
    """The element type, where it is one of the table."""
    if isinstance(type_, TensorType) and str(type_.dtype) in table:
        return DType(str(type_.dtype))
    return None


def _wider(type_: Type | None, table: dict[str, str]) -> Type | None:
    found = _swapped(type_, table)
    if found is None or not isinstance(type_, TensorType):
        return type_
    return TensorType(table[str(found)], type_.shape)
