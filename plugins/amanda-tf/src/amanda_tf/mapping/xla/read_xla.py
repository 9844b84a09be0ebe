"""From TensorFlow: XLA's ops, with dimension numbers and computations."""

from __future__ import annotations

from string import ascii_letters
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import (
    cast_to,
    expect,
    gradient_of,
    known_scalar,
    rank_of,
    required_content,
    required_integer,
)
from amanda_tf.mapping.control.read_control import read_while
from amanda_tf.mapping.xla.dimension_numbers import (
    CONV,
    DOT,
    GATHER,
    SCATTER,
    decode_numbers,
)

__all__ = ["READ"]


def read_dot(
    a: Any, b: Any, *, dimension_numbers: Any, precision_config: Any = "",
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """A product summed over some axes; batch axes come first in the result."""
    del precision_config
    dims = decode_numbers(dimension_numbers, DOT)
    letters = iter(ascii_letters)
    left = [next(letters) for _ in range(rank_of(a))]
    right = [next(letters) for _ in range(rank_of(b))]
    for kind in ("batch", "contracting"):
        for i, j in zip(dims[f"lhs_{kind}"], dims[f"rhs_{kind}"], strict=True):
            right[j] = left[i]
    batch = [left[i] for i in dims["lhs_batch"]]
    summed = [left[i] for i in dims["lhs_contracting"]]
    rest = [c for c in (*left, *right) if c not in batch and c not in summed]
    equation = f"{''.join(left)},{''.join(right)}->{''.join(batch + rest)}"
    wanted = preferred_element_type or a.dtype
    return ops.einsum(cast_to(a, wanted), cast_to(b, wanted), equation=equation)


def pad_within(x: Any, value: Any, pads: list[tuple[int, int, int]]) -> Any:
    """Padding at both ends and between the elements of each axis; of 0 if None."""
    rank = rank_of(x)
    for axis, (_, _, inner) in enumerate(pads):
        size = x.type.shape.dims[axis]
        if not inner or size == 0:
            continue
        expect(isinstance(size, int), "padding between elements of an unknown number")
        apart = ops.expand_dims(x, [axis + 1])
        pairs = [[0, 0] if i != axis + 1 else [0, inner] for i in range(rank + 1)]
        spread = ops.pad(apart, pairs, value)
        sizes = [-1 if i == axis else n for i, n in enumerate(x.shape)]
        sizes[axis] = size * (inner + 1)
        joined = ops.reshape(spread, sizes if _all_static(sizes) else ops.stack(*sizes))
        x = ops.slice_(joined, [0], [size * (inner + 1) - inner], [axis])
    ends = [[low, high] for low, high, _ in pads]
    return ops.pad(x, ends, value) if any(map(any, ends)) else x


def _all_static(sizes: list[Any]) -> bool:
    return all(isinstance(n, int) for n in sizes)


def read_pad(x: Any, value: Any, low: Any, high: Any, interior: Any) -> Any:
    """XlaPad to `pad`, with interior padding."""
    rows = [required_content(v, "a padding") for v in (low, high, interior)]
    return pad_within(x, value, list(zip(*rows, strict=True)))


def read_conv(
    x: Any, w: Any, strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any,
    groups: Any, *, dimension_numbers: Any, precision_config: Any = "",
    preferred_element_type: Any = None, batch_group_count: int = 1,
) -> Any:  # fmt: skip
    """A convolution of any layout."""
    del precision_config
    expect(batch_group_count == 1, "groups of the batch")
    dims = decode_numbers(dimension_numbers, CONV)
    dims = {key: values or [0] for key, values in dims.items()}
    data = [*dims["input_batch"], *dims["input_feature"], *dims["input_spatial"]]
    kernel = [
        *dims["kernel_output_feature"], *dims["kernel_input_feature"],
        *dims["kernel_spatial"],
    ]  # fmt: skip
    out = [*dims["output_batch"], *dims["output_feature"], *dims["output_spatial"]]
    wanted = preferred_element_type or x.dtype
    moved = ops.transpose(cast_to(x, wanted), perm=tuple(data))
    apart = [int(n) - 1 for n in required_content(lhs_dilation, "lhs_dilation")]
    moved = pad_within(moved, None, [(0, 0, n) for n in (0, 0, *apart)])
    y = ops.conv(
        moved, ops.transpose(cast_to(w, wanted), perm=tuple(kernel)),
        strides=tuple(required_content(strides, "window_strides")),
        padding=tuple(map(tuple, required_content(padding, "padding"))),
        dilations=tuple(required_content(rhs_dilation, "rhs_dilation")),
        groups=required_integer(groups, "feature_group_count"),
    )  # fmt: skip
    return ops.transpose(y, perm=tuple(int(n) for n in np.argsort(out)))


# -- slices ----------------------------------------------------------------------------


def read_dynamic_slice(x: Any, starts: Any, sizes: Any) -> Any:
    """XlaDynamicSlice to `dynamic_slice`."""
    wanted = required_content(sizes, "size_indices")
    return ops.dynamic_slice(x, _not_negative(starts), wanted)


def _not_negative(starts: Any) -> Any:
    """Starts that do not count from the end."""
    return ops.maximum(starts, ops.number_like(starts, value=0))


def read_dynamic_update_slice(x: Any, update: Any, starts: Any) -> Any:
    """XlaDynamicUpdateSlice to `dynamic_update_slice`."""
    return ops.dynamic_update_slice(x, update, _not_negative(starts))


def _starts(indices: Any, axis: int) -> Any:
    """Indices of int64 whose components are the last axis."""
    indices = ops.astype(indices, dtype="int64")
    rank = rank_of(indices)
    if axis == rank:
        return ops.expand_dims(indices, [rank])
    order = [i for i in range(rank) if i != axis]
    return ops.transpose(indices, perm=(*order, axis))


def _coordinates(
    starts: Any, index_map: list[int], sizes: list[int], dropped: list[int]
) -> Any:
    """The index in the operand of each element of windows: [*batch, *window, rank]."""
    batch = rank_of(starts) - 1
    kept = [d for d in range(len(sizes)) if d not in dropped]
    columns = []
    for d, size in enumerate(sizes):
        at: Any = np.int64(0)
        if d in index_map:
            one = ops.gather(starts, np.asarray(index_map.index(d)), axis=-1)
            at = ops.reshape(one, _with_ones(one, len(kept)))
        shape = [1] * (batch + len(kept))
        if d in kept:
            shape[batch + kept.index(d)] = size
        columns.append(
            at + np.arange(size).reshape(shape if d in kept else [1] * len(shape))
        )
    whole = columns[0]
    for column in columns[1:]:
        whole = whole + column * np.int64(0)
    same = [column + whole * np.int64(0) for column in columns]
    return ops.stack(*same, axis=-1)


def _with_ones(x: Any, count: int) -> Any:
    dims = list(x.shape) + [1] * count
    return (
        dims
        if _all_static(dims)
        else ops.stack(*(np.int64(d) if isinstance(d, int) else d for d in dims))
    )


def read_gather(
    x: Any, indices: Any, slice_sizes: Any, *, dimension_numbers: Any,
    indices_are_sorted: bool = False,
) -> Any:  # fmt: skip
    """Windows of a tensor at starts, which are kept inside of it."""
    del indices_are_sorted
    dims = decode_numbers(dimension_numbers, GATHER)
    expect(not dims["operand_batching_dims"], "batching dims of a gather")
    sizes = [int(n) for n in required_content(slice_sizes, "slice_sizes")]
    starts = _starts(indices, (dims["index_vector_dim"] or [0])[0])
    shape = x.type.shape
    expect(shape.is_static, "the shape of the operand is not static")
    last = [int(shape.dims[d]) - sizes[d] for d in dims["start_index_map"]]
    starts = ops.minimum(ops.maximum(starts, np.int64(0)), np.array(last, "int64"))
    at = _coordinates(starts, dims["start_index_map"], sizes, dims["collapsed_dims"])
    y = ops.gather_nd(x, at)
    batch = iter(range(rank_of(starts) - 1))
    window = iter(range(rank_of(starts) - 1, rank_of(y)))
    order = [
        next(window) if i in dims["offset_dims"] else next(batch)
        for i in range(rank_of(y))
    ]
    return ops.transpose(y, perm=tuple(order))


def read_scatter(
    x: Any, indices: Any, updates: Any, *, update_computation: Any,
    dimension_numbers: Any, indices_are_sorted: bool = False,
) -> Any:  # fmt: skip
    """Windows written at starts; those that are not all inside are left out."""
    del indices_are_sorted
    dims = decode_numbers(dimension_numbers, SCATTER)
    expect(not dims["operand_batching_dims"], "batching dims of a scatter")
    shape = x.type.shape
    expect(shape.is_static and updates.type.shape.is_static, "shapes are not static")
    window, dropped = dims["window_dims"], dims["inserted_dims"]
    taken = iter(updates.type.shape.dims[d] for d in window)
    sizes = [1 if d in dropped else int(next(taken)) for d in range(len(shape.dims))]
    starts = _starts(indices, (dims["index_vector_dim"] or [0])[0])
    at = _coordinates(starts, dims["index_map"], sizes, dropped)
    limits = np.array([int(n) for n in shape.dims], "int64")
    last = np.array([limits[d] - sizes[d] for d in dims["index_map"]])
    inside = ops.all(
        ops.logical_and(ops.greater_equal(starts, np.int64(0)),
                        ops.less_equal(starts, last)), [-1],
    )  # fmt: skip
    inside = ops.expand_dims(inside, list(range(rank_of(inside), rank_of(at) - 1)))
    strides = np.append(np.cumprod(limits[:0:-1])[::-1], 1).astype("int64")
    place = ops.where(inside, ops.sum(at * strides, [-1]), np.int64(limits.prod()))
    batch = [d for d in range(rank_of(updates)) if d not in window]
    rows = ops.transpose(updates, perm=(*batch, *window))
    flat = ops.pad(ops.reshape(x, [-1]), [[0, 1]])  # a place for what is left out
    written = ops.scatter_nd(
        flat, ops.reshape(place, [-1, 1]), ops.reshape(rows, [-1]),
        reduction=_SCATTERS[_computation(update_computation, _SCATTERS)],
    )  # fmt: skip
    return ops.reshape(ops.slice_(written, [0], [-1], [0]), [int(n) for n in shape])


_SCATTERS = {
    "add": "add", "maximum": "max", "minimum": "min", "multiply": "mul", "": "none"
}  # fmt: skip


# -- computations ----------------------------------------------------------------------


def _computation(body: Any, known: Any) -> str:
    """The op type of a body that is one op of two; "" if it is its second input."""
    (value,) = body.results
    while value.op.type in ("identity", "astype", "reshape", "broadcast_to"):
        value = value.op.inputs[0]
    if value is body.parameters[-1]:
        return ""
    found = value.op.type or ""
    expect(found in known, f"a computation that is not one of {', '.join(known)}")
    return str(found)


_REDUCTIONS = {
    "add": ops.sum, "maximum": ops.max, "minimum": ops.min, "multiply": ops.prod,
    "logical_and": ops.all, "logical_or": ops.any,
}  # fmt: skip


def read_reduce(x: Any, start: Any, *, dimensions_to_reduce: Any, reducer: Any) -> Any:
    """XlaReduce to the reduction that its function is."""
    kind = _computation(reducer, _REDUCTIONS)
    expect(kind in _REDUCTIONS, "a reduction to the last element")
    return ops.find(kind)(_REDUCTIONS[kind](x, list(dimensions_to_reduce)), start)


def read_variadic_reduce(*xs: Any, dimensions_to_reduce: Any, reducer: Any) -> Any:
    """XlaVariadicReduceV2 of one input to a reduction."""
    expect(len(xs) == 2, "a reduction of several tensors")
    return read_reduce(*xs, dimensions_to_reduce=dimensions_to_reduce, reducer=reducer)


def _window(
    sizes: Any, strides: Any, padding: Any, dilations: Any = None
) -> dict[str, Any]:
    found = {
        "window": required_content(sizes, "window_dimensions"),
        "strides": required_content(strides, "window_strides"),
        "padding": [tuple(p) for p in required_content(padding, "padding")],
    }
    if dilations is not None:
        found["dilations"] = required_content(dilations, "window_dilations")
    return {key: tuple(value) for key, value in found.items()}


def _as_image(x: Any) -> Any:
    """The tensor as one channel of one image."""
    return ops.expand_dims(x, [0, 1])


def read_reduce_window(
    x: Any, start: Any, sizes: Any, strides: Any, base: Any, dilations: Any,
    padding: Any, *, computation: Any,
) -> Any:  # fmt: skip
    """XlaReduceWindow to the pooling that its function is."""
    kind = _computation(computation, ("add", "maximum", "minimum"))
    spread = {int(n) for n in required_content(base, "base_dilations")}
    expect(spread <= {1}, "a window over dilated data")
    window = _window(sizes, strides, padding, dilations)
    if kind == "add":
        expect(known_scalar(start) == 0, "a sum that does not start at 0")
        count = int(np.prod(window["window"]))
        means = ops.avg_pool(_as_image(x), count_pads=True, **window)
        return ops.squeeze(means * ops.number_like(means, value=count), [0, 1])
    image = _as_image(x if kind == "maximum" else ops.negative(x))
    y = ops.squeeze(ops.max_pool(image, **window), [0, 1])
    return ops.find(kind)(y if kind == "maximum" else ops.negative(y), start)


def read_select_and_scatter(
    x: Any, sizes: Any, strides: Any, padding: Any, source: Any, start: Any, *,
    select: Any, scatter: Any,
) -> Any:  # fmt: skip
    """Values added to the greatest element of each window."""
    _computation(select, ("greater_equal", "greater"))
    _computation(scatter, ("add",))
    window = _window(sizes, strides, padding)

    def max_pool(x: Any) -> Any:
        return ops.squeeze(ops.max_pool(_as_image(x), **window), [0, 1])

    return gradient_of(max_pool, x, source) + start


# -- others ----------------------------------------------------------------------------


def read_key_value_sort(keys: Any, values: Any) -> Any:
    """XlaKeyValueSort to `argsort` and `gather_elements`."""
    order = ops.argsort(keys)
    return tuple(ops.gather_elements(v, order, axis=-1) for v in (keys, values))


def read_svd(x: Any, **_: Any) -> Any:
    """XlaSvd to `svd`."""
    u, s, vh = ops.svd(x)
    return s, u, ops.swap_last(vh)


def read_broadcast_helper(a: Any, b: Any, dims: Any) -> Any:
    """Operands of equal rank; the smaller has its axes at `dims` of the other."""
    places = required_content(dims, "broadcast_dims")
    ranks = rank_of(a), rank_of(b)
    if not places or ranks[0] == ranks[1]:
        return ops.identity(a), ops.identity(b)
    missing = [i for i in range(max(ranks)) if i not in places]
    if ranks[0] < ranks[1]:
        return ops.expand_dims(a, missing), ops.identity(b)
    return ops.identity(a), ops.expand_dims(b, missing)


def read_concat_nd(*xs: Any, num_concats: Any, paddings: Any = ()) -> Any:
    """Blocks of a grid, the last axis fastest, without the padding at the ends."""
    blocks = list(xs)
    for axis in reversed(range(len(num_concats))):
        n = int(num_concats[axis])
        blocks = [
            ops.concat(*blocks[i : i + n], axis=axis) for i in range(0, len(blocks), n)
        ]
    ends = [-int(p) if p else 2**31 for p in paddings]
    y = blocks[0]
    return ops.slice_(y, [0] * len(ends), ends) if any(paddings) else y


def read_split_nd(x: Any, *, N: int, num_splits: Any, paddings: Any = ()) -> Any:  # noqa: N803
    """A grid of blocks, the last axis fastest, after padding with zeros."""
    del N
    if any(paddings):
        x = ops.pad(x, [[0, int(p)] for p in paddings])
    blocks = [x]
    for axis, n in enumerate(num_splits):
        blocks = [p for b in blocks for p in ops.split(b, axis=axis, outputs=int(n))]
    return tuple(blocks)


READ: dict[str, Any] = {
    "XlaDot": read_dot,
    "XlaDotV2": read_dot,
    "XlaPad": read_pad,
    "XlaConv": read_conv,
    "XlaConvV2": read_conv,
    "XlaDynamicSlice": read_dynamic_slice,
    "XlaDynamicUpdateSlice": read_dynamic_update_slice,
    "XlaGather": read_gather,
    "XlaScatter": read_scatter,
    "XlaReduce": read_reduce,
    "XlaVariadicReduceV2": read_variadic_reduce,
    "XlaReduceWindow": read_reduce_window,
    "XlaSelectAndScatter": read_select_and_scatter,
    "XlaKeyValueSort": read_key_value_sort,
    "XlaSvd": read_svd,
    "XlaBroadcastHelper": read_broadcast_helper,
    "XlaConcatND": read_concat_nd,
    "XlaSplitND": read_split_nd,
    "XlaWhile": read_while,
}
