"""To TensorFlow: sequences as TensorLists, whose elements may differ in shape."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline
from amanda.types import DType, SequenceType, TensorType
from amanda_std.mappings import rank_of
from amanda_tf.mapping.operands import INT64, as_wide, int_tensor

__all__ = ["WRITE"]

_INT32 = DType("int32")


def _any_shape() -> Any:
    """The element shape of a list that does not limit it."""
    return int_tensor(-1)


def _element_type(value: Any) -> Any:
    """The element type of the tensors in a sequence of the hub."""
    kind = value.type
    element = kind.element if isinstance(kind, SequenceType) else kind
    if not isinstance(element, TensorType) or element.dtype.kind == "unknown":
        raise Decline(f"TensorFlow has no lists of {element}")
    return element.dtype


def _empty_list(o: Any, dtype: Any) -> Any:
    return o.EmptyTensorList(_any_shape(), int_tensor(-1), element_dtype=dtype)


def write_sequence_construct(o: Any, *xs: Any) -> Any:
    found = _empty_list(o, _element_type(o.source.output))
    for x in xs:
        found = o.TensorListPushBack(found, x)
    return found


def write_sequence_empty(o: Any, *, dtype: Any = None) -> Any:
    return _empty_list(o, DType(dtype or "float32"))


def write_sequence_length(o: Any, xs: Any) -> Any:
    return o.Cast(o.TensorListLength(xs), DstT=INT64)


def write_sequence_at(o: Any, xs: Any, at: Any) -> Any:
    """The element at an index, which may count from the end."""
    index = o.Reshape(o.Cast(as_wide(o, at), DstT=_INT32), int_tensor([]))
    from_end = o.AddV2(index, o.TensorListLength(xs))
    index = o.SelectV2(o.Less(index, int_tensor(0)), from_end, index)
    dtype = _element_type(o.source.inputs[0])
    return o.TensorListGetItem(xs, index, _any_shape(), element_dtype=dtype)


def write_sequence_insert(o: Any, xs: Any, x: Any, at: Any = None) -> Any:
    if at is not None:
        raise Decline("TensorFlow inserts at the end of a list only")
    return o.TensorListPushBack(xs, x)


def write_sequence_erase(o: Any, xs: Any, at: Any = None) -> Any:
    if at is not None:
        raise Decline("TensorFlow removes the last element of a list only")
    dtype = _element_type(o.source.inputs[0])
    rest, _ = o.TensorListPopBack(xs, _any_shape(), element_dtype=dtype, outputs=2)
    return rest


def write_concat_from_sequence(
    o: Any, xs: Any, *, axis: int = 0, new_axis: bool = False
) -> Any:
    dtype, none = _element_type(o.source.inputs[0]), int_tensor([], "int64")
    if not new_axis:
        if axis:
            raise Decline("TensorFlow joins the elements of a list along axis 0 only")
        return o.TensorListConcatV2(
            xs, _any_shape(), none, element_dtype=dtype, outputs=2
        )[0]
    stacked = o.TensorListStack(xs, _any_shape(), element_dtype=dtype)
    if not axis:
        return stacked
    rank = rank_of(o.source.output)
    order = list(range(1, rank))
    order.insert(axis % rank, 0)
    return o.Transpose(stacked, int_tensor(order))


def write_split_to_sequence(
    o: Any, x: Any, sizes: Any = None, *, axis: int = 0, keepdims: bool = True
) -> Any:
    """Slices, or parts of computed sizes, along an axis that is moved to the front."""
    rank = rank_of(x)
    if sizes is not None:
        if axis % rank:
            raise Decline("TensorFlow splits into a list along axis 0 only")
        return o.TensorListSplit(x, _any_shape(), as_wide(o, sizes))
    order = list(range(rank))
    order.remove(axis % rank)
    first = o.Transpose(x, int_tensor([axis % rank, *order])) if axis % rank else x
    if keepdims:
        first = o.ExpandDims(first, int_tensor(axis % rank + 1))
    return o.TensorListFromTensor(first, _any_shape())


WRITE: dict[str, Any] = {
    "sequence_construct": write_sequence_construct,
    "sequence_empty": write_sequence_empty,
    "sequence_length": write_sequence_length,
    "sequence_at": write_sequence_at,
    "sequence_insert": write_sequence_insert,
    "sequence_erase": write_sequence_erase,
    "concat_from_sequence": write_concat_from_sequence,
    "split_to_sequence": write_split_to_sequence,
}
