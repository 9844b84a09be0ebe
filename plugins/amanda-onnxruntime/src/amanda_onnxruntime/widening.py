"""Wider dtypes where no array holds a dtype, or onnxruntime has no kernel for it.

Results stay exactly the same. Values of 2 or 4 bits are fed and returned as 8 bits. An
op without a kernel for a narrow dtype is computed in a wider one, and each result is
cast back: rounded, as ops on narrow floats are defined, or wrapped, as integers are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from amanda.graph import Graph, Op, OutputPort
from amanda.types import DType, TensorType, Type, bfloat16, string

__all__ = ["has_narrow_ports", "types_like", "widen_ops", "widen_ports"]

_CODES: Final = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6,
    "float16": 10, "uint32": 12, "bfloat16": 16, "uint4": 21, "int4": 22,
    "uint2": 25, "int2": 26,
}  # fmt: skip
"""ONNX's codes of dtypes."""
_PORTS: Final = {"uint4": "uint8", "int4": "int8", "uint2": "uint8", "int2": "int8"}
_OPS: Final = {
    "bfloat16": "float32", "float16": "float32",
    "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32",
}  # fmt: skip
_DTYPE_DEPENDENT: Final = frozenset({"Cast", "BitCast", "BitShift", "CastLike"})
"""Ops that compute something else in another dtype."""


def has_narrow_ports(graph: Graph) -> bool:
    """Whether the graph has inputs or outputs of 2 or 4 bits."""
    values = [*graph.parameters, *graph.outputs, *graph.results]
    types = [value.type for value in values if value is not None]
    return any(_narrow_dtype(type_, _PORTS) is not None for type_ in types)


def widen_ports(graph: Graph) -> tuple[list[DType | None], list[DType | None]]:
    """Widen inputs and outputs of 2 or 4 bits, in place.

    Returns the former dtypes of inputs and outputs, None where nothing changed.
    """
    inputs: list[DType | None] = []
    for port in graph.parameters:
        inputs.append(_narrow_dtype(port.type, _PORTS))
        if inputs[-1] is not None:
            with graph.before(next(iter(graph), None)):
                cast = _add_cast(graph, port, inputs[-1])
            for user in [u for u in port.users if u.op is not cast.op]:
                user.connect(cast)
            port.type = _wide_type(port.type, _PORTS)
    outputs: list[DType | None] = []
    rows = list(zip(graph.outputs, graph.results, strict=True))
    for index, (output, value) in enumerate(rows):
        declared = output.type or (None if value is None else value.type)
        outputs.append(_narrow_dtype(declared, _PORTS))
        if outputs[-1] is not None and value is not None:
            wide = _wide_type(declared, _PORTS)
            assert isinstance(wide, TensorType)
            cast = _add_cast(graph, value, wide.dtype)
            cast.type = output.type = wide
            graph.result_ports[index].connect(cast)
    return inputs, outputs


def widen_ops(graph: Graph, types: Iterable[str]) -> int:
    """Compute ops of these types in wider dtypes, in place; returns their number.

    All values need types.
    """
    wanted, count = set(types) - _DTYPE_DEPENDENT, 0
    for part in list(graph.graphs()):
        for op in list(part):
            if op.type in wanted and op.own_namespace is None and not op.bodies:
                count += _widen_op(part, op)
    return count


def types_like(graph: Graph, type: str) -> list[str]:
    """An op type without a kernel for a dtype, and those that probably have none, too.

    Of bfloat16 these are all ops that compute, as onnxruntime has kernels for the CPU
    of those that only move elements."""
    ops = [op for op in graph.walk() if op.own_namespace is None]
    here = [op for op in ops if op.type == type]
    if not any(map(_computes_bfloat16, here)):
        return [type]
    found = (op.type for op in ops if op.type and _computes_bfloat16(op))
    return list(dict.fromkeys([type, *found]))


def _computes_bfloat16(op: Op) -> bool:
    """Whether an op has values of bfloat16, and is not defined for strings."""
    types = [v.type for v in (*op.inputs, *op.outputs) if v is not None]
    if not any(isinstance(t, TensorType) and t.dtype == bfloat16 for t in types):
        return False
    definition = op.definition
    variables = () if definition is None else definition.variables
    return not any(string in variable.allowed for variable in variables)


def _widen_op(graph: Graph, op: Op) -> bool:
    values = [value for value in (*op.inputs, *op.outputs) if value is not None]
    if not any(_narrow_dtype(value.type, _OPS) is not None for value in values):
        return False
    with graph.before(op):
        for port in op.input_ports:
            value = port.source
            if value is None:
                continue
            wide = _wide_type(value.type, _OPS)
            if wide is not value.type and isinstance(wide, TensorType):
                cast = _add_cast(graph, value, wide.dtype)
                cast.type = wide
                port.connect(cast)
    following = next((o for o in graph if o.previous is op), None)
    for output in op.outputs:
        narrow = _narrow_dtype(output.type, _OPS)
        if narrow is None:
            continue
        users = list(output.users)
        with graph.before(following):
            cast = _add_cast(graph, output, narrow)
        cast.type, output.type = output.type, _wide_type(output.type, _OPS)
        cast.name, output.name = output.name, None
        for user in users:
            user.connect(cast)
    return True


def _add_cast(graph: Graph, value: OutputPort, dtype: object) -> OutputPort:
    return graph.add("Cast", [value], {"to": _CODES[str(dtype)]}).output


def _narrow_dtype(type_: Type | None, table: Mapping[str, str]) -> DType | None:
    """The dtype of a type, where the table widens it."""
    if isinstance(type_, TensorType) and str(type_.dtype) in table:
        return DType(str(type_.dtype))
    return None


def _wide_type(type_: Type | None, table: Mapping[str, str]) -> Type | None:
    dtype = _narrow_dtype(type_, table)
    if dtype is None or not isinstance(type_, TensorType):
        return type_
    return TensorType(table[str(dtype)], type_.shape)
