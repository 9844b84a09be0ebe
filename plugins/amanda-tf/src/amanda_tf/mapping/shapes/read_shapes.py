"""From TensorFlow: shapes, slices, joins, and generated tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.tensors import Tensor
from amanda_std import ops
from amanda_std.dataflow import (
    broadcast_of_shapes,
    diagonal_of_tensor,
    pad_symmetric,
    strided_slice,
    tensor_of_diagonal,
    transpose_by,
)
from amanda_std.mappings import (
    cast_to,
    expect,
    known_content,
    known_or_value,
    rank_of,
    required_content,
    required_integer,
)
from amanda_tf.mapping.reductions.read_reductions import axes_of
from amanda_tf.mapping.shapes.read_computed_axes import (
    concat_along,
    content_or_none,
    integer_or_none,
    split_along,
)

__all__ = ["READ", "read_mirror_pad"]

_END = 2**63 - 1


def read_shape(x: Any, *, out_type: Any = None) -> Any:
    """Shape to `shape_of`."""
    return cast_to(ops.shape_of(x), out_type or "int32")


def read_shape_n(*xs: Any, out_type: Any = None) -> Any:
    """ShapeN to `shape_of` of each input."""
    return tuple(read_shape(x, out_type=out_type) for x in xs)


def read_size(x: Any, *, out_type: Any = None) -> Any:
    """Size to `size`."""
    return cast_to(ops.size(x), out_type or "int32")


def read_rank(x: Any) -> Any:
    """Rank to a constant."""
    return Tensor.of(rank_of(x), "int32")


def read_reshape(x: Any, shape: Any) -> Any:
    """Reshape to `reshape`."""
    return ops.reshape(x, known_or_value(shape))


def read_squeeze(x: Any, *, squeeze_dims: Any = None) -> Any:
    """Squeeze to `squeeze`."""
    return ops.squeeze(x, list(squeeze_dims) if squeeze_dims else None)


def read_expand_dims(x: Any, axis: Any) -> Any:
    """ExpandDims to `expand_dims`."""
    return ops.expand_dims(x, axes_of(axis))


def read_empty(shape: Any, *, dtype: Any, init: bool = False) -> Any:
    """Zeros, also where any elements would do."""
    del init
    return ops.zeros(required_content(shape, "shape"), dtype=dtype)


def read_concat_offset(axis: Any, *shapes: Any) -> Any:
    """Where each tensor begins in their concatenation."""
    at = required_integer(axis, "concat_dim")
    sizes = np.array([required_content(shape, "a shape") for shape in shapes])
    starts = np.zeros_like(sizes)
    starts[1:, at] = np.cumsum(sizes[:-1, at])
    return tuple(row.astype(str(shapes[0].dtype)) for row in starts)


def _format_order(src_format: str, dst_format: str) -> list[int]:
    return [src_format.index(letter) for letter in dst_format]


def read_format_dim(
    x: Any, *, src_format: str = "NHWC", dst_format: str = "NCHW"
) -> Any:
    """The axis of a data format that is an axis of another one."""
    table = np.argsort(_format_order(src_format, dst_format)).astype(str(x.dtype))
    return ops.gather(table, x)


def read_format_permute(
    x: Any, *, src_format: str = "NHWC", dst_format: str = "NCHW"
) -> Any:
    """A vector, or rows, with an item for each axis, in another data format."""
    size = x.type.shape.dims[0]
    source, target = src_format, dst_format
    if size == len(source) - 2:  # spatial axes only
        source, target = (
            "".join(c for c in f if c not in "NC") for f in (source, target)
        )
    return ops.gather(x, np.array(_format_order(source, target)))


def read_fill(shape: Any, value: Any) -> Any:
    """Fill to `full`."""
    return ops.full(known_or_value(shape), value)


def read_transpose(x: Any, perm: Any) -> Any:
    """Transpose to `transpose`."""
    order = content_or_none(perm)
    if order is None:
        return transpose_by(x, perm)
    return ops.transpose(x, perm=tuple(order))


def read_conjugate_transpose(x: Any, perm: Any) -> Any:
    """ConjugateTranspose to `transpose` and `conj`."""
    y = read_transpose(x, perm)
    return ops.conj(y) if y.dtype.kind == "complex" else y


def read_concat(*xs: Any) -> Any:
    """The axis is the last input."""
    *parts, axis = xs
    return _concat(axis, parts)


def read_concat_0(axis: Any, *xs: Any) -> Any:
    """The axis is the first input."""
    return _concat(axis, xs)


def _concat(axis: Any, parts: Sequence[Any]) -> Any:
    at = integer_or_none(axis)
    if at is None:
        return concat_along(axis, parts)
    return ops.concat(*parts, axis=at)


def read_pack(*xs: Any, axis: int = 0) -> Any:
    """Pack to `stack`."""
    return ops.stack(*xs, axis=axis)


def read_parallel_concat(*xs: Any, shape: Any = None) -> Any:  # noqa: ARG001
    """ParallelConcat to `concat`."""
    return ops.concat(*xs, axis=0)


def read_unpack(x: Any, *, axis: int = 0, num: int) -> Any:
    """Unpack to `split` and `squeeze`."""
    if not num:
        return ()
    parts = ops.split(x, axis=axis, outputs=num)
    return tuple(ops.squeeze(part, [axis]) for part in parts)


def read_split(axis: Any, x: Any, *, num_split: int) -> Any:
    """Split to `split`."""
    at = integer_or_none(axis)
    if at is None:
        return split_along(x, axis, outputs=num_split)
    return tuple(ops.split(x, axis=at, outputs=num_split))


def read_split_v(x: Any, sizes: Any, axis: Any, *, num_split: int) -> Any:
    """SplitV to `split`, with a size that may be computed."""
    at = integer_or_none(axis)
    found = known_content(sizes)
    if at is None:
        expect(found is None or -1 not in found, "split_dim is not constant, a size -1")
        return split_along(x, axis, found or sizes, outputs=num_split)
    parts = sizes if found is None else _complete_sizes(x, found, at)
    return tuple(ops.split(x, parts, axis=at, outputs=num_split))


def _complete_sizes(x: Any, sizes: list[int], axis: int) -> list[int]:
    """Sizes, one of which may be -1 for all that remains."""
    if -1 not in sizes:
        return sizes
    whole = x.type.shape.dims[axis]
    expect(isinstance(whole, int), "the size that -1 stands for is not static")
    rest = whole - sum(size for size in sizes if size >= 0)
    return [rest if size < 0 else size for size in sizes]


def read_slice(x: Any, begin: Any, size: Any) -> Any:
    """Slice to `slice`; to `dynamic_slice` where only the sizes are constant."""
    starts, sizes = known_content(begin), known_content(size)
    if starts is not None and sizes is not None:
        rows = zip(starts, sizes, strict=True)
        stops = [_END if n < 0 else start + n for start, n in rows]
        return ops.slice_(x, starts, stops)
    if sizes is not None and all(n >= 0 for n in sizes):
        return ops.dynamic_slice(x, begin, sizes)
    begin, size = (ops.astype(v, dtype="int64") for v in (begin, size))
    stop = ops.where(ops.less(size, np.int64(0)), ops.shape_of(x), begin + size)
    return ops.slice_(x, begin, stop)


def read_range(start: Any, stop: Any, step: Any) -> Any:
    """Range to `range`."""
    return ops.range(start, stop, step)


def read_linspace(start: Any, stop: Any, num: Any) -> Any:
    """`num` numbers from start to stop, both included."""
    count = required_integer(num, "num")
    if count == 1:
        return ops.reshape(start, [1])
    at = ops.astype(ops.arange(0, count), dtype=start.dtype)
    step = (stop - start) / ops.number_like(start, value=count - 1)
    return start + at * step


def read_pad(x: Any, paddings: Any) -> Any:
    """Pad to `pad` with zeros."""
    return ops.pad(x, known_or_value(paddings))


def read_pad_v2(x: Any, paddings: Any, value: Any) -> Any:
    """PadV2 to `pad`."""
    return ops.pad(x, known_or_value(paddings), value)


def read_mirror_pad(x: Any, paddings: Any, *, mode: str) -> Any:
    """MirrorPad to `pad`."""
    if mode == "REFLECT":
        return ops.pad(x, known_or_value(paddings), mode="reflect")
    return pad_symmetric(x, paddings)


def read_reverse_v1(x: Any, dims: Any) -> Any:
    """Reverse, whose axes are flags, to `flip`."""
    found = required_content(dims, "dims")
    axes = [i for i, flip in enumerate(found) if flip]
    return ops.flip(x, axes) if axes else ops.identity(x)


def read_reverse(x: Any, axes: Any) -> Any:
    """ReverseV2 to `flip`."""
    found = axes_of(axes)
    return ops.flip(x, found) if found != [] else ops.identity(x)


def read_roll(x: Any, shift: Any, axis: Any) -> Any:
    """Roll to `roll`."""
    axes = axes_of(axis)
    expect(isinstance(axes, list), "axis is not constant")
    return ops.roll(x, ops.reshape(shift, [-1]), axes=tuple(axes))


READ: dict[str, Any] = {
    "Shape": read_shape,
    "ShapeN": read_shape_n,
    "Size": read_size,
    "Rank": read_rank,
    "Reshape": read_reshape,
    "Squeeze": read_squeeze,
    "ExpandDims": read_expand_dims,
    "Fill": read_fill,
    "Empty": read_empty,
    "ConcatOffset": read_concat_offset,
    "DataFormatDimMap": read_format_dim,
    "DataFormatVecPermute": read_format_permute,
    "Transpose": read_transpose,
    "ConjugateTranspose": read_conjugate_transpose,
    "ConcatV2": read_concat,
    "Concat": read_concat_0,
    "Pack": read_pack,
    "ParallelConcat": read_parallel_concat,
    "Unpack": read_unpack,
    "Split": read_split,
    "SplitV": read_split_v,
    "Slice": read_slice,
    "StridedSlice": strided_slice,
    "Range": read_range,
    "LinSpace": read_linspace,
    "Pad": read_pad,
    "PadV2": read_pad_v2,
    "MirrorPad": read_mirror_pad,
    "Reverse": read_reverse_v1,
    "ReverseV2": read_reverse,
    "Roll": read_roll,
    "BroadcastArgs": broadcast_of_shapes,
    "Diag": tensor_of_diagonal,
    "DiagPart": diagonal_of_tensor,
}
