"""From ONNX: random number generation and Dropout.

A PRNG key decides all random numbers of an op. It is made of the seed; without one, it
is the next key of a stream, which advances by call and iteration. Different ops have
different streams, by the name of their first output. ONNX leaves open which numbers a
seed stands for.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from amanda_onnx.mapping.static_values import dtype_of, float32_scalar, static_dims
from amanda_std import ops
from amanda_std.mappings import expect, known_content, tensor_type_of

__all__ = ["READ"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _key_of_seed(seed: float | None, source: Any = None) -> Any:
    """The key, two uint32: the kind of seed, and its bits; or the next of a stream."""
    if seed is None:
        name = source.outputs[0].name or ""
        return ops.next_random_key((), stream=crc32(name.encode()))
    if float(seed).is_integer() and 0 <= seed < 2**31:
        return np.array([0, int(seed)], "uint32")
    return np.array([2, float32_scalar(seed).view("uint32")], "uint32")


def _draw(op: Any, key: Any, shape: Any, code: int | None, like: Any = None) -> Any:
    dtype = like if code is None else dtype_of(code)
    expect(str(dtype) in _FLOATS, f"no random numbers of {dtype}")
    return op(key, shape, dtype=dtype)


def _scale_normal(drawn: Any, mean: float, scale: float) -> Any:
    y = drawn if scale == 1 else drawn * scale
    return y + mean if mean else y


def _scale_uniform(drawn: Any, low: float, high: float) -> Any:
    y = drawn if high - low == 1 else drawn * (high - low)
    return y + low if low else y


def read_random_normal(
    o: Any, *, shape: Any, dtype: int = 1, seed: float | None = None,
    mean: float = 0.0, scale: float = 1.0,
) -> Any:  # fmt: skip
    key = _key_of_seed(seed, o.source)
    drawn = _draw(ops.random_normal, key, tuple(shape), dtype)
    return _scale_normal(drawn, mean, scale)


def read_random_uniform(
    o: Any, *, shape: Any, dtype: int = 1, seed: float | None = None,
    low: float = 0.0, high: float = 1.0,
) -> Any:  # fmt: skip
    key = _key_of_seed(seed, o.source)
    drawn = _draw(ops.random_uniform, key, tuple(shape), dtype)
    return _scale_uniform(drawn, low, high)


def read_random_normal_like(
    o: Any, x: Any, *, dtype: int | None = None, seed: float | None = None,
    mean: float = 0.0, scale: float = 1.0,
) -> Any:  # fmt: skip
    x = o.side.value(x)
    key = _key_of_seed(seed, o.source)
    drawn = _draw(ops.random_normal, key, _shape(x), dtype, x.dtype)
    return _scale_normal(drawn, mean, scale)


def read_random_uniform_like(
    o: Any, x: Any, *, dtype: int | None = None, seed: float | None = None,
    low: float = 0.0, high: float = 1.0,
) -> Any:  # fmt: skip
    x = o.side.value(x)
    key = _key_of_seed(seed, o.source)
    drawn = _draw(ops.random_uniform, key, _shape(x), dtype, x.dtype)
    return _scale_uniform(drawn, low, high)


def _shape(x: Any) -> Any:
    """Numbers where the shape is static."""
    return (
        tuple(static_dims(x)) if tensor_type_of(x).shape.is_static else ops.shape_of(x)
    )


def read_bernoulli(o: Any, p: Any, *, dtype: int | None = None,
                   seed: float | None = None) -> Any:  # fmt: skip
    p = o.side.value(p)
    drawn = ops.random_bernoulli(_key_of_seed(seed, o.source), p)
    return ops.astype(drawn, dtype=p.dtype if dtype is None else dtype_of(dtype))


def read_multinomial(o: Any, x: Any, *, dtype: int = 6, sample_size: int = 1,
                     seed: float | None = None) -> Any:  # fmt: skip
    x = o.side.value(x)
    key = _key_of_seed(seed, o.source)
    drawn = ops.random_categorical(key, x, (sample_size,), axis=-1)
    return ops.astype(ops.transpose(drawn, perm=(1, 0)), dtype=dtype_of(dtype))


# -- dropout -----------------------------------------------------------------------


def read_dropout(o: Any, x: Any, ratio: Any = None, training: Any = None, *,
                 seed: int | None = None, outputs: int) -> Any:  # fmt: skip
    """The identity except in training mode, which may be computed."""
    x, ratio, training = (
        v if v is None else o.side.value(v) for v in (x, ratio, training)
    )
    trains = False if training is None else known_content(training)
    if trains is False or (ratio is not None and known_content(ratio) == 0):
        return _inference_dropout(x, outputs)
    rate: Any = 0.5 if ratio is None else ratio
    drawn = ops.random_uniform(_key_of_seed(seed, o.source), _shape(x))
    if ratio is not None:
        rate = ops.astype(ops.reshape(ratio, []), dtype="float32")
    mask = ops.greater_equal(drawn, rate)
    if trains is None:
        mask = ops.logical_or(mask, ops.logical_not(training))
        rate = ops.where(training, rate, np.float32(0))
    return _apply_mask(x, mask, rate, outputs)


def _apply_mask(x: Any, mask: Any, rate: Any, outputs: int) -> Any:
    """Elements that stay are scaled by 1 / (1 - rate), which keeps the expected sum."""
    if isinstance(rate, float):
        scaled = x * (1 / (1 - rate)) if rate < 1 else x
    else:
        rest = ops.maximum(1.0 - rate, np.float32(1e-30))
        scaled = x * ops.astype(ops.reciprocal(rest), dtype=x.dtype)
    return (ops.where(mask, scaled, ops.zeros_like(x)), mask)[:outputs]


def _inference_dropout(x: Any, outputs: int, mask_dtype: str = "bool") -> Any:
    y = ops.identity(x)
    if outputs == 1:
        return (y,)
    return y, ops.full(_shape(x), np.ones((), mask_dtype))


def read_dropout_11(x: Any, *, ratio: float = 0.5, outputs: int) -> Any:  # noqa: ARG001
    return _inference_dropout(x, outputs)


def read_dropout_6(o: Any, x: Any, *, ratio: float = 0.5, is_test: int = 0,
                   consumed_inputs: Any = None, outputs: int) -> Any:  # fmt: skip  # noqa: ARG001
    x = o.side.value(x)
    if is_test:
        return _inference_dropout(x, outputs, str(x.dtype))
    drawn = ops.random_uniform(_key_of_seed(None, o.source), _shape(x))
    mask = ops.greater_equal(drawn, float32_scalar(ratio))
    y, *masks = _apply_mask(x, mask, ratio, outputs)
    return (y, *(ops.astype(m, dtype=x.dtype) for m in masks))


READ: dict[str, Any] = {
    "RandomNormal": read_random_normal,
    "RandomUniform": read_random_uniform,
    "RandomNormalLike": read_random_normal_like,
    "RandomUniformLike": read_random_uniform_like,
    "Bernoulli": read_bernoulli,
    "Multinomial": read_multinomial,
    "Dropout[:6]": read_dropout_6,
    "Dropout[7:11]": read_dropout_11,
    "Dropout[12:]": read_dropout,
}
