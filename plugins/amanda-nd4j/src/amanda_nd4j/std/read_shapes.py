"""From nd4j: shapes, slices, joins, and generated tensors."""

# ruff: noqa: N803 - arguments have the names that they have in nd4j

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda_nd4j.std.arguments import (
    as_integers,
    axes_of,
    axis_of,
    expect_no_other,
    integer_of,
    known_numbers,
    number_of,
    numbers_of,
    one_of,
)
from amanda_nd4j.std.read_elementwise import same_types
from amanda_std import ops
from amanda_std.dataflow import (
    broadcast_of_shapes,
    pad_symmetric,
    strided_slice,
    transpose_by,
)
from amanda_std.mappings import (
    cast_to,
    expect,
    known_content,
    known_or_value,
    known_scalar,
    rank_of,
    required_content,
)

__all__ = ["READ"]

_END: Final = 2**63 - 1
_ORDERS: Final = (-99, -102)
"""`c` and `f`, which may be the first number of a shape."""


def read_shape(x: Any, *, dtype: Any = None) -> Any:
    """shape_of to `shape_of`, of int64 where nothing else is said."""
    return cast_to(ops.shape_of(x), dtype or "int64")


def read_shapes(*xs: Any, dtype: Any = None) -> Any:
    """shapes_of to `shape_of` of each input."""
    return tuple(read_shape(x, dtype=dtype) for x in xs)


def read_size(x: Any, *, dtype: Any = None) -> Any:
    """size to `size`."""
    return cast_to(ops.size(x), dtype or "int64")


def read_size_at(x: Any, *, dimensions: Any = None, dtype: Any = None) -> Any:
    """size_at to `dim`."""
    return cast_to(ops.dim(x, axis=axis_of(None, dimensions)), dtype or "int64")


def read_rank(x: Any, *, dtype: Any = None) -> Any:
    """rank to a constant of int32."""
    return Tensor.of(rank_of(x), str(dtype or "int32"))


def read_reshape(
    x: Any,
    shape: Any = None,
    *,
    shapeArr: Any = None,
    dtype: Any = None,
) -> Any:
    """reshape to `reshape`, in the order c."""
    del dtype
    if shape is not None:
        return ops.reshape(x, known_or_value(as_integers(shape)))
    sizes = numbers_of(shapeArr)
    if sizes and sizes[0] in _ORDERS:
        expect(sizes[0] == _ORDERS[0], "a shape in the order f")
        sizes = sizes[1:]
    return ops.reshape(x, sizes)


def read_flatten_2d(x: Any, *, flattenDimension: Any = None) -> Any:
    """flatten_2d to `flatten`."""
    return ops.flatten(x, axis=axis_of(None, flattenDimension, default=1))


def read_transpose(
    x: Any,
    perm: Any = None,
    *,
    reverseDims: Any = None,
    dtype: Any = None,
) -> Any:
    """transpose and permute to `transpose`; without an order, axes are reversed."""
    del dtype
    if perm is None:
        order = numbers_of(reverseDims)
        return ops.transpose(x, perm=tuple(order)) if order else ops.transpose(x)
    try:
        order = known_numbers(perm, "the order of axes")
    except Decline:
        return transpose_by(x, perm)
    return ops.transpose(x, perm=tuple(order))


def read_squeeze(x: Any, axes: Any = None, *, _a: Any = None, dtype: Any = None) -> Any:
    """squeeze to `squeeze`."""
    del dtype
    return ops.squeeze(x, axes_of(axes, _a))


def read_expand_dims(
    x: Any, axis: Any = None, *, dimensions: Any = None, dtype: Any = None
) -> Any:
    """expand_dims to `expand_dims`."""
    del dtype
    return ops.expand_dims(x, [axis_of(axis, dimensions, default=0)])


def read_stack(*xs: Any, dimensions: Any = None, dtype: Any = None) -> Any:
    """stack to `stack`."""
    del dtype
    return ops.stack(*xs, axis=axis_of(None, dimensions, default=0))


def read_concat(
    *xs: Any, isDynamicAxis: Any = False, concatDimension: Any = None,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """concat to `concat`; a dynamic axis is the last input.

    Tensors without elements and of another rank do not count.
    """
    del dtype
    parts: Sequence[Any] = xs
    if isDynamicAxis:
        *parts, last = xs
        found = known_scalar(last)
        if found is None and concatDimension is None:
            raise Decline("the axis is known at run time only")
        at = int(found) if found is not None else axis_of(None, concatDimension)
    else:
        at = axis_of(None, concatDimension, default=0)
    return ops.concat(*parts, axis=at)


def read_split(
    a: Any,
    b: Any = None,
    *,
    numSplit: Any = None,
    outputs: int,
    **axis: Any,
) -> Any:
    """split, whose axis is the first or the second input, to `split`."""
    where = one_of(axis, "block.numI")
    if b is None:
        at, x = axis_of(None, where, default=0), a
    else:
        first = rank_of(a) == 0 or (a.type.shape.is_static and rank_of(b) > rank_of(a))
        number, x = (a, b) if first else (b, a)
        at = integer_of(number, None, "the axis")
    return tuple(ops.split(x, axis=at, outputs=int(numSplit or outputs)))


def read_split_v(
    x: Any, sizes: Any, axis: Any = None, *, dimensions: Any = None,
    numSplit: Any = None, outputs: int,
) -> Any:  # fmt: skip
    """split_v to `split`; a size -1 is all that remains."""
    known = axis is not None and known_scalar(axis) is not None
    at = axis_of(axis if known else None, dimensions if not known else None, default=0)
    found = known_content(sizes)
    parts = sizes if found is None else found
    if found is not None and -1 in found:
        whole = x.type.shape.dims[at]
        expect(isinstance(whole, int), "the size that -1 stands for is not static")
        rest = whole - sum(n for n in found if n >= 0)
        parts = [rest if n < 0 else n for n in found]
    return tuple(ops.split(x, parts, axis=at, outputs=int(numSplit or outputs)))


def read_unstack(x: Any, *, dimensions: Any = None, num: Any = None,
                 outputs: int) -> Any:  # fmt: skip
    """unstack to `split` and `squeeze`."""
    at, count = axis_of(None, dimensions, default=0), int(num or outputs)
    if not outputs:
        return ()
    parts = ops.split(x, axis=at, outputs=count)
    return tuple(ops.squeeze(part, [at]) for part in parts)


def read_slice(x: Any, begin: Any = None, size: Any = None, /, **numbers: Any) -> Any:
    """slice to `slice`; a size of -1 is all that remains."""
    expect_no_other(numbers, ("size",))
    if size is None and begin is None:
        both = numbers_of(numbers.get("size"))
        half = len(both) // 2
        return _static_slice(x, both[:half], both[half:])
    starts, sizes = known_content(begin), known_content(size)
    if starts is not None and sizes is not None:
        return _static_slice(x, starts, sizes)
    begin, size = (ops.astype(v, dtype="int64") for v in (begin, size))
    stop = ops.where(ops.less(size, np.int64(0)), ops.shape_of(x), begin + size)
    return ops.slice_(x, begin, stop)


def _static_slice(x: Any, starts: Sequence[int], sizes: Sequence[int]) -> Any:
    rows = zip(starts, sizes, strict=True)
    return ops.slice_(x, list(starts), [_END if n < 0 else b + n for b, n in rows])


def read_strided_slice(
    x: Any, begin: Any = None, end: Any = None, strides: Any = None, /, *,
    e: Any = None,
    **masks: Any,
) -> Any:  # fmt: skip
    """Python's x[begin:end:strides], with masks for `...`, `newaxis` and integers.

    Begins, ends and strides are inputs, or else a list after the masks.
    """
    given = {k: int(v) for k, v in masks.items() if k.endswith("mask") and v}
    if begin is None:
        numbers = numbers_of(e)
        size = len(numbers) // 3
        parts = (numbers[i * size : (i + 1) * size] for i in range(3))
        return strided_slice(x, *parts, **given)
    expect(strides is not None, "strides as an input are expected")
    vectors = (as_integers(v) for v in (begin, end, strides))
    return strided_slice(x, *vectors, **given)


def read_tile(
    x: Any, repeats: Any = None, *, dimensions: Any = None, is_static_reps: Any = False,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """tile to `tile`."""
    del is_static_reps, dtype
    times = numbers_of(dimensions) if repeats is None else known_or_value(repeats)
    return ops.tile(x, times)


def read_repeat(x: Any, repeats: Any = None, *, dimensions: Any = None) -> Any:
    """repeat to `repeat` along an axis."""
    expect(repeats is not None, "the numbers of repeats are expected")
    return ops.repeat(x, known_or_value(repeats), axis=axis_of(None, dimensions))


def read_fill(
    shape: Any, value: Any = None, /, *, dtype: Any = None, **number: Any
) -> Any:
    """fill to `full`."""
    known = one_of(number, "value")
    if value is None:
        expect(dtype is not None, "an element type is expected")
        value = np.asarray(known or 0, str(dtype))
    elif dtype is not None:
        value = cast_to(value, dtype)
    return ops.full(known_or_value(shape), ops.reshape(value, []))


def read_create(
    shape: Any,
    *,
    outputType: Any = None,
    init: Any = False,
    **more: Any,
) -> Any:
    """Zeros, also where any elements would do."""
    del init
    expect_no_other(more, ("order", "outputType.int64"))
    return ops.zeros(required_content(shape, "shape"), dtype=outputType or "float32")


def read_range(
    start: Any = None, stop: Any = None, step: Any = None, /, *, dtype: Any = None,
    **numbers: Any,
) -> Any:  # fmt: skip
    """range to `range`."""
    if start is None:
        names = ("from", "to", "step")
        ends = [one_of({n: numbers.get(n), f"{n}.int64": numbers.get(f"{n}.int64")},
                       f"{n}.int64", n) for n in names]  # fmt: skip
        kind = str(dtype or ("int32" if isinstance(ends[0], int) else "float32"))
        return ops.range(*(np.asarray(v, kind) for v in ends))
    ends = [ops.reshape(value, []) for value in (start, stop, step)]
    for value in ends[1:]:
        ends[0], _ = same_types(ends[0], value)
    y = ops.range(*(cast_to(value, ends[0].dtype) for value in ends))
    return y if dtype is None else cast_to(y, dtype)


def read_linspace(
    start: Any = None, stop: Any = None, count: Any = None, /, *, elements: Any = None,
    dataType: Any = None, **ends: Any,
) -> Any:  # fmt: skip
    """Numbers from start to stop, both included."""
    number = integer_of(count, elements, "the number of elements")
    if start is None:
        kind = str(dataType or "float32")
        start, stop = (np.asarray(ends[n], kind) for n in ("start", "stop"))
        return np.linspace(start, stop, number, dtype=kind)
    start, stop = ops.reshape(start, []), ops.reshape(stop, [])
    if number == 1:
        return ops.reshape(start, [1])
    at = ops.astype(ops.arange(0, number), dtype=start.dtype)
    return start + at * ((stop - start) / ops.number_like(start, value=number - 1))


def read_pad(
    x: Any, paddings: Any, value: Any = None, *, mode: Any = 0, padValue: Any = None,
    dtype: Any = None,
) -> Any:  # fmt: skip
    """pad with a constant (mode 0), or mirrored, without or with the edge (1, 2)."""
    del dtype
    if not mode:
        known = number_of(value, padValue, x, 0)
        return ops.pad(x, known_or_value(paddings), known)
    return _mirror(x, paddings, is_symmetric=int(mode) == 2)


def read_mirror_pad(x: Any, paddings: Any, *, mode: Any = 0,
                    isSymmetric: Any = None) -> Any:  # fmt: skip
    """Mode 0 mirrors without the edge, mode 1 with it; `isSymmetric` is not read."""
    del isSymmetric
    return _mirror(x, paddings, is_symmetric=bool(mode))


def _mirror(x: Any, paddings: Any, *, is_symmetric: bool) -> Any:
    if is_symmetric:
        return pad_symmetric(x, paddings)
    return ops.pad(x, known_or_value(paddings), mode="reflect")


def read_reverse(x: Any, axes: Any = None, *, dimensions: Any = None) -> Any:
    """reverse to `flip`, along all axes where none is given."""
    if axes is None and dimensions is not None and not numbers_of(dimensions):
        return ops.identity(x)
    found = axes_of(axes, dimensions)
    return ops.flip(x, found) if found else ops.identity(x)


def read_roll(x: Any, shift: Any = None, axes: Any = None, /, **numbers: Any) -> Any:
    """roll to `roll`; without axes, of the flattened tensor."""
    first = numbers_of(one_of(numbers, "shift"))
    shifts: Any = first[:1] if shift is None else ops.reshape(shift, [-1])
    where = tuple(first[1:]) if axes is None and shift is None else None
    if axes is not None:
        where = tuple(known_numbers(axes, "axes"))
    return ops.roll(x, shifts, axes=where) if where else ops.roll(x, shifts)


def read_broadcast_to(x: Any, shape: Any, *, dtype: Any = None) -> Any:
    """broadcast_to to `broadcast_to`."""
    del dtype
    return ops.broadcast_to(x, known_or_value(shape))


def read_ones(x: Any, *, dtype: Any = None) -> Any:
    """ones_as to `ones_like`."""
    y = ops.ones_like(x)
    return y if dtype is None else cast_to(y, dtype)


def read_zeros(x: Any, *, dtype: Any = None) -> Any:
    """zeroslike, zeros_as and zeros_like to `zeros_like`."""
    y = ops.zeros_like(x)
    return y if dtype is None else cast_to(y, dtype)


def read_eye(
    *, numRows: Any, numCols: Any = None, dtype: Any = None,
    batchDimension: Any = None, **more: Any,
) -> Any:  # fmt: skip
    """eye to `eye`."""
    expect(not numbers_of(batchDimension), "a batch of matrices")
    expect_no_other(more, ("dataType", "dataType.int64"))
    columns = int(numCols) if numCols else int(numRows)
    return ops.eye(int(numRows), columns, dtype=dtype or "float32")


def read_triu(x: Any, *, diag: Any = 0) -> Any:
    """triu to `triu`."""
    return ops.triu(x, int(diag))


def read_meshgrid(*xs: Any, cartesian: Any = None, swapFirst2Dims: Any = None) -> Any:
    """meshgrid to `meshgrid`."""
    swapped = cartesian if cartesian is not None else swapFirst2Dims
    return tuple(
        ops.meshgrid(*xs, indexing="xy" if swapped or swapped is None else "ij")
    )


READ: dict[str, Any] = {
    "shape_of": read_shape,
    "shapes_of": read_shapes,
    "size": read_size,
    "size_at": read_size_at,
    "rank": read_rank,
    "reshape": read_reshape,
    "flatten_2d": read_flatten_2d,
    "transpose": read_transpose,
    "permute": read_transpose,
    "squeeze": read_squeeze,
    "expand_dims": read_expand_dims,
    "stack": read_stack,
    "parallel_stack": read_stack,
    "concat": read_concat,
    "split": read_split,
    "split_v": read_split_v,
    "unstack": read_unstack,
    "slice": read_slice,
    "strided_slice": read_strided_slice,
    "tile": read_tile,
    "repeat": read_repeat,
    "fill": read_fill,
    "create": read_create,
    "range": read_range,
    "lin_space": read_linspace,
    "pad": read_pad,
    "mirror_pad": read_mirror_pad,
    "reverse": read_reverse,
    "roll": read_roll,
    "broadcast_dynamic_shape": broadcast_of_shapes,
    "broadcast_to": read_broadcast_to,
    "ones_as": read_ones,
    "zeroslike": read_zeros,
    "zeros_as": read_zeros,
    "zeros_like": read_zeros,
    "eye": read_eye,
    "triu": read_triu,
    "meshgrid": read_meshgrid,
}
