"""From TensorFlow: variables of resources, and ops on them.

A handle is a variable of the hub, or the value itself where nothing assigns it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import RefType, Shape, TensorType
from amanda_std import ops
from amanda_tf.mapping.shapes.read_indexing import read_strided_slice_update
from amanda_tf.mapping.shapes.read_shapes import READ as READ_SHAPES
from amanda_tf.mapping.variables.resources import variable_key
from amanda_tf.notes import VALUE

__all__ = ["READ", "assign", "read_value"]


def is_variable(handle: Any) -> bool:
    """Whether a handle is a variable of the hub; otherwise it is the value."""
    if handle is None:
        raise Decline("there is no variable")
    return isinstance(handle.port.type, RefType)


def read_value(handle: Any) -> Any:
    """The value of a variable at this point of the order."""
    return ops.read(handle) if is_variable(handle) else handle


def assign(handle: Any, value: Any) -> None:
    """Assign a value to a variable."""
    if not is_variable(handle):
        raise Decline("the variable is not part of the graph")
    ops.assign(handle, value)


def read_var_handle(
    *, dtype: Any, shape: Any = None, context: Any, **_names: Any
) -> Any:
    """VarHandleOp to `variable`."""
    op = context.source
    value = op.attrs.get(VALUE)
    known = shape if isinstance(shape, Shape) and shape.has_rank else None
    held = TensorType(dtype, known)
    key = variable_key(op)
    if not isinstance(value, Tensor):
        return ops.variable(key=key, type=held)
    return ops.variable(context.graph.constant(value).output, key=key, type=held)


def read_read(handle: Any, *, dtype: Any) -> Any:
    """ReadVariableOp to `read`."""
    del dtype
    return read_value(handle)


def read_assign(handle: Any, value: Any, *, dtype: Any = None,
                validate_shape: bool = False) -> Any:  # fmt: skip
    """AssignVariableOp to `assign`."""
    del dtype, validate_shape
    assign(handle, value)
    return ()


def read_assign_add(handle: Any, value: Any, *, dtype: Any = None) -> Any:
    """AssignAddVariableOp to `assign_add`."""
    del dtype
    ops.assign_add(handle, value)
    return ()


def read_assign_subtract(handle: Any, value: Any, *, dtype: Any = None) -> Any:
    """AssignSubVariableOp to `assign_subtract`."""
    del dtype
    ops.assign_subtract(handle, value)
    return ()


def read_is_initialized(handle: Any, *, context: Any) -> Any:
    """True for a variable with a value; others may get one in any call."""
    given = context.source.inputs[0]
    has_value = given is not None and VALUE in given.op.attrs
    if is_variable(handle) and not has_value:
        raise Decline("whether a variable has a value is not part of the hub")
    return ops.identity(np.asarray(True))


def read_destroy(handle: Any, *, ignore_lookup_error: bool = True) -> Any:
    """DestroyResourceOp to nothing."""
    del handle, ignore_lookup_error
    return ()


def read_disable_copy(handle: Any) -> Any:
    """DisableCopyOnRead, which only changes how TensorFlow copies, to nothing."""
    del handle
    return ()


def read_count_up_to(handle: Any, *, limit: int, T: Any) -> Any:  # noqa: N803
    """ResourceCountUpTo to `assert`, and `assign` of the value plus one."""
    del T
    value = read_value(handle)
    ops.assert_(ops.less(value, limit))  # noqa: PT009
    assign(handle, value + 1)
    return value


def read_shape(handle: Any, *, out_type: Any = None) -> Any:
    """VariableShape to `shape_of` of the value."""
    return READ_SHAPES["Shape"](read_value(handle), out_type=out_type or "int32")


def read_gather(
    handle: Any, indices: Any, *, dtype: Any, batch_dims: int = 0,
    validate_indices: bool = True,
) -> Any:  # fmt: skip
    """ResourceGather to `gather` of the value."""
    del dtype, validate_indices
    x = read_value(handle)
    if not batch_dims:
        return ops.gather(x, indices, axis=0)
    return ops.gather_nd(x, ops.expand_dims(indices, [-1]), batch_dims=batch_dims)


def read_gather_nd(handle: Any, indices: Any, *, dtype: Any) -> Any:
    """ResourceGatherNd to `gather_nd` of the value."""
    del dtype
    return ops.gather_nd(read_value(handle), indices)


def _scatter(
    reduction: str, is_nd: bool, change: Callable[[Any], Any] | None = None
) -> Any:
    """A rule that scatters updates into a variable, by rows or by coordinates."""

    def read(handle: Any, indices: Any, updates: Any, **_options: Any) -> Any:
        x = read_value(handle)
        places = indices if is_nd else ops.expand_dims(indices, [-1])
        updates = updates if change is None else change(updates)
        if not is_nd:
            updates = _broadcast_rows(x, indices, updates)
        assign(handle, ops.scatter_nd(x, places, updates, reduction=reduction))
        return ()

    return read


def _broadcast_rows(x: Any, indices: Any, updates: Any) -> Any:
    """A scalar update for every row; other updates as they are."""
    if updates.type.shape.rank:
        return updates
    row = ops.slice_(ops.shape_of(x), [1], [2**31])
    return ops.broadcast_to(updates, ops.concat(ops.shape_of(indices), row))


def read_strided_slice_assign(
    handle: Any, begin: Any, end: Any, strides: Any, value: Any, **masks: Any
) -> Any:
    """ResourceStridedSliceAssign to `assign` of the changed value."""
    x = read_value(handle)
    masks.pop("dtype", None)
    assign(handle, read_strided_slice_update(x, begin, end, strides, value, **masks))
    return ()


READ: dict[str, Any] = {
    "VarHandleOp": read_var_handle,
    "ReadVariableOp": read_read,
    "AssignVariableOp": read_assign,
    "AssignAddVariableOp": read_assign_add,
    "AssignSubVariableOp": read_assign_subtract,
    "VarIsInitializedOp": read_is_initialized,
    "DestroyResourceOp": read_destroy,
    "DisableCopyOnRead": read_disable_copy,
    "ResourceCountUpTo": read_count_up_to,
    "VariableShape": read_shape,
    "ResourceGather": read_gather,
    "ResourceGatherNd": read_gather_nd,
    "ResourceStridedSliceAssign": read_strided_slice_assign,
    "ResourceScatterUpdate": _scatter("none", False),
    "ResourceScatterAdd": _scatter("add", False),
    "ResourceScatterSub": _scatter("add", False, ops.negative),
    "ResourceScatterMul": _scatter("mul", False),
    "ResourceScatterDiv": _scatter("mul", False, ops.reciprocal),
    "ResourceScatterMin": _scatter("min", False),
    "ResourceScatterMax": _scatter("max", False),
    "ResourceScatterNdUpdate": _scatter("none", True),
    "ResourceScatterNdAdd": _scatter("add", True),
    "ResourceScatterNdSub": _scatter("add", True, ops.negative),
    "ResourceScatterNdMin": _scatter("min", True),
    "ResourceScatterNdMax": _scatter("max", True),
}
