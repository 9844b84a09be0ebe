"""From nd4j: reductions, cumulative ops, arguments of extrema, sorting, counting."""

# ruff: noqa: N803 - arguments have the names that they have in nd4j

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda_nd4j.std.arguments import (
    axes_of,
    axis_of,
    expect_no_other,
    flag_of,
    integer_of,
    one_of,
)
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, known_or_value, known_scalar, rank_of

__all__ = ["READ"]


def _reduction(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(
        x: Any, axes: Any = None, *, keepDims: Any = False, dimensions: Any = None,
        dtype: Any = None,
    ) -> Any:  # fmt: skip
        y = op(x, axes_of(axes, dimensions), keepdims=bool(keepDims))
        return y if dtype is None else cast_to(y, dtype)

    return read


def _mean(x: Any, axes: Any, *, keepdims: bool = False) -> Any:
    """The mean of integers is rounded towards zero, as their quotient."""
    if x.dtype.kind not in ("int", "uint"):
        return ops.mean(x, axes, keepdims=keepdims)
    total = ops.sum(x, axes, keepdims=keepdims)
    return ops.divide(total, ops.sum(ops.ones_like(x), axes, keepdims=keepdims))


def _of_sizes(op: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction of absolute values."""
    return lambda x, axes, keepdims=False: op(ops.abs(x), axes, keepdims=keepdims)


def _sum_of_squares(x: Any, axes: Any, *, keepdims: bool = False) -> Any:
    return ops.sum(ops.square(x), axes, keepdims=keepdims)


def _norm(x: Any, axes: Any, *, keepdims: bool = False) -> Any:
    return ops.sqrt(_sum_of_squares(x, axes, keepdims=keepdims))


def _count(is_zero: bool) -> Callable[..., Any]:
    def count(x: Any, axes: Any, *, keepdims: bool = False) -> Any:
        zero = ops.number_like(x, value=0)
        found = ops.equal(x, zero) if is_zero else ops.not_equal(x, zero)
        return ops.sum(ops.astype(found, dtype="int64"), axes, keepdims=keepdims)

    return count


def _variance(root: bool) -> Callable[..., Any]:
    def read(
        x: Any, axes: Any = None, *, keepDims: Any = False, biasCorrected: Any = False,
        dimensions: Any = None, mean: Any = None, bias: Any = None,
    ) -> Any:  # fmt: skip
        expect(mean is None and bias is None, "a mean that is given")
        y = ops.var(
            x, axes_of(axes, dimensions), correction=int(bool(biasCorrected)),
            keepdims=bool(keepDims),
        )  # fmt: skip
        return ops.sqrt(y) if root else y

    return read


def read_log_sum_exp(x: Any, axes: Any = None, *, dimensions: Any = None,
                     **keep: Any) -> Any:  # fmt: skip
    """reduce_logsumexp, whose `keepDims` is one of three kinds."""
    names = ("keepDims", "keepDims.double", "keepDims.int64")
    kept = flag_of(one_of(keep, *names))
    return ops.logsumexp(x, axes_of(axes, dimensions), keepdims=kept)


def read_moments(
    x: Any,
    axes: Any = None,
    *,
    keepDims: Any = False,
    dimensions: Any = None,
) -> Any:
    """moments to `mean` and `var`."""
    where, kept = axes_of(axes, dimensions), bool(keepDims)
    return ops.mean(x, where, keepdims=kept), ops.var(x, where, keepdims=kept)


def _extremum(op: Callable[..., Any], *, sizes: bool = False) -> Callable[..., Any]:
    def read(
        x: Any, axis: Any = None, *, keepDims: Any = False, dimensions: Any = None,
        dtype: Any = None,
    ) -> Any:  # fmt: skip
        x = ops.abs(x) if sizes else x
        at = axis_of(axis, dimensions, default=-1)
        y = op(x, at)
        y = ops.expand_dims(y, [at % rank_of(x)]) if keepDims else y
        return cast_to(y, dtype or "int64")

    return read


def _cumulative(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(x: Any, axis: Any = None, *, dimensions: Any = None, **flags: Any) -> Any:
        names = ("exclusive", "exclusive.int64", "reverse", "reverse.int64")
        expect_no_other(flags, names)
        exclusive, reverse = (
            flag_of(flags.get(n), flags.get(f"{n}.int64"))
            for n in ("exclusive", "reverse")
        )
        if axis is not None and known_scalar(axis) is None and rank_of(x) == 1:
            axis = None
        at = axis_of(axis, dimensions, default=0)
        return op(x, at, exclusive=exclusive, reverse=reverse)

    return read


def read_top_k(x: Any, k: Any = None, *, needSort: Any = True, **counts: Any) -> Any:
    """The k greatest elements of the last axis, and their indices in int64."""
    del needSort
    number = integer_of(k, one_of(counts, "k.int64", "k"), "k")
    return ops.topk(x, number)


def read_in_top_k(scores: Any, targets: Any, *, k: Any = 1, sorted: Any = True) -> Any:
    """in_top_k to `in_top_k`."""
    del sorted
    return ops.in_top_k(scores, targets, int(k))


def read_nth_element(x: Any, n: Any, **flags: Any) -> Any:
    """nth_element to `sort` and `gather`."""
    names = ("reverse", "reverse.int64")
    expect_no_other(flags, names)
    order = ops.sort(x, descending=flag_of(*flags.values()))
    return ops.gather(order, ops.reshape(n, []), axis=-1)


def read_histogram(
    x: Any, limits: Any, bins: Any = None, *, dtype: Any = None, **counts: Any
) -> Any:
    """histogram_fixed_width to `histogram`, of int32."""
    number = integer_of(bins, one_of(counts, "block.width", "nbins") or 100, "nbins")
    low, high = ops.split(limits, axis=0, outputs=2)
    found = ops.histogram(x, ops.reshape(low, []), ops.reshape(high, []), number)
    return cast_to(found, dtype or "int32")


def read_bincount(
    x: Any, weights: Any = None, least: Any = None, most: Any = None, *,
    outputType: Any = None, minLength: Any = None,
) -> Any:  # fmt: skip
    """Elements beyond the size are not counted; no weights are an empty tensor."""
    expect(most is None and minLength is None, "limits of the number of counts")
    given = weights
    if weights is not None:
        dims = weights.type.shape
        empty = dims.is_static and 0 in dims.dims
        given = None if empty else ops.reshape(weights, [-1])
    expect(least is not None, "the number of counts is expected")
    size = known_or_value(ops.reshape(least, []))
    found = ops.bincount(ops.reshape(x, [-1]), size, given)
    return cast_to(found, outputType or (weights.dtype if given else "int32"))


def read_l2_loss(x: Any) -> Any:
    """Half the sum of squares."""
    return ops.multiply(ops.sum(ops.square(x)), ops.number_like(x, value=0.5))


def read_zero_fraction(x: Any) -> Any:
    """The share of zeros."""
    zeros = ops.astype(ops.equal(x, ops.number_like(x, value=0)), dtype="float32")
    return ops.mean(zeros)


READ: dict[str, Any] = {
    "reduce_sum": _reduction(ops.sum),
    "reduce_prod": _reduction(ops.prod),
    "reduce_max": _reduction(ops.max),
    "reduce_min": _reduction(ops.min),
    "reduce_mean": _reduction(_mean),
    "all": _reduction(ops.all),
    "any": _reduction(ops.any),
    "asum": _reduction(_of_sizes(ops.sum)),
    "amean": _reduction(_of_sizes(ops.mean)),
    "amax": _reduction(_of_sizes(ops.max)),
    "amin": _reduction(_of_sizes(ops.min)),
    "reduce_norm1": _reduction(_of_sizes(ops.sum)),
    "reduce_norm2": _reduction(_norm),
    "reduce_norm_max": _reduction(_of_sizes(ops.max)),
    "reduce_sqnorm": _reduction(_sum_of_squares),
    "reduce_logsumexp": read_log_sum_exp,
    "reduce_variance": _variance(root=False),
    "reduce_stdev": _variance(root=True),
    "var": _variance(root=False),
    "std": _variance(root=True),
    "countNonZero": _reduction(_count(is_zero=False)),
    "countZero": _reduction(_count(is_zero=True)),
    "moments": read_moments,
    "argmax": _extremum(ops.argmax),
    "argmin": _extremum(ops.argmin),
    "argamax": _extremum(ops.argmax, sizes=True),
    "argamin": _extremum(ops.argmin, sizes=True),
    "cumsum": _cumulative(ops.cumulative_sum),
    "cumprod": _cumulative(ops.cumulative_prod),
    "top_k": read_top_k,
    "in_top_k": read_in_top_k,
    "nth_element": read_nth_element,
    "histogram_fixed_width": read_histogram,
    "bincount": read_bincount,
    "l2_loss": read_l2_loss,
    "zero_fraction": read_zero_fraction,
}
