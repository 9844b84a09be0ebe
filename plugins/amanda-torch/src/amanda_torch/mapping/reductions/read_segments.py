"""From PyTorch: reductions over segments of an axis, bags of embeddings, hashes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import axes_of, integer
from amanda_torch.mapping.shapes.read_shapes import permute
from amanda_torch.mapping.type_promotion import INT, number

__all__ = ["READ"]

_EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_COMBINE = {"sum": ops.add, "mean": ops.add, "prod": ops.multiply,
            "max": ops.maximum, "min": ops.minimum}  # fmt: skip


def read_segment_reduce(
    x: Any, reduce: str, *, lengths: Any = None, indices: Any = None,
    offsets: Any = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Any:  # fmt: skip
    """Segments of the first axis, by their lengths or by where they begin and end."""
    del unsafe
    expect(indices is None, "segments by indices")
    expect(axis == 0, "segments of another axis than the first")
    if offsets is None:
        offsets = ops.pad(ops.cumulative_sum(lengths, 0), [[1, 0]])
    ends, starts = (
        ops.slice_(offsets, [1], [2**62], [0]),
        ops.slice_(offsets, [0], [-1], [0]),
    )
    places = ops.arange(0, ops.dim(x, axis=0))
    segments = ops.searchsorted(ends, cast_to(places, ends.dtype), right=True)
    kind = "sum" if reduce == "mean" else reduce
    y = ops.segment_reduce(x, segments, ops.dim(ends, axis=0), reduction=kind)
    start = number(_EMPTY[reduce] if initial is None else initial, x.dtype)
    y = _COMBINE[reduce](y, start)
    if reduce == "mean":
        sizes = ends - starts
        shape = [-1, *([1] * (rank_of(x) - 1))]
        sizes = ops.reshape(cast_to(sizes, x.dtype), shape)
        zero, one = number(0, x.dtype), number(1, x.dtype)
        empty = number(math.nan if initial is None else initial, x.dtype)
        is_empty = ops.equal(sizes, zero)
        y = ops.where(is_empty, empty, y / ops.where(is_empty, one, sizes))
    return y


_SUM, _MEAN, _MAX = 0, 1, 2


def read_embedding_bag(
    table: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False,
    mode: int = _SUM, sparse: bool = False, per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: Any = None, *, context: Any,
) -> Any:  # fmt: skip
    """The sum, the mean or the maximum of the rows of each bag; 0 if it is empty.

    The further outputs, which only gradients read, are not computed.
    """
    del scale_grad_by_freq, sparse
    outputs = context.source.outputs
    if any(port.users for port in outputs[1:]):
        raise Decline("outputs for the gradient are not supported")
    if include_last_offset:
        offsets = ops.slice_(offsets, [0], [-1], [0])
    indices, offsets = (cast_to(v, INT) for v in (indices, offsets))
    places = ops.arange(0, ops.dim(indices, axis=0))
    bags = ops.searchsorted(offsets, places, right=True) - np.int64(1)
    if padding_idx is not None and padding_idx >= 0:
        padding = ops.equal(indices, np.int64(padding_idx))
        bags = ops.where(padding, np.int64(-1), bags)
    rows = ops.gather(table, indices, 0)
    if per_sample_weights is not None:
        rows = rows * ops.expand_dims(per_sample_weights, [1])
    y = ops.segment_reduce(rows, bags, ops.dim(offsets, axis=0),
                           reduction="max" if mode == _MAX else "sum")  # fmt: skip
    ones = ops.ones_like(cast_to(bags, table.dtype))
    counts = ops.segment_reduce(ones, bags, ops.dim(offsets, axis=0))
    counts = ops.expand_dims(counts, [1])
    zero, one = number(0, table.dtype), number(1, table.dtype)
    if mode == _MEAN:
        y = y / ops.maximum(counts, one)
    elif mode == _MAX:
        y = ops.where(ops.equal(counts, zero), zero, y)
    none = np.zeros(0, "int64")
    return (y, none, none, none)[: len(outputs)]


def read_hash(x: Any, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Any:
    """The exclusive or of elements as 64-bit numbers."""
    expect(mode == 0, "another hash than the exclusive or")
    kind = x.dtype.kind
    wide = cast_to(x, "float64" if kind == "float" else "int64")
    bits = ops.bitcast(wide, dtype="uint64")
    axes = axes_of(list(dim), x)
    if not axes:
        return bits
    rest = [i for i in range(rank_of(x)) if i not in axes]
    sizes = [integer(x.type.shape.dims[i], "a reduced size") for i in axes]
    count = math.prod(sizes)
    expect(count > 0, "a reduction of no elements")
    whole = ops.shape_of(bits)
    bits = permute(bits, [*axes, *rest])
    shape = [np.asarray([count])]
    if rest:
        shape.append(ops.gather(whole, np.asarray(rest), 0))
    bits = ops.reshape(bits, ops.concat(*shape, axis=0) if rest else [count])
    while count > 1:
        half = count // 2
        parts = [ops.slice_(bits, [i * half], [(i + 1) * half], [0]) for i in range(2)]
        left = ops.slice_(bits, [2 * half], [count], [0])
        bits = ops.concat(ops.bitwise_xor(*parts), left, axis=0)
        count -= half
    y = ops.squeeze(bits, [0])
    return ops.expand_dims(y, axes) if keepdim else y


READ = torch_functions(
    {
        "segment_reduce": read_segment_reduce,
        "embedding_bag embedding_bag.padding_idx _embedding_bag "
        "_embedding_bag_forward_only": read_embedding_bag,
        "hash_tensor": read_hash,
    }
)
