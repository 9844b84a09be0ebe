"""From PyTorch: activation functions."""

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import axis_of
from amanda_torch.mapping.type_promotion import number

__all__ = ["READ", "softmax"]


def read_relu(x: Any) -> Any:
    return ops.maximum(x, number(0, x.dtype))


def read_relu6(x: Any) -> Any:
    return ops.minimum(ops.maximum(x, number(0, x.dtype)), number(6, x.dtype))


def read_hardtanh(x: Any, low: float = -1, high: float = 1) -> Any:
    return ops.minimum(ops.maximum(x, number(low, x.dtype)), number(high, x.dtype))


def read_hardsigmoid(x: Any) -> Any:
    return read_relu6(x + number(3, x.dtype)) / number(6, x.dtype)


def read_leaky_relu(x: Any, slope: float = 0.01) -> Any:
    return ops.leaky_relu(x, slope=float(slope))


def read_elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    zero = number(0, x.dtype)
    low = ops.minimum(x, zero) * number(input_scale, x.dtype)
    below = ops.expm1(low) * number(alpha * scale, x.dtype)
    above = x if scale == 1 else x * number(scale, x.dtype)
    return ops.where(ops.greater(x, zero), above, below)


def read_selu(x: Any) -> Any:
    return read_elu(x, 1.6732632423543772, 1.0507009873554805)


def read_celu(x: Any, alpha: float = 1) -> Any:
    return read_elu(x, alpha, 1, 1 / alpha)


def read_prelu(x: Any, weight: Any) -> Any:
    """The slope is that of the channel, axis 1."""
    rank = rank_of(x)
    if rank > 2 and rank_of(weight) == 1:
        weight = ops.expand_dims(weight, list(range(1, rank - 1)))
    elif rank_of(weight) == 1 and rank < 2:
        weight = ops.reshape(weight, [])
    return ops.where(ops.greater(x, number(0, x.dtype)), x, x * weight)


def read_rrelu(x: Any, lower: float = 1 / 8, upper: float = 1 / 3,
               training: bool = False) -> Any:  # fmt: skip
    zero = number(0, x.dtype)
    if training:
        key = ops.next_random_key()
        drawn = ops.random_uniform(key, ops.shape_of(x), dtype=x.dtype)
        slope: Any = drawn * number(upper - lower, x.dtype) + number(lower, x.dtype)
    else:
        slope = number((lower + upper) / 2, x.dtype)
    return ops.where(ops.greater_equal(x, zero), x, x * slope)


def read_softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    scaled = x * number(beta, x.dtype)
    soft = ops.log1p(ops.exp(ops.minimum(scaled, number(threshold, x.dtype))))
    soft = soft / number(beta, x.dtype)
    return ops.where(ops.greater(scaled, number(threshold, x.dtype)), x, soft)


def read_log_sigmoid(x: Any) -> Any:
    low = ops.minimum(x, number(0, x.dtype))
    return low - ops.log1p(ops.exp(ops.negative(ops.abs(x))))


def read_log_sigmoid_forward(x: Any) -> Any:
    """With the buffer that the gradient on CPU reads."""
    return read_log_sigmoid(x), ops.exp(ops.negative(ops.abs(x)))


def read_softshrink(x: Any, lambd: float = 0.5) -> Any:
    limit, zero = number(lambd, x.dtype), number(0, x.dtype)
    low = ops.where(ops.less(x, ops.negative(limit)), x + limit, x * zero)
    return ops.where(ops.greater(x, limit), x - limit, low)


def read_hardshrink(x: Any, lambd: float = 0.5) -> Any:
    inside = ops.less_equal(ops.abs(x), number(lambd, x.dtype))
    return ops.where(inside, number(0, x.dtype), x)


def read_threshold(x: Any, threshold: float, value: float) -> Any:
    below = ops.less_equal(x, number(threshold, x.dtype))
    return ops.where(below, number(value, x.dtype), x)


def read_complex_silu(x: Any) -> Any:
    expect(x.dtype.kind == "complex", "another kind of numbers than complex")
    one = number(1, x.dtype)
    return x / (one + ops.exp(ops.negative(x)))


def read_glu(x: Any, dim: int = -1) -> Any:
    a, b = ops.split(x, axis=axis_of(dim, x), outputs=2)
    return a * ops.sigmoid(b)


def softmax(op: Any, x: Any, dim: int, dtype: Any = None) -> Any:
    """A softmax along one axis; the one of a scalar has one element."""
    x = x if dtype is None else cast_to(x, dtype)
    if not rank_of(x):
        return ops.reshape(op(ops.reshape(x, [1]), axes=(0,)), [])
    return op(x, axes=(axis_of(dim, x),))


def read_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    return softmax(ops.softmax, x, dim, dtype if dtype not in (True, False) else None)


def read_log_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    found = dtype if dtype not in (True, False) else None
    return softmax(ops.log_softmax, x, dim, found)


def read_safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    """0 in rows that are all -inf."""
    y = softmax(ops.softmax, x, dim, dtype)
    hidden = ops.equal(x, number(float("-inf"), x.dtype))
    empty = ops.all(hidden, [axis_of(dim, x)], keepdims=True) if rank_of(x) else hidden
    return ops.where(empty, number(0, y.dtype), y)


def read_softmax_backward(g: Any, y: Any, dim: int, input_dtype: Any = None) -> Any:
    total = ops.sum(g * y, [axis_of(dim, y)] if rank_of(y) else None, keepdims=True)
    return cast_to(y * (g - total), input_dtype or y.dtype)


def read_log_softmax_backward(g: Any, y: Any, dim: int, input_dtype: Any = None) -> Any:
    total = ops.sum(g, [axis_of(dim, y)] if rank_of(y) else None, keepdims=True)
    return cast_to(g - ops.exp(y) * total, input_dtype or y.dtype)


READ = torch_functions(
    {
        "relu": read_relu,
        "relu6": read_relu6,
        "hardtanh": read_hardtanh,
        "hardsigmoid": read_hardsigmoid,
        "leaky_relu": read_leaky_relu,
        "elu": read_elu,
        "selu": read_selu,
        "celu": read_celu,
        "prelu _prelu_kernel": read_prelu,
        "rrelu": read_rrelu,
        "softplus": read_softplus,
        "log_sigmoid": read_log_sigmoid,
        "log_sigmoid_forward": read_log_sigmoid_forward,
        "softshrink": read_softshrink,
        "hardshrink": read_hardshrink,
        "threshold": read_threshold,
        "silu": read_complex_silu,
        "glu": read_glu,
        "softmax.int _softmax special_softmax": read_softmax,
        "log_softmax.int _log_softmax special_log_softmax": read_log_softmax,
        "_safe_softmax": read_safe_softmax,
        "_softmax_backward_data": read_softmax_backward,
        "_log_softmax_backward_data": read_log_softmax_backward,
    }
)
