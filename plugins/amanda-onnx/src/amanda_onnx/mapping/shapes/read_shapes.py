"""From ONNX: functions for ops of shapes and places."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda_onnx.mapping.sequences.read_sequences import text_cast
from amanda_onnx.mapping.shapes.read_scale_cast import scale_cast
from amanda_onnx.mapping.static_values import (
    content,
    dtype_of,
    expect,
    flat,
    ints,
    pairs_of,
)
from amanda_std import ops

__all__ = ["READ"]

_END = 2**63 - 1
_SATURATED = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
_CASTS = ("bool", "int", "uint", "float", "unknown")


def shape(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    whole = ops.shape_of(x)
    return ops.slice_(whole, [start], [_END if end is None else end])


def constant(
    *, value: Any = None, value_float: Any = None, value_floats: Any = None,
    value_int: Any = None, value_ints: Any = None, value_string: Any = None,
    value_strings: Any = None, sparse_value: Any = None,
) -> Any:  # fmt: skip
    expect(sparse_value is None, "a sparse constant has no form in std yet")
    if value is not None:
        return value
    if value_string is not None:
        return Tensor.strings([value_string], ())
    if value_strings is not None:
        return Tensor.strings(value_strings)
    for given, dtype in ((value_float, "float32"), (value_floats, "float32"),
                         (value_int, "int64"), (value_ints, "int64")):  # fmt: skip
        if given is not None:
            return Tensor.of(given, dtype)
    raise Decline("a Constant without a value")


def constant_of_shape(s: Any, *, value: Any = None) -> Any:
    one = np.zeros((), "float32") if value is None else value.numpy().reshape(())
    return ops.full(ints(s), np.ascontiguousarray(one).reshape(()))


def expand(x: Any, s: Any) -> Any:
    """Both broadcast both ways: a 1 in the shape keeps what x has."""
    return ops.broadcast_to(x, s)


def split(x: Any, sizes: Any = None, *, axis: int = 0, outputs: int,
          num_outputs: int | None = None) -> Any:  # fmt: skip
    expect(num_outputs in (None, outputs), "num_outputs is not the number of outputs")
    told = _short(x, axis, outputs) if sizes is None else ints(sizes)
    return tuple(ops.split(x, told, axis=axis, outputs=outputs))


def _short(x: Any, axis: int, outputs: int) -> list[int] | None:
    """Parts where even those before the last one cannot all be whole."""
    dims = x.type.shape.dims if x.type.shape.has_rank else ()
    length = dims[axis] if -len(dims) <= axis < len(dims) else None
    if not isinstance(length, int) or not outputs:
        return None
    part = -(-length // outputs)
    if part * (outputs - 1) <= length:
        return None
    return [min(part, max(length - i * part, 0)) for i in range(outputs)]


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
        pairs = pairs_of(told)
    if value is not None:
        value = flat(value) if value.type.shape.rank else value
    where = ints(axes)
    return ops.pad(x, pairs, value, where, mode=mode)


def old_pad(x: Any, *, pads: Any, value: float = 0.0, mode: str = "constant") -> Any:
    fill = None if mode != "constant" or not value else value
    return ops.pad(x, pairs_of(pads), fill, mode=mode)


def eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    rows, columns = x.shape
    wanted = x.dtype if dtype is None else dtype_of(dtype)
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
    return _cast(x, dtype_of(to), saturate, round_mode)


def cast_like(x: Any, like: Any, *, saturate: int = 1,
              round_mode: str | None = None) -> Any:  # fmt: skip
    return _cast(x, like.dtype, saturate, round_mode)


def _cast(x: Any, dtype: Any, saturate: int, round_mode: str | None) -> Any:
    own = x.type.dtype  # that of a body's parameter may not be known
    if "string" in (own.kind, dtype.kind):
        return text_cast(x, dtype)
    for each in (own, dtype):
        expect(str(each.kind) in _CASTS, f"no casts of {each} yet")
    if str(dtype) == "float8_e8m0fnu":
        return scale_cast(x, round_mode or "up", saturate=bool(saturate))
    if str(dtype) in _SATURATED and saturate and own != dtype:
        return ops.saturating_cast(x, dtype=dtype)
    return ops.astype(x, dtype=dtype)


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
}
