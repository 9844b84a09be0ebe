"""From Keras: layers that merge several values."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

from amanda_keras.mapping.layer_calls import as_axes, expect, layers, rank_of
from amanda_std import ops

__all__ = ["READ"]


def _merge(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def read_merge(inputs: Any) -> Any:
        return reduce(function, _of_one_rank(inputs))

    return read_merge


def _of_one_rank(values: Any) -> list[Any]:
    """Values with axes of size one after the batch, up to the highest rank."""
    expect(isinstance(values, list | tuple) and values, "a list of values is expected")
    most = max(map(rank_of, values))
    return [
        v if rank_of(v) == most
        else ops.expand_dims(v, list(range(1, 1 + most - rank_of(v))))
        for v in values
    ]  # fmt: skip


def read_average(inputs: Any) -> Any:
    values = _of_one_rank(inputs)
    return reduce(ops.add, values) / float(len(values))


def read_subtract(inputs: Any) -> Any:
    expect(len(inputs) == 2, "two values are expected")
    a, b = _of_one_rank(inputs)
    return a - b


def read_concatenate(inputs: Any, *, axis: int = -1) -> Any:
    values = inputs if isinstance(inputs, list | tuple) else [inputs]
    return ops.concat(*values, axis=as_axes(axis, values[0])[0])


def read_dot(inputs: Any, *, axes: Any, normalize: bool = False) -> Any:
    """A product over one axis of each value, for every example."""
    x, y = inputs
    a, b = axes if isinstance(axes, list | tuple) else (axes, axes)
    expect(isinstance(a, int) and isinstance(b, int), "a product over several axes")
    a, b = a % rank_of(x), b % rank_of(y)
    expect(a and b, "a product over the batch")
    if normalize:
        x, y = (_unit(v, i) for v, i in ((x, a), (y, b)))
    names = iter("cdefghijklmnop")
    left = ["b", *(next(names) for _ in range(rank_of(x) - 1))]
    right = ["b", *(next(names) for _ in range(rank_of(y) - 1))]
    right[b] = left[a]
    rest = [n for n in left[1:] if n != left[a]] + [
        n for n in right[1:] if n != left[a]
    ]
    equation = f"{''.join(left)},{''.join(right)}->b{''.join(rest)}"
    result = ops.einsum(x, y, equation=equation)
    return result if rest else ops.expand_dims(result, [1])


def _unit(x: Any, axis: int) -> Any:
    total = ops.sum_squares(x, (axis,), keepdims=True)
    return x * ops.rsqrt(ops.maximum(total, 1e-12))


READ: Final = layers(
    {
        "Add": _merge(ops.add), "Multiply": _merge(ops.multiply),
        "Maximum": _merge(ops.maximum), "Minimum": _merge(ops.minimum),
        "Average": read_average, "Subtract": read_subtract,
        "Concatenate": read_concatenate, "Dot": read_dot,
    }
)  # fmt: skip
