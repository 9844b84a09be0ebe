"""From ONNX: shape manipulation, Constant, Cast and ops that generate tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda_onnx.mapping.sequences.read_sequences import cast_string
from amanda_onnx.mapping.shapes.cast_to_float8_scale import cast_to_float8_scale
from amanda_onnx.mapping.static_values import (
    dtype_of,
    expect_rank,
    known_integer,
    pairs_of,
    to_scalar,
)
from amanda_std import ops
from amanda_std.mappings import expect, known_content, known_or_value, tensor_type_of

__all__ = ["READ", "read_cast"]

_END = 2**63 - 1
_SATURATING = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
_CASTABLE = ("bool", "int", "uint", "float", "unknown")


def read_shape(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    return ops.slice_(ops.shape_of(x), [start], [_END if end is None else end])


def read_constant(
    *, value: Any = None, value_float: Any = None, value_floats: Any = None,
    value_int: Any = None, value_ints: Any = None, value_string: Any = None,
    value_strings: Any = None, sparse_value: Any = None,
) -> Any:  # fmt: skip
    expect(sparse_value is None, "std has no sparse constants")
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


def read_constant_of_shape(s: Any, *, value: Any = None) -> Any:
    fill = np.zeros(1, "float32") if value is None else value.numpy()
    expect(fill.size == 1, f"value has {fill.size} elements, expected one")
    return ops.full(known_or_value(s), np.ascontiguousarray(fill).reshape(()))


def read_expand(x: Any, s: Any) -> Any:
    """Broadcasting is mutual: a 1 in the shape keeps the dim of x."""
    return ops.broadcast_to(x, s)


def read_split(x: Any, sizes: Any = None, *, axis: int = 0, outputs: int,
               num_outputs: int | None = None) -> Any:  # fmt: skip
    expect(num_outputs in (None, outputs), "num_outputs is not the number of outputs")
    parts = _uneven_sizes(x, axis, outputs) if sizes is None else known_or_value(sizes)
    return tuple(ops.split(x, parts, axis=axis, outputs=outputs))


def _uneven_sizes(x: Any, axis: int, outputs: int) -> list[int] | None:
    """The sizes of equal parts where several at the end are smaller or empty."""
    dims = tensor_type_of(x).shape.dims if tensor_type_of(x).shape.has_rank else ()
    length = dims[axis] if -len(dims) <= axis < len(dims) else None
    if not isinstance(length, int) or not outputs:
        return None
    part = -(-length // outputs)
    if part * (outputs - 1) <= length:
        return None
    return [min(part, max(length - i * part, 0)) for i in range(outputs)]


def read_split_12(x: Any, *, split: Any = None, axis: int = 0, outputs: int) -> Any:
    return tuple(ops.split(x, split, axis=axis, outputs=outputs))


def read_topk(x: Any, k: Any, *, axis: int = -1, largest: int = 1,
              sorted: int = 1) -> Any:  # fmt: skip  # noqa: ARG001
    count = known_integer(k)
    size = to_scalar(k) if count is None else count
    return tuple(ops.topk(x, size, axis=axis, largest=bool(largest)))


def read_topk_9(x: Any, *, k: int, axis: int = -1) -> Any:
    return tuple(ops.topk(x, k, axis=axis))


def read_pad(x: Any, pads: Any, value: Any = None, axes: Any = None, *,
             mode: str = "constant") -> Any:  # fmt: skip
    known = known_content(pads)
    if known is None:
        pairs: Any = ops.transpose(ops.reshape(pads, [2, -1]), perm=(1, 0))
    else:
        pairs = pairs_of(known)
    if value is not None:
        value = to_scalar(value) if tensor_type_of(value).shape.rank else value
    return ops.pad(x, pairs, value, known_or_value(axes), mode=mode)


def read_pad_10(x: Any, *, pads: Any, value: float = 0.0,
                mode: str = "constant") -> Any:  # fmt: skip
    fill = None if mode != "constant" or not value else value
    return ops.pad(x, pairs_of(pads), fill, mode=mode)


def read_eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    expect_rank(x, 2, "the input")
    rows, columns = x.shape
    wanted = x.dtype if dtype is None else dtype_of(dtype)
    return ops.eye(rows, columns, k=k, dtype=wanted)


def read_one_hot(i: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    off, on = ops.split(values, axis=0, outputs=2)
    size = known_integer(depth)
    number = ops.astype(to_scalar(depth), dtype="int64") if size is None else size
    if str(i.dtype) != "int64":
        i = ops.astype(i, dtype="int64")
    return ops.one_hot(i, number, to_scalar(on), to_scalar(off), axis=axis, wrap=True)


def read_cast(x: Any, *, to: int, saturate: int = 1,
              round_mode: str | None = None) -> Any:  # fmt: skip
    return _cast(x, dtype_of(to), saturate, round_mode)


def read_cast_like(x: Any, like: Any, *, saturate: int = 1,
                   round_mode: str | None = None) -> Any:  # fmt: skip
    return _cast(x, like.dtype, saturate, round_mode)


def _cast(x: Any, dtype: Any, saturate: int, round_mode: str | None) -> Any:
    own = tensor_type_of(x).dtype  # unknown for some parameters of bodies
    if "string" in (own.kind, dtype.kind):
        return cast_string(x, dtype)
    for each in (own, dtype):
        expect(str(each.kind) in _CASTABLE, f"no cast from or to {each}")
    if str(dtype) == "float8_e8m0fnu":
        return cast_to_float8_scale(x, round_mode or "up", saturate=bool(saturate))
    if str(dtype) in _SATURATING and saturate and own != dtype:
        return ops.saturating_cast(x, dtype=dtype)
    return ops.astype(x, dtype=dtype)


def read_range(start: Any, stop: Any, step: Any) -> Any:
    """Some models have vectors of one element instead of scalars."""
    return ops.range(to_scalar(start), to_scalar(stop), to_scalar(step))


def read_unique(x: Any, *, axis: int | None = None, sorted: int = 1,
                outputs: int) -> Any:  # fmt: skip
    return tuple(ops.unique(x, axis=axis, sorted=bool(sorted)))[:outputs]


READ: dict[str, Any] = {
    "Range": read_range,
    "Shape[15:]": read_shape,
    "Constant": read_constant,
    "ConstantOfShape": read_constant_of_shape,
    "Expand": read_expand,
    "Split[:12]": read_split_12,
    "Split[13:]": read_split,
    "TopK[:9]": read_topk_9,
    "TopK[10:]": read_topk,
    "Pad[:10]": read_pad_10,
    "Pad[11:]": read_pad,
    "EyeLike": read_eye_like,
    "OneHot": read_one_hot,
    "Cast": read_cast,
    "CastLike": read_cast_like,
    "Unique": read_unique,
}
