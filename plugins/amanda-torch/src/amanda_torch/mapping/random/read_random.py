"""From PyTorch: random numbers of the same distributions.

Keys come from the stream of the executable, so every call draws others; they are not
the numbers that PyTorch draws for a seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import integer, shape_argument
from amanda_torch.mapping.type_promotion import FLOAT, INT, is_number, number

__all__ = ["READ"]


def _uniform(shape: Any, dtype: Any) -> Any:
    return ops.random_uniform(ops.next_random_key(), shape, dtype=dtype)


def _normal(shape: Any, dtype: Any) -> Any:
    return ops.random_normal(ops.next_random_key(), shape, dtype=dtype)


def _of_size(draw: Callable[..., Any]) -> Callable[..., Any]:
    def read(size: Sequence[Any], *, dtype: Any = None) -> Any:
        return draw(shape_argument(size), dtype or FLOAT)

    return read


def _of_shape(draw: Callable[..., Any]) -> Callable[..., Any]:
    def read(x: Any, *, dtype: Any = None) -> Any:
        return draw(ops.shape_of(x), dtype or x.dtype)

    return read


def _integers(shape: Any, low: Any, high: Any, dtype: Any) -> Any:
    drawn = ops.random_integers(
        ops.next_random_key(), shape, np.int64(low), np.int64(high), dtype=INT
    )
    return cast_to(drawn, dtype)


def read_randint(high: int, size: Sequence[Any], *, dtype: Any = None) -> Any:
    return _integers(shape_argument(size), 0, high, dtype or INT)


def read_randint_low(low: int, high: int, size: Sequence[Any], *,
                     dtype: Any = None) -> Any:  # fmt: skip
    return _integers(shape_argument(size), low, high, dtype or INT)


def read_randint_like(x: Any, high: int, *, dtype: Any = None) -> Any:
    return _integers(ops.shape_of(x), 0, high, dtype or x.dtype)


def read_randint_like_low(x: Any, low: int, high: int, *, dtype: Any = None) -> Any:
    return _integers(ops.shape_of(x), low, high, dtype or x.dtype)


def read_randperm(n: Any, *, dtype: Any = None) -> Any:
    found = ops.random_permutation(ops.next_random_key(), n)
    return cast_to(found, dtype or INT)


def read_uniform(x: Any, low: float = 0, high: float = 1) -> Any:
    drawn = _uniform(ops.shape_of(x), x.dtype)
    return drawn * number(high - low, x.dtype) + number(low, x.dtype)


def read_normal(x: Any, mean: float = 0, std: float = 1) -> Any:
    drawn = _normal(ops.shape_of(x), x.dtype)
    return drawn * number(std, x.dtype) + number(mean, x.dtype)


def read_normal_of(mean: Any, std: Any = 1, size: Any = None, *,
                   dtype: Any = None) -> Any:  # fmt: skip
    """Means and deviations are tensors or numbers."""
    if is_number(mean) and is_number(std):
        kind, shape = dtype or FLOAT, shape_argument(size)
    else:
        like = std if is_number(mean) else mean
        kind = like.dtype
        both = [v for v in (mean, std) if not is_number(v)]
        total = both[0] if len(both) == 1 else both[0] + both[1]
        shape = ops.shape_of(total)
    mean, std = (number(v, kind) if is_number(v) else v for v in (mean, std))
    return _normal(shape, kind) * std + mean


def read_exponential(x: Any, rate: float = 1) -> Any:
    drawn = ops.log1p(ops.negative(_uniform(ops.shape_of(x), x.dtype)))
    return ops.negative(drawn) / number(rate, x.dtype)


def read_cauchy(x: Any, median: float = 0, sigma: float = 1) -> Any:
    drawn = _uniform(ops.shape_of(x), x.dtype) - number(0.5, x.dtype)
    turned = ops.tan(drawn * number(math.pi, x.dtype))
    return turned * number(sigma, x.dtype) + number(median, x.dtype)


def read_geometric(x: Any, p: float) -> Any:
    kind = x.dtype if x.dtype.kind == "float" else FLOAT
    drawn = ops.log1p(ops.negative(_uniform(ops.shape_of(x), kind)))
    found = ops.ceil(drawn / number(math.log1p(-p), kind))
    return cast_to(ops.maximum(found, number(1, kind)), x.dtype)


def read_log_normal(x: Any, mean: float = 1, std: float = 2) -> Any:
    return ops.exp(read_normal(x, mean, std))


def read_bernoulli(x: Any) -> Any:
    """1 with the probability that each element is."""
    return cast_to(ops.random_bernoulli(ops.next_random_key(), x), x.dtype)


def read_bernoulli_p(x: Any, p: Any = 0.5) -> Any:
    share = np.asarray(p, "float32") if is_number(p) else p
    drawn = ops.random_bernoulli(ops.next_random_key(), share, ops.shape_of(x))
    return cast_to(drawn, x.dtype)


def read_multinomial(x: Any, num_samples: int, replacement: bool = False) -> Any:
    """Indices by weight; without replacement, those of the largest perturbed logits."""
    count = integer(num_samples, "num_samples")
    logits = ops.log(x)
    last = rank_of(x) - 1
    expect(last in (0, 1), "weights are a vector or a matrix")
    if not replacement:
        noise = ops.random_gumbel(ops.next_random_key(), ops.shape_of(x), dtype=x.dtype)
        return ops.topk(logits + noise, [count], axis=last)[1]
    rows = ops.expand_dims(logits, [last])
    shape = [*x.type.shape.dims[:last], count, x.type.shape.dims[-1]]
    noise = ops.random_gumbel(
        ops.next_random_key(), shape_argument(shape), dtype=x.dtype
    )
    return ops.argmax(rows + noise, last + 1)


READ = torch_functions(
    {
        "rand": _of_size(_uniform),
        "rand_like": _of_shape(_uniform),
        "randn": _of_size(_normal),
        "randn_like": _of_shape(_normal),
        "randint": read_randint,
        "randint.low": read_randint_low,
        "randint_like": read_randint_like,
        "randint_like.low_dtype": read_randint_like_low,
        "randperm": read_randperm,
        "uniform": read_uniform,
        "normal_functional": read_normal,
        "normal.Tensor_Tensor normal.Tensor_float normal.float_Tensor "
        "normal.float_float": read_normal_of,
        "exponential": read_exponential,
        "cauchy": read_cauchy,
        "geometric": read_geometric,
        "log_normal": read_log_normal,
        "bernoulli": read_bernoulli,
        "bernoulli.p bernoulli.Tensor": read_bernoulli_p,
        "multinomial": read_multinomial,
    }
)
