"""From TensorFlow: TensorArray, whose flow is the array, and TensorList."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.tensors import Tensor
from amanda.types import Shape
from amanda_std import ops
from amanda_std.dataflow import (
    array_length,
    concat_elements,
    empty_array,
    gather_elements,
    push_element,
    read_element,
    scatter_elements,
    split_elements,
    write_element,
)
from amanda_std.mappings import (
    cast_to,
    expect,
    known_content,
    required_content,
    required_integer,
)

__all__ = ["READ"]


def read_tensor_array(
    size: Any, *, dtype: Any, element_shape: Any = None, **_unused: Any
) -> Any:
    """The handle (nothing uses it) and the flow."""
    array = empty_array(size, dtype, element_shape)
    return array, array


def read_write(handle: Any, at: Any, value: Any, flow: Any, *, context: Any) -> Any:
    """TensorArrayWriteV3 to one element of the stacked array."""
    del handle
    source = context.source.inputs[0]
    grows = source is not None and bool(source.op.attrs.get("dynamic_size"))
    return write_element(flow, at, value, grows=grows)


def read_read(handle: Any, at: Any, flow: Any, *, dtype: Any) -> Any:
    """TensorArrayReadV3 to `gather` of one element."""
    del handle, dtype
    return read_element(flow, at)


def read_gather(
    handle: Any, indices: Any, flow: Any, *, dtype: Any, element_shape: Any = None
) -> Any:
    """TensorArrayGatherV3 to `gather`."""
    del handle, dtype, element_shape
    return gather_elements(flow, indices)


def read_scatter(handle: Any, indices: Any, values: Any, flow: Any) -> Any:
    """TensorArrayScatterV3 to elements of the stacked array."""
    del handle
    return scatter_elements(flow, indices, values)


def read_size(handle: Any, flow: Any) -> Any:
    """TensorArraySizeV3 to the first dim of the stacked array."""
    del handle
    return cast_to(array_length(flow), "int32")


def read_concat(
    handle: Any, flow: Any, *, dtype: Any, element_shape_except0: Any = None
) -> Any:
    """TensorArrayConcatV3 to `reshape` of the stacked array."""
    del handle, dtype, element_shape_except0
    return concat_elements(flow)


def read_split(handle: Any, values: Any, lengths: Any, flow: Any) -> Any:
    """TensorArraySplitV3, for parts of equal length, to `reshape`."""
    del handle, flow
    return split_elements(values, lengths)


def read_close(handle: Any) -> Any:
    """TensorArrayCloseV3 to nothing."""
    del handle
    return ()


# -- TensorList ------------------------------------------------------------------------


def _shape_of_elements(shape: Any) -> Shape | None:
    """A shape given by a vector; None where it is not known, or a scalar."""
    found = known_content(shape)
    if not isinstance(found, list) or any(n < 0 for n in found):
        return None
    return Shape(found)


def read_list_reserve(shape: Any, count: Any, *, element_dtype: Any,
                      shape_type: Any = None) -> Any:  # fmt: skip
    """TensorListReserve to a stacked array of zeros."""
    del shape_type
    return empty_array(count, element_dtype, _shape_of_elements(shape))


def read_list_empty(shape: Any, most: Any, *, element_dtype: Any,
                    shape_type: Any = None) -> Any:  # fmt: skip
    """EmptyTensorList to a stacked array without elements."""
    del most, shape_type
    return empty_array(np.int64(0), element_dtype, _shape_of_elements(shape))


def read_list_from_tensor(x: Any, shape: Any, **_unused: Any) -> Any:
    """TensorListFromTensor to the tensor itself."""
    del shape
    return ops.identity(x)


def read_list_stack(array: Any, shape: Any, *, element_dtype: Any,
                    num_elements: int = -1) -> Any:  # fmt: skip
    """TensorListStack to the stacked array itself."""
    del shape, element_dtype, num_elements
    return ops.identity(array)


def read_list_get(array: Any, at: Any, shape: Any, *, element_dtype: Any) -> Any:
    """TensorListGetItem to `gather` of one element."""
    del shape, element_dtype
    return read_element(array, at)


def read_list_set(
    array: Any, at: Any, item: Any, *, element_dtype: Any,
    resize_if_index_out_of_bounds: bool = False,
) -> Any:  # fmt: skip
    """TensorListSetItem to one element of the stacked array."""
    del element_dtype
    return write_element(array, at, item, grows=resize_if_index_out_of_bounds)


def read_list_length(array: Any) -> Any:
    """TensorListLength to the first dim of the stacked array."""
    return cast_to(array_length(array), "int32")


def read_list_push(array: Any, item: Any, *, element_dtype: Any) -> Any:
    """TensorListPushBack to `concat` with one element."""
    del element_dtype
    return push_element(array, item)


def read_list_pop(array: Any, shape: Any, *, element_dtype: Any) -> Any:
    """TensorListPopBack to `slice` without the last element, and `gather`."""
    del shape, element_dtype
    rest = ops.slice_(array, [0], [-1], [0])
    return rest, ops.gather(array, np.asarray(-1), axis=0)


def read_list_gather(array: Any, indices: Any, shape: Any, *,
                     element_dtype: Any) -> Any:  # fmt: skip
    """TensorListGather to `gather`."""
    del shape, element_dtype
    return gather_elements(array, indices)


def read_list_scatter(
    x: Any, indices: Any, shape: Any, count: Any = None, **_: Any
) -> Any:
    """A list with the rows of a tensor at indices."""
    del shape
    size = -1 if count is None else required_integer(count, "num_elements")
    if size < 0:
        size = max(required_content(indices, "indices"), default=-1) + 1
    dims = [size, *x.shape[1:]]
    static = all(isinstance(n, int) for n in dims)
    is_text = str(x.dtype) == "string"
    zero = Tensor.strings([""], ()) if is_text else ops.number_like(x, value=0)
    zeros = ops.full(dims if static else ops.stack(*dims), zero)
    at = ops.expand_dims(ops.astype(indices, dtype="int64"), [1])
    return ops.scatter_nd(zeros, at, x)


def read_list_concat(
    array: Any, *_: Any, element_dtype: Any, element_shape: Any = None,
    shape_type: Any = None,
) -> Any:  # fmt: skip
    """TensorListConcat to `reshape` of the stacked array."""
    del element_dtype, element_shape, shape_type
    return concat_elements(array)


def read_list_concat_lists(a: Any, b: Any, *, element_dtype: Any) -> Any:
    """TensorListConcatLists to `concat`."""
    del element_dtype
    return ops.concat(a, b, axis=0)


def read_list_resize(array: Any, size: Any) -> Any:
    """Elements cut off, or zeros added, at the end."""
    old, new = array.type.shape.dims[0], required_integer(size, "size")
    expect(isinstance(old, int), "the length of the list is unknown")
    return ops.pad(array, [[0, new - old]], None, [0])


def read_list_element_shape(array: Any, *, shape_type: Any) -> Any:
    """TensorListElementShape to `shape_of` without the first dim."""
    return cast_to(ops.slice_(ops.shape_of(array), [1], [2**31]), shape_type)


def read_list_scatter_into(
    array: Any, x: Any, indices: Any, *, element_dtype: Any
) -> Any:
    """TensorListScatterIntoExistingList to elements of the stacked array."""
    del element_dtype
    return scatter_elements(array, indices, x)


def read_list_split(x: Any, shape: Any, lengths: Any, **_: Any) -> Any:
    """TensorListSplit, for parts of equal length, to `reshape`."""
    del shape
    return split_elements(x, lengths)


READ: dict[str, Any] = {
    "TensorListReserve": read_list_reserve,
    "EmptyTensorList": read_list_empty,
    "TensorListFromTensor": read_list_from_tensor,
    "TensorListStack": read_list_stack,
    "TensorListGetItem": read_list_get,
    "TensorListSetItem": read_list_set,
    "TensorListResize": read_list_resize,
    "TensorListElementShape": read_list_element_shape,
    "TensorListScatterIntoExistingList": read_list_scatter_into,
    "TensorListSplit": read_list_split,
    "TensorListLength": read_list_length,
    "TensorListPushBack": read_list_push,
    "TensorListPopBack": read_list_pop,
    "TensorListGather": read_list_gather,
    "TensorListScatterV2": read_list_scatter,
    "TensorListScatter": read_list_scatter,
    "TensorListConcatV2": read_list_concat,
    "TensorListConcat": read_list_concat,
    "TensorListConcatLists": read_list_concat_lists,
    "TensorArrayV3": read_tensor_array,
    "TensorArrayWriteV3": read_write,
    "TensorArrayReadV3": read_read,
    "TensorArrayGatherV3": read_gather,
    "TensorArrayScatterV3": read_scatter,
    "TensorArraySizeV3": read_size,
    "TensorArrayConcatV3": read_concat,
    "TensorArraySplitV3": read_split,
    "TensorArrayCloseV3": read_close,
}
