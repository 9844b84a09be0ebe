"""Common subexpression elimination."""

from __future__ import annotations

from typing import Any

from amanda.graph import KEEP, Graph, Op
from amanda.tensors import Tensor, value_digest
from amanda.types import Sym
from amanda_std.hub.effect_order import is_pure
from amanda_std.hub.op_access import is_std, operation_of

MAX_SHARED_BYTES = 1 << 12
"""Constants up to this size are compared by content; larger ones by identity."""


def share(graph: Graph) -> int:
    """Replace ops that compute the same by one, graph by graph; returns how many.

    Operands of commutative ops are compared in any order. Ops with bodies, control
    edges or values marked to be kept stay."""
    count = 0
    for part in graph.graphs():
        seen: dict[Any, Op] = {}
        for op in part:
            key = common_subexpression_key(op)
            if key is None:
                continue
            first = seen.setdefault(key, op)
            if first is not op:
                part.replace(op, first.outputs, "share")
                count += 1
    return count


def common_subexpression_key(op: Op) -> Any:
    """What two ops have in common if they compute the same; None if they may not be
    shared."""
    if op.bodies or op.control_inputs or op.control_outputs or isinstance(op, Graph):
        return None
    if any(KEEP in port.marks for port in op.outputs):
        return None
    if op.is_constant:
        return _constant_key(op.attrs["value"])
    if not is_std(op) or not is_pure(op):
        return None
    inputs = [None if v is None else id(v) for v in op.inputs]
    if operation_of(op).commutative:
        inputs.sort(key=lambda i: i or 0)
    attrs = (
        tuple(sorted((k, _exact_key(v)) for k, v in op.attrs.items()))
        if op.has_attrs
        else ()
    )
    return op.type, tuple(inputs), attrs, len(op.outputs)


def _constant_key(tensor: Tensor) -> Any:
    if tensor.nbytes > MAX_SHARED_BYTES:
        return ("constant", id(tensor))
    return ("constant", tensor.digest())


def _exact_key(value: Any) -> Any:
    """A key that tells apart 1, 1.0 and True, 0.0 and -0.0."""
    if isinstance(value, Sym):
        return repr(value.key)
    parts: list[bytes] = []
    value_digest(value, parts.append)
    return b"".join(parts)
