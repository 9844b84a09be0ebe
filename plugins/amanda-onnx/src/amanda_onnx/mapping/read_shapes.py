"""From ONNX: functions for ops of shapes and places."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda_onnx.mapping.known import content, dims, expect, flat, ints, rank_of
from amanda_onnx.tensors import DTYPES
from amanda_std import ops

__all__ = ["READ"]

_END = 2**63 - 1
_LARGEST = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
_CASTS = ("bool", "int", "uint", "float")


def shape(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    whole = ops.shape_of(x)
    return ops.slice_(whole, [start], [_END if end is None else end])


def constant(
    *, value: Any = None, value_float: Any = None, value_floats: Any = None,
    value_int: Any = None, value_ints: Any = None, value_string: Any = None,
    value_strings: Any = None, sparse_value: Any = None,
) -> Any:  # fmt: skip
    expect(sparse_value is None, "a sparse constant has no form in std yet")
    expect(value_string is None and value_strings is None, "std has no strings yet")
    if value is not None:
        return value
    for given, dtype in ((value_float, "float32"), (value_floats, "float32"),
                         (value_int, "int64"), (value_ints, "int64")):  # fmt: skip
        if given is not None:
            return Tensor.of(given, dtype)
    raise Decline("a Constant without a value")


def constant_of_shape(s: Any, *, value: Any = None) -> Any:
    one = np.zeros((), "float32") if value is None else value.numpy().reshape(())
    return ops.full(ints(s), np.ascontiguousarray(one).reshape(()))


def expand(x: Any, s: Any) -> Any:
    """ONNX broadcasts both ways: a 1 in the shape keeps what x has."""
    wanted = content(s)
    own = x.type.shape
    if wanted is not None and len(wanted) >= own.rank:
        have = [1] * (len(wanted) - own.rank) + list(own.dims)
        pairs = list(zip(have, wanted, strict=True))
        if all(w != 1 or (isinstance(h, int) and h == 1) for h, w in pairs):
            return ops.broadcast_to(x, wanted)
    length = len(wanted) if wanted is not None else dims(s)[0]
    if length > own.rank:
        ahead = tuple(range(length - own.rank))
        x = ops.expand_dims(x, ahead)
    elif length < own.rank:
        ones = np.ones(own.rank - length, "int64")
        s = ops.concat(ones, s, axis=0)
    have = ops.shape_of(x)
    return ops.broadcast_to(x, ops.where(ops.equal(have, 1), s, have))


def split(x: Any, sizes: Any = None, *, axis: int = 0, outputs: int,
          num_outputs: int | None = None) -> Any:  # fmt: skip
    expect(num_outputs in (None, outputs), "num_outputs is not the number of outputs")
    made = ops.split(x, ints(sizes), axis=axis, outputs=outputs)
    return tuple(made)


def old_split(x: Any, *, split: Any = None, axis: int = 0, outputs: int) -> Any:
    return tuple(ops.split(x, split, axis=axis, outputs=outputs))


def topk(x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:  # noqa: ARG001
    count = content(k)
    size = (
        flat(k)
        if count is None
        else int(np.reshape(count, ()))
        if np.size(count) == 1
        else None
    )
    expect(size is not None, "k is not one number")
    return tuple(ops.topk(x, size, axis=axis, largest=bool(largest)))


def old_topk(x: Any, *, k: int, axis: int = -1) -> Any:
    return tuple(ops.topk(x, k, axis=axis))


def pad(x: Any, pads: Any, value: Any = None, axes: Any = None, *,
        mode: str = "constant") -> Any:  # fmt: skip
    told = content(pads)
    if told is None:
        pairs: Any = ops.transpose(ops.reshape(pads, [2, -1]), perm=(1, 0))
    else:
        half = len(told) // 2
        pairs = [[b, e] for b, e in zip(told[:half], told[half:], strict=True)]
    if value is not None:
        value = flat(value) if value.type.shape.rank else value
    where = ints(axes)
    return ops.pad(x, pairs, value, where, mode=mode)


def old_pad(x: Any, *, pads: Any, value: float = 0.0, mode: str = "constant") -> Any:
    half = len(pads) // 2
    pairs = [[b, e] for b, e in zip(pads[:half], pads[half:], strict=True)]
    fill = None if mode != "constant" or not value else value
    return ops.pad(x, pairs, fill, mode=mode)


def eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    rows, columns = x.shape
    wanted = x.dtype if dtype is None else DTYPES[dtype]
    return ops.eye(rows, columns, k=k, dtype=wanted)


def one_hot(i: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    off, on = ops.split(values, axis=0, outputs=2)
    size = content(depth)
    number = (
        ops.astype(flat(depth), dtype="int64")
        if size is None
        else int(np.reshape(size, ()))
    )
    if str(i.dtype.kind) == "float" or str(i.dtype) != "int64":
        i = ops.astype(i, dtype="int64")
    return ops.one_hot(i, number, flat(on), flat(off), axis=axis, wrap=True)


def cast(x: Any, *, to: int, saturate: int = 1, round_mode: str | None = None) -> Any:
    expect(to in DTYPES, f"there is no element type {to}")
    return _cast(x, DTYPES[to], saturate, round_mode)


def cast_like(x: Any, like: Any, *, saturate: int = 1,
              round_mode: str | None = None) -> Any:  # fmt: skip
    return _cast(x, like.dtype, saturate, round_mode)


def _cast(x: Any, dtype: Any, saturate: int, round_mode: str | None) -> Any:
    for each in (x.dtype, dtype):
        expect(str(each.kind) in _CASTS, f"no casts of {each} yet")
        expect(str(each) != "float8_e8m0fnu", f"no casts of {each} yet")
    expect(round_mode in (None, "up"), "no rounding modes of casts yet")
    largest = _LARGEST.get(str(dtype))
    if largest is not None and saturate and x.dtype != dtype:
        if str(x.dtype) not in ("float32", "float64"):
            x = ops.astype(x, dtype="float32")
        x = ops.clip(x, -largest, largest)
    return ops.astype(x, dtype=dtype)


def compress(x: Any, condition: Any, *, axis: int | None = None) -> Any:
    if axis is None:
        x, axis = ops.reshape(x, [-1]), 0
    count = ops.shape_of(condition)
    return ops.gather(
        x, ops.reshape(ops.nonzero(ops.reshape(condition, count)), [-1]), axis
    )


def depth_to_space(x: Any, *, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.shape
    b, rest = blocksize, _over(c, blocksize**2)
    if mode == "DCR":
        y = ops.transpose(
            ops.reshape(x, [n, b, b, rest, h, w]), perm=(0, 3, 4, 1, 5, 2)
        )
    else:
        y = ops.transpose(
            ops.reshape(x, [n, rest, b, b, h, w]), perm=(0, 1, 4, 2, 5, 3)
        )
    return ops.reshape(y, [n, rest, h * b, w * b])


def space_to_depth(x: Any, *, blocksize: int) -> Any:
    n, c, h, w = x.shape
    b = blocksize
    rows, columns = _over(h, b), _over(w, b)
    y = ops.reshape(x, [n, c, rows, b, columns, b])
    y = ops.transpose(y, perm=(0, 3, 5, 1, 2, 4))
    return ops.reshape(y, [n, c * b * b, rows, columns])


def _over(dim: Any, by: int) -> Any:
    return dim // by


def reverse_sequence(x: Any, lengths: Any, *, time_axis: int = 0,
                     batch_axis: int = 1) -> Any:  # fmt: skip
    """Each place t of a batch takes t', which is length - 1 - t within the length."""
    rank = rank_of(x)
    steps = ops.arange(0, x.shape[time_axis])
    t = ops.expand_dims(steps, tuple(a for a in range(rank) if a != time_axis))
    n = ops.expand_dims(ops.astype(lengths, dtype="int64"),
                        tuple(a for a in range(rank) if a != batch_axis))  # fmt: skip
    at = ops.where(ops.less(t, n), n - 1 - t, t)
    at = ops.broadcast_to(at, ops.shape_of(x))
    return ops.gather_elements(x, at, axis=time_axis)


def range_(start: Any, stop: Any, step: Any) -> Any:
    """Where lists of one number stand for numbers."""
    return ops.range(flat(start), flat(stop), flat(step))


READ: dict[str, Any] = {
    "Range": range_,
    "Shape[15:]": shape,
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Expand": expand,
    "Split[:12]": old_split,
    "Split[13:]": split,
    "TopK[:9]": old_topk,
    "TopK[10:]": topk,
    "Pad[:10]": old_pad,
    "Pad[11:]": pad,
    "EyeLike": eye_like,
    "OneHot": one_hot,
    "Cast": cast,
    "CastLike": cast_like,
    "Compress": compress,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "ReverseSequence": reverse_sequence,
}
