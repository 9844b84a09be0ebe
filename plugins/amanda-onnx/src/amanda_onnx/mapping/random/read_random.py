"""From ONNX: numbers that are drawn.

A key tells all that is drawn. It is made of the seed; of an op without one, of the
name of its first output, so that two ops draw different numbers, and one op the same
in every run. ONNX leaves open which numbers a seed stands for.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from amanda_onnx.mapping.static_values import content, dims, dtype_of, expect
from amanda_std import ops

__all__ = ["READ", "key_of"]


def key_of(seed: float | None, source: Any = None) -> Any:
    """The two words of a key."""
    if seed is None:
        number = crc32((source.outputs[0].name or "").encode())
        return np.array([1, number], "uint32")
    if float(seed).is_integer() and 0 <= seed < 2**31:
        return np.array([0, int(seed)], "uint32")
    return np.array([2, np.float32(seed).view("uint32")], "uint32")


def _drawn(op: Any, key: Any, shape: Any, code: int | None, own: Any = None) -> Any:
    dtype = own if code is None else dtype_of(code)
    kind = str(dtype)
    expect(kind in ("float16", "bfloat16", "float32", "float64"), f"no {kind} is drawn")
    return op(key, shape, dtype=dtype)


def _normal(drawn: Any, mean: float, scale: float) -> Any:
    y = drawn if scale == 1 else drawn * scale
    return y + mean if mean else y


def _uniform(drawn: Any, low: float, high: float) -> Any:
    y = drawn if high - low == 1 else drawn * (high - low)
    return y + low if low else y


def normal(o: Any, *, shape: Any, dtype: int = 1, seed: float | None = None,
           mean: float = 0.0, scale: float = 1.0) -> Any:  # fmt: skip
    key = key_of(seed, o.source)
    return _normal(_drawn(ops.random_normal, key, tuple(shape), dtype), mean, scale)


def uniform(o: Any, *, shape: Any, dtype: int = 1, seed: float | None = None,
            low: float = 0.0, high: float = 1.0) -> Any:  # fmt: skip
    key = key_of(seed, o.source)
    return _uniform(_drawn(ops.random_uniform, key, tuple(shape), dtype), low, high)


def normal_like(o: Any, x: Any, *, dtype: int | None = None, seed: float | None = None,
                mean: float = 0.0, scale: float = 1.0) -> Any:  # fmt: skip
    x = o.side.value(x)
    key = key_of(seed, o.source)
    drawn = _drawn(ops.random_normal, key, _shape(x), dtype, x.dtype)
    return _normal(drawn, mean, scale)


def uniform_like(o: Any, x: Any, *, dtype: int | None = None, seed: float | None = None,
                 low: float = 0.0, high: float = 1.0) -> Any:  # fmt: skip
    x = o.side.value(x)
    key = key_of(seed, o.source)
    drawn = _drawn(ops.random_uniform, key, _shape(x), dtype, x.dtype)
    return _uniform(drawn, low, high)


def _shape(x: Any) -> Any:
    """Numbers where they are known."""
    return tuple(dims(x)) if x.type.shape.is_static else ops.shape_of(x)


def bernoulli(o: Any, p: Any, *, dtype: int | None = None,
              seed: float | None = None) -> Any:  # fmt: skip
    p = o.side.value(p)
    drawn = ops.random_bernoulli(key_of(seed, o.source), p)
    return ops.astype(drawn, dtype=p.dtype if dtype is None else dtype_of(dtype))


def multinomial(o: Any, x: Any, *, dtype: int = 6, sample_size: int = 1,
                seed: float | None = None) -> Any:  # fmt: skip
    x = o.side.value(x)
    key = key_of(seed, o.source)
    drawn = ops.random_categorical(key, x, (sample_size,), axis=-1)
    return ops.astype(ops.transpose(drawn, perm=(1, 0)), dtype=dtype_of(dtype))


# -- dropout -----------------------------------------------------------------------


def dropout(o: Any, x: Any, ratio: Any = None, training: Any = None, *,
            seed: int | None = None, outputs: int) -> Any:  # fmt: skip
    """Nothing but where the model trains, which may be known at run time only."""
    x, ratio, training = (
        v if v is None else o.side.value(v) for v in (x, ratio, training)
    )
    trains = False if training is None else content(training)
    if trains is False or (ratio is not None and content(ratio) == 0):
        return _kept(x, outputs)
    rate: Any = 0.5 if ratio is None else ratio
    drawn = ops.random_uniform(key_of(seed, o.source), _shape(x))
    if ratio is not None:
        rate = ops.astype(ops.reshape(ratio, []), dtype="float32")
    mask = ops.greater_equal(drawn, rate)
    if trains is None:
        mask = ops.logical_or(mask, ops.logical_not(training))
        rate = ops.where(training, rate, np.float32(0))
    return _dropped(x, mask, rate, outputs)


def _dropped(x: Any, mask: Any, rate: Any, outputs: int) -> Any:
    """What is kept grows, so that the sum stays about the same."""
    if isinstance(rate, float):
        grown = x * (1 / (1 - rate)) if rate < 1 else x
    else:
        rest = ops.maximum(1.0 - rate, np.float32(1e-30))
        grown = x * ops.astype(ops.reciprocal(rest), dtype=x.dtype)
    return (ops.where(mask, grown, x - x), mask)[:outputs]


def _kept(x: Any, outputs: int, dtype: str = "bool") -> Any:
    y = ops.identity(x)
    if outputs == 1:
        return (y,)
    return y, ops.full(_shape(x), np.ones((), dtype))


def dropout_7(x: Any, *, ratio: float = 0.5, outputs: int) -> Any:  # noqa: ARG001
    return _kept(x, outputs)


def dropout_1(o: Any, x: Any, *, ratio: float = 0.5, is_test: int = 0,
              consumed_inputs: Any = None, outputs: int) -> Any:  # fmt: skip  # noqa: ARG001
    x = o.side.value(x)
    if is_test:
        return _kept(x, outputs, str(x.dtype))
    drawn = ops.random_uniform(key_of(None, o.source), _shape(x))
    mask = ops.greater_equal(drawn, np.float32(ratio))
    made = _dropped(x, mask, ratio, outputs)
    return (*made[:1], *(ops.astype(m, dtype=x.dtype) for m in made[1:]))


READ: dict[str, Any] = {
    "RandomNormal": normal,
    "RandomUniform": uniform,
    "RandomNormalLike": normal_like,
    "RandomUniformLike": uniform_like,
    "Bernoulli": bernoulli,
    "Multinomial": multinomial,
    "Dropout[:6]": dropout_1,
    "Dropout[7:11]": dropout_7,
    "Dropout[12:]": dropout,
}
