"""To TensorFlow: variables of the hub as resource variables."""

from __future__ import annotations

from typing import Any

from amanda.graph import OutputPort
from amanda.mapping import Decline, constant_of
from amanda.types import DType, RefType, Shape, TensorType
from amanda_tf.notes import VALUE

__all__ = ["WRITE"]


def write_variable(o: Any, initial: Any = None, *, key: str, type: Any = None) -> Any:
    del type
    held = o.source.outputs[0].type
    element = held.element if isinstance(held, RefType) else None
    if not isinstance(element, TensorType) or not isinstance(element.dtype, DType):
        raise Decline("the element type of the variable is unknown")
    shape = element.shape if element.shape.has_rank else Shape(None)
    handle = o.VarHandleOp(dtype=element.dtype, shape=shape, shared_name=key)
    if initial is not None:
        value = constant_of(initial) if isinstance(initial, OutputPort) else None
        if value is None:
            raise Decline("the initial value of the variable is computed")
        handle.op.attrs[VALUE] = value
    return handle


def write_read(o: Any, v: Any) -> Any:
    return o.ReadVariableOp(v, dtype=_dtype(v))


def _dtype(handle: Any) -> DType:
    dtype = handle.op.attrs.get("dtype")
    if not isinstance(dtype, DType):
        raise Decline("the variable is an input of the graph")
    return dtype


def write_assign(o: Any, v: Any, x: Any) -> Any:
    o.op("AssignVariableOp", v, x, outputs=0)
    return o.Identity(x)


def _update(kind: str) -> Any:
    """A rule for an op that changes a variable, and returns its new value."""

    def write(o: Any, v: Any, x: Any) -> Any:
        dtype = _dtype(v)
        o.op(kind, v, x, outputs=0)
        change = o.graph.last_op
        value = o.ReadVariableOp(v, dtype=dtype)
        o.graph.control(change, value.op)
        return value

    return write


WRITE: dict[str, Any] = {
    "variable": write_variable,
    "read": write_read,
    "assign": write_assign,
    "assign_add": _update("AssignAddVariableOp"),
    "assign_subtract": _update("AssignSubVariableOp"),
}
