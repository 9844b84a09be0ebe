"""Arrays of tensors as one tensor, whose first axis counts the elements.

The value of a list of tensors is that tensor. An array whose element shape is not known
yet has elements of shape [0]: the first write decides.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from amanda.graph import Graph
from amanda.mapping import constant_of
from amanda.types import SequenceType, Shape, TensorType
from amanda_std import ops
from amanda_std.mappings import (
    dims_as_vector,
    expect,
    known_content,
    known_scalar,
    rank_of,
)

_WRITING: Final = ("scatter_nd", "concat")
"""Ops of the hub whose last input is elements that are added to an array."""
_EMPTY_STRING: Final = np.array("", np.dtypes.StringDType())

__all__ = [
    "array_length",
    "concat_elements",
    "empty_array",
    "gather_elements",
    "is_open",
    "is_open_type",
    "push_element",
    "read_element",
    "scatter_elements",
    "split_elements",
    "with_element_type",
    "with_known_elements",
    "with_shape",
    "write_element",
    "written_type",
]


def empty_array(size: Any, dtype: Any, element_shape: Any) -> Any:
    """An array of zeros or empty strings; open where the shape of its elements is not
    known.

    Elements that are arrays themselves have a shape and an element type of their own.
    """
    if str(dtype) == "variant":
        dtype, element_shape = "float32", None
    known = isinstance(element_shape, Shape) and element_shape.is_static
    dims = [int(d) for d in element_shape] if known else [0]
    count = size if isinstance(size, np.integer) else known_scalar(size)
    if count is not None:
        whole = [int(count), *dims]
        return (
            _empty_strings(whole) if _is_text(dtype) else ops.zeros(whole, dtype=dtype)
        )
    first = ops.reshape(ops.astype(size, dtype="int64"), [1])
    shape = ops.concat(first, np.array(dims, "int64"))
    if _is_text(dtype):
        return _empty_strings(shape)
    return ops.full(shape, np.zeros((), str(dtype)))


def _is_text(dtype: Any) -> bool:
    return str(dtype) == "string"


def _empty_strings(shape: Any) -> Any:
    if isinstance(shape, list):
        return np.full(shape, _EMPTY_STRING)
    return ops.full(shape, _EMPTY_STRING)


def _with_more(array: Any, pads: Any) -> Any:
    """The array with zeros, or empty strings, before and behind its elements."""
    return ops.pad(array, pads, _EMPTY_STRING if _is_text(array.dtype) else None, [0])


def is_open(array: Any) -> bool:
    """Whether the shape of the elements is not known yet."""
    return isinstance(array.type, TensorType) and is_open_type(array.type)


def is_open_type(type: TensorType) -> bool:
    """Whether arrays of a type have elements whose shape is not known yet."""
    shape = type.shape
    return shape.has_rank and shape.rank == 2 and Shape(shape.dims[1:]).key == (0,)


def with_element_type(array: Any, element: Any) -> Any:
    """The array, with zeros like this element where it is open.

    One of arrays or optionals has the element type of what is written to it.
    """
    if array.dtype != element.dtype:
        array = ops.astype(array, dtype=element.dtype)
    if not is_open(array) or element.type.shape.key == (0,):
        return array
    return with_shape(array, ops.shape_of(element), element.dtype)


def with_shape(array: Any, shape: Any, dtype: Any) -> Any:
    """Zeros of an element shape and type, as many as the array has elements."""
    whole = ops.concat(ops.slice_(ops.shape_of(array), [0], [1]), shape)
    known = known_content(whole)
    if _is_text(dtype):
        return _empty_strings(whole if known is None else known)
    zero = ops.number_like(array, value=0)
    if array.dtype != dtype:
        zero = ops.astype(zero, dtype=dtype)
    return ops.full(whole if known is None else known, zero)


def written_type(body: Graph, index: int) -> TensorType | None:
    """The type of the elements that a body writes to its array `index`."""
    value, start = body.results[index], body.parameters[index]
    while value is not None and value is not start:
        op = value.op
        rows = op.inputs[-1].type if op.type in _WRITING and op.inputs[-1] else None
        if isinstance(rows, TensorType) and rows.shape.has_rank:
            return TensorType(rows.dtype, rows.shape.dims[1:])
        if op.bodies:
            inner = [written_type(b, value.index) for b in op.bodies.values()
                     if len(b.results) == len(op.outputs)]  # fmt: skip
            return next((type for type in inner if type is not None), None)
        value = op.inputs[0] if op.inputs else None
    return None


def with_known_elements(xs: tuple[Any, ...], body: Any) -> tuple[Any, ...]:
    """The initial values of a loop, arrays with the elements that its body writes."""
    return tuple(_with_known_element(x, xs, body, i) for i, x in enumerate(xs))


def _with_known_element(x: Any, xs: tuple[Any, ...], body: Any, index: int) -> Any:
    if not (_is_tensor(x) and is_open(x)):
        return x
    element = written_type(body, index)
    if element is None:
        return x
    return with_shape(x, dims_as_vector(element.shape.dims, xs), element.dtype)


def _is_tensor(value: Any) -> bool:
    return isinstance(value.type, TensorType)


def write_element(array: Any, at: Any, element: Any, *, grows: bool = False) -> Any:
    """The array with another element at a place.

    It grows where a constant place is beyond its end, others if `grows`. It becomes a
    sequence where elements differ in shape.
    """
    array = with_element_type(array, element)
    if isinstance(array.type, SequenceType) or _differs(array, element):
        rest = _as_sequence(array)
        index = ops.astype(at, dtype="int64")
        rest = ops.sequence_erase(rest, index)
        return ops.sequence_insert(rest, element, index)
    shape = array.type.shape
    place, size = known_scalar(at), shape.dims[0] if shape.has_rank else None
    if place is not None and isinstance(size, int):
        if place >= size:
            array = _with_more(array, [[0, int(place) + 1 - size]])
    elif grows:
        more = ops.astype(at, dtype="int64") + np.int64(1) - array_length(array)
        end = ops.reshape(ops.maximum(more, np.int64(0)), [1, 1])
        array = _with_more(array, ops.pad(end, [[0, 0], [1, 0]]))
    rows = ops.reshape(ops.astype(at, dtype="int64"), [1, 1])
    return ops.scatter_nd(array, rows, ops.expand_dims(element, [0]))


def push_element(array: Any, element: Any) -> Any:
    """The array with one more element at its end."""
    if isinstance(array.type, SequenceType):
        return ops.sequence_insert(array, element)
    array = with_element_type(array, element)
    if _differs(array, element):
        return ops.sequence_insert(_as_sequence(array), element)
    return ops.concat(array, ops.expand_dims(element, [0]), axis=0)


def _differs(array: Any, element: Any) -> bool:
    """Whether an element has another static shape than those of the array."""
    own, new = array.type.shape, element.type.shape
    if not (own.has_rank and new.has_rank):
        return False
    pairs = zip(own.dims[1:], new.dims, strict=False)
    return own.rank != new.rank + 1 or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs
    )


def _as_sequence(array: Any) -> Any:
    if isinstance(array.type, SequenceType):
        return array
    return ops.split_to_sequence(array, axis=0, keepdims=False)


def read_element(array: Any, at: Any) -> Any:
    """The element at a place."""
    if isinstance(array.type, SequenceType):
        return ops.sequence_at(array, ops.astype(at, dtype="int64"))
    return ops.gather(array, at, axis=0)


def array_length(array: Any) -> Any:
    """The number of elements, a scalar."""
    if isinstance(array.type, SequenceType):
        return ops.sequence_length(array)
    return ops.reshape(ops.slice_(ops.shape_of(array), [0], [1]), [])


def gather_elements(array: Any, indices: Any) -> Any:
    """Elements stacked, in the order of indices."""
    if isinstance(array.type, SequenceType):
        array = ops.concat_from_sequence(array, axis=0, new_axis=True)
    if array.type.shape.has_rank and _counts_up(indices, array.type.shape.dims[0]):
        return ops.identity(array)
    return ops.gather(array, indices, axis=0)


def scatter_elements(array: Any, indices: Any, values: Any) -> Any:
    """The array with the rows of a tensor as elements at these indices."""
    if _counts_up(indices, values.type.shape.dims[0]) and (
        is_open(array) or array.type.shape.dims[0] == values.type.shape.dims[0]
    ):
        return ops.identity(values)
    found = known_content(indices)
    if is_open(array):
        size = array.type.shape.dims[0]
        if found and isinstance(size, int) and max(found) >= size:
            array = empty_array(np.int64(max(found) + 1), array.dtype, None)
        array = with_element_type(array, ops.gather(values, np.asarray(0), axis=0))
    elif found and max(found) >= int(array.type.shape.dims[0]):
        more = max(found) + 1 - int(array.type.shape.dims[0])
        array = _with_more(array, [[0, more]])
    at = ops.expand_dims(ops.astype(indices, dtype="int64"), [1])
    return ops.scatter_nd(array, at, values)


def _counts_up(indices: Any, size: Any) -> bool:
    """Whether indices are 0, 1, ... up to a size."""
    if Shape([size]).key != indices.type.shape.key:
        return False
    found = known_content(indices)
    if found is not None:
        return bool(found == list(range(len(found))))
    op = indices.port.op
    return bool(op.type == "range" and _is_plain_range(op))


def _is_plain_range(op: Any) -> bool:
    start, _, step = op.inputs
    ends = [constant_of(v) for v in (start, step)]
    return [None if e is None else int(e.numpy()) for e in ends] == [0, 1]


def concat_elements(array: Any) -> tuple[Any, Any]:
    """The elements joined along their first axis, and the length of each."""
    if isinstance(array.type, SequenceType):
        lengths = ops.sequence_map(lambda x: ops.dim(x, axis=0), array)[0]
        stacked = ops.concat_from_sequence(lengths, axis=0, new_axis=True)
        return ops.concat_from_sequence(array, axis=0), stacked
    expect(rank_of(array) > 1, "elements of an unknown shape")
    dims = array.type.shape.dims
    tail = ops.slice_(ops.shape_of(array), [2], [2**31])
    shape = ops.concat(np.array([-1], "int64"), tail)
    known = known_content(shape)
    joined = ops.reshape(array, shape if known is None else known)
    if isinstance(dims[0], int) and isinstance(dims[1], int):
        return joined, np.full(dims[0], dims[1], "int64")
    both = ops.slice_(ops.shape_of(array), [0], [2])
    count, size = ops.split(both, axis=0, outputs=2)
    return joined, ops.full(count, ops.reshape(size, []))


def split_elements(values: Any, lengths: Any) -> Any:
    """Parts of a tensor as elements; a sequence where they differ in length."""
    found = known_content(lengths)
    if found is None or len(set(found)) > 1:
        return ops.split_to_sequence(values, lengths if found is None else found)
    tail = ops.slice_(ops.shape_of(values), [1], [2**31])
    size = found[0] if found else 0
    shape = ops.concat(np.array([len(found), size], "int64"), tail)
    known = known_content(shape)
    return ops.reshape(values, shape if known is None else known)
