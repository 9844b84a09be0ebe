"""Keys of ops that compute the same, for common subexpression elimination."""

from __future__ import annotations

from typing import Any

from amanda.graph import KEEP, Graph, Op
from amanda.tensors import Tensor, value_digest
from amanda.types import Sym
from amanda_std.engine.links import NAMESPACE, get_operation
from amanda_std.hub.effect_order import is_pure

MAX_SHARED_BYTES = 1 << 12
"""Constants up to this size are compared by content; larger ones by identity."""

_PLAIN = (bool, int, str)


def common_subexpression_key(op: Op) -> Any:
    """A key that is equal for ops that compute the same; None for ops that may not
    be shared."""
    if op.bodies or op.control_inputs or op.control_outputs or isinstance(op, Graph):
        return None
    if any(KEEP in port.marks for port in op.outputs):
        return None
    if op.is_constant:
        return _constant_key(op.attrs["value"])
    operation = get_operation(op.type or "")
    if operation is None or op.namespace != NAMESPACE or not is_pure(op):
        return None
    inputs = [None if v is None else id(v) for v in op.inputs]
    if operation.commutative:
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
    """A key in which 1, 1.0 and True differ, and 0.0 and -0.0."""
    if value.__class__ in _PLAIN:
        return value.__class__, value
    if isinstance(value, Sym):
        return repr(value.key)
    parts: list[bytes] = []
    value_digest(value, parts.append)
    return b"".join(parts)
