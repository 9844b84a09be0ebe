"""From nd4j: control flow by bodies, lists of tensors, checks."""

# ruff: noqa: N803 - arguments have the names that they have in nd4j

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import constant_of
from amanda_nd4j.std.arguments import numbers_of
from amanda_nd4j.std.side import CONDITIONAL, LOOP
from amanda_std import ops
from amanda_std.dataflow import (
    array_length,
    concat_elements,
    empty_array,
    gather_elements,
    read_element,
    scatter_elements,
    split_elements,
    with_known_elements,
    write_element,
)
from amanda_std.mappings import cast_to, expect, inline_body

__all__ = ["READ"]


def read_conditional(
    condition: Any, *xs: Any, then_branch: Any, else_branch: Any
) -> Any:
    """Switches and merges to `if`."""
    return tuple(
        ops.if_(
            _truth(condition),
            lambda *v: inline_body(then_branch, v),
            lambda *v: inline_body(else_branch, v),
            *xs,
        )
    )


def read_loop(*xs: Any, cond: Any, body: Any) -> Any:
    """Frames to `while`."""
    xs = with_known_elements(xs, body)
    return tuple(
        ops.while_(
            lambda *v: _truth(inline_body(cond, v)[0]),
            lambda *v: inline_body(body, v),
            *xs,
        )
    )


def _truth(condition: Any) -> Any:
    return ops.reshape(ops.astype(condition, dtype="bool"), [])


def read_identities(*xs: Any) -> Any:
    """identity_n to `identity` of each input."""
    return tuple(ops.identity(x) for x in xs)


def read_assert(condition: Any, *shown: Any) -> Any:
    """Assert to `assert`."""
    ops.assert_(condition, *shown)  # noqa: PT009
    return ()


def read_check_numerics(x: Any, message: Any = None) -> Any:
    """The tensor, if all its numbers are finite."""
    tensor = None if message is None else constant_of(message.port)
    content = b"" if tensor is None else tensor.tolist()
    while isinstance(content, list):
        content = content[0]
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content
    ops.assert_(ops.all(ops.isfinite(x)), x, message=str(text))  # noqa: PT009
    return ops.identity(x)


# -- lists of tensors ------------------------------------------------------------------


def read_create_list(
    size: Any = None, shape: Any = None, *, importDataType: Any = None,
    height: Any = None, expandable: Any = None, clearOnRead: Any = None,
    outputs: int,
) -> Any:  # fmt: skip
    """The list, for each of its outputs: a handle, and a flow that orders accesses."""
    del expandable, clearOnRead
    expect(shape is None, "elements of a shape that is an input")
    count = np.int64((numbers_of(height) or [0])[0]) if size is None else size
    array = empty_array(count, importDataType or "float32", None)
    return (array,) * outputs


def read_write(handle: Any, *rest: Any, idx: Any = None) -> Any:
    """tensorarraywritev3 and write_list: the list with another element."""
    if len(rest) == 3:  # with the list as the accesses before left it
        at, value, handle = rest
    elif len(rest) == 2:
        at, value = rest
    else:
        at, value = np.int64(numbers_of(idx)[0]), rest[0]
    return write_element(handle, at, value)


def read_read(
    handle: Any,
    *rest: Any,
    importDataType: Any = None,
    index: Any = None,
) -> Any:
    """read_list to `gather` of one element."""
    del importDataType
    if not rest:
        return read_element(handle, np.int64(numbers_of(index)[0]))
    return read_element(rest[1] if len(rest) > 1 else handle, rest[0])


def read_gather(
    handle: Any, indices: Any, flow: Any = None, *, dtype: Any = None
) -> Any:
    """gather_list to `gather`."""
    del dtype
    return gather_elements(handle if flow is None else flow, indices)


def read_scatter(
    handle: Any, indices: Any, values: Any, flow: Any = None, *, dtype: Any = None
) -> Any:
    """scatter_list to elements of the stacked array."""
    del dtype
    return scatter_elements(handle if flow is None else flow, indices, values)


def read_size(handle: Any, flow: Any = None) -> Any:
    """size_list to the first dim of the stacked array."""
    return cast_to(array_length(handle if flow is None else flow), "int32")


def read_stack(
    handle: Any, flow: Any = None, *, dtype: Any = None, outputs: int
) -> Any:
    """stack_list: the stacked array; of two outputs, joined elements and lengths."""
    del dtype
    array = handle if flow is None else flow
    return concat_elements(array) if outputs == 2 else ops.identity(array)


def read_split(
    handle: Any, values: Any, lengths: Any, flow: Any = None, *, dtype: Any = None
) -> Any:
    """split_list, for parts of equal length, to `reshape`."""
    del handle, flow, dtype
    return split_elements(values, lengths)


def read_unstack(handle: Any, values: Any = None) -> Any:
    """unstack_list: the rows of a tensor as elements."""
    return ops.identity(handle if values is None else values)


READ: dict[str, Any] = {
    CONDITIONAL: read_conditional,
    LOOP: read_loop,
    "identity_n": read_identities,
    "Assert": read_assert,
    "check_numerics": read_check_numerics,
    "create_list": read_create_list,
    "tensorarraywritev3": read_write,
    "write_list": read_write,
    "read_list": read_read,
    "gather_list": read_gather,
    "scatter_list": read_scatter,
    "size_list": read_size,
    "stack_list": read_stack,
    "split_list": read_split,
    "unstack_list": read_unstack,
}
