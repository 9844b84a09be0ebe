"""From PyTorch: reductions over axes, arguments of extrema, statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import axes_of, axis_of
from amanda_torch.mapping.type_promotion import (
    as_float,
    as_ordered,
    as_truth,
    number,
    promote,
    wide,
    with_order,
)

__all__ = ["READ", "along", "count", "variance", "vector_norm"]


def along(x: Any, dim: Any) -> list[int] | None:
    """Axes to reduce; None for all of them."""
    axes = axes_of(dim, x)
    return None if len(axes) == rank_of(x) else axes


def count(x: Any, dim: Any) -> Any:
    """The number of elements that are reduced, as an int64 scalar."""
    axes = axes_of(dim, x)
    if len(axes) == rank_of(x):
        return ops.size(x)
    sizes = [ops.dim(x, axis=axis) for axis in axes]
    total = sizes[0]
    for size in sizes[1:]:
        total = total * size
    return total


def _sums(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(
        x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Any:
        x = wide(x, dtype)
        axes = axes_of(dim, x)
        if not axes:
            return ops.identity(x)
        return op(x, along(x, dim), keepdims=keepdim)

    return read


def read_mean(
    x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    return ops.mean(wide(x, dtype), along(x, dim), keepdims=keepdim)


def _extremum(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return op(x, along(x, dim), keepdims=keepdim)

    return read


def _truth(op: Callable[..., Any]) -> Callable[..., Any]:
    """`all` and `any`; those of uint8 are uint8."""

    def read(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        y = op(as_truth(x), along(x, dim), keepdims=keepdim)
        return cast_to(y, x.dtype) if str(x.dtype) == "uint8" else y

    return read


def _argument(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        rank = rank_of(x)
        if dim is None or not rank:
            y = op(ops.reshape(x, [-1]), 0)
            return ops.reshape(y, [1] * rank) if keepdim else y
        return op(x, axis_of(dim, x), keepdims=keepdim)

    return read


def _extremum_along(value: Callable[..., Any], index: Callable[..., Any]) -> Any:
    """The extremum along an axis and its index."""

    def read(x: Any, dim: int, keepdim: bool = False) -> Any:
        if not rank_of(x):
            return ops.identity(x), np.asarray(0, "int64")
        axis = axis_of(dim, x)
        best = value(x, [axis], keepdims=keepdim)
        return best, index(as_ordered(x), axis, keepdims=keepdim)

    return read


def read_aminmax(x: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    axes = None if dim is None or not rank_of(x) else [axis_of(dim, x)]
    least, most = with_order(ops.min), with_order(ops.max)
    return least(x, axes, keepdims=keepdim), most(x, axes, keepdims=keepdim)


def _ratio(x: Any, total: Any, size: Any) -> Any:
    return total / cast_to(size, x.dtype)


def variance(
    x: Any, dim: Any = None, correction: float = 1, *, keepdim: bool = False
) -> tuple[Any, Any]:
    """The variance and the mean over axes; of complex numbers by their parts."""
    if x.dtype.kind == "complex":
        parts = [variance(p, dim, correction, keepdim=keepdim)
                 for p in (ops.real(x), ops.imag(x))]  # fmt: skip
        return parts[0][0] + parts[1][0], ops.complex(parts[0][1], parts[1][1])
    axes = along(x, dim)
    mean = ops.mean(x, axes, keepdims=True)
    apart = x - mean
    total = ops.sum(apart * apart, axes, keepdims=keepdim)
    size = cast_to(count(x, dim), x.dtype) - number(correction, x.dtype)
    size = ops.maximum(size, number(0, x.dtype))
    return total / size, ops.mean(x, axes, keepdims=keepdim)


def _correction(unbiased: Any) -> float:
    return 1 if unbiased is None else float(unbiased)


def read_var(x: Any, dim: Any = None, unbiased: Any = True, keepdim: bool = False, *,
             correction: Any = None) -> Any:  # fmt: skip
    given = unbiased if correction is None else correction
    return variance(x, dim, _correction(given), keepdim=keepdim)[0]


def read_var_of_all(x: Any, unbiased: Any = True) -> Any:
    return variance(x, None, _correction(unbiased))[0]


def read_var_by_correction(x: Any, dim: Any = None, *, correction: Any = None,
                           keepdim: bool = False) -> Any:  # fmt: skip
    return variance(x, dim, _correction(correction), keepdim=keepdim)[0]


def _roots(read: Callable[..., Any]) -> Callable[..., Any]:
    """The standard deviation for a variance, alone or before the mean."""

    def read_root(*args: Any, **named: Any) -> Any:
        found = read(*args, **named)
        if isinstance(found, tuple):
            return ops.sqrt(found[0]), found[1]
        return ops.sqrt(found)

    read_root.__name__ = read.__name__.replace("var", "std")
    read_root.__signature__ = __import__("inspect").signature(read)  # type: ignore[attr-defined]
    return read_root


def read_var_mean(x: Any, dim: Any = None, unbiased: Any = True,
                  keepdim: bool = False) -> Any:  # fmt: skip
    return variance(x, dim, _correction(unbiased), keepdim=keepdim)


def read_var_mean_of_all(x: Any, unbiased: Any = True) -> Any:
    return variance(x, None, _correction(unbiased))


def read_var_mean_by_correction(x: Any, dim: Any = None, *, correction: Any = None,
                                keepdim: bool = False) -> Any:  # fmt: skip
    return variance(x, dim, _correction(correction), keepdim=keepdim)


def read_logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    x = as_float(x)
    if not rank_of(x):
        return ops.identity(x)
    axes = along(x, dim)
    if x.dtype.kind == "complex":
        high = ops.max(ops.real(x), axes, keepdims=True)
        high = cast_to(
            ops.where(ops.isfinite(high), high, ops.zeros_like(high)), x.dtype
        )
        total = ops.log(ops.sum(ops.exp(x - high), axes, keepdims=True)) + high
        return total if keepdim else ops.squeeze(total, axes_of(dim, x))
    return ops.logsumexp(x, axes, keepdims=keepdim)


def read_nansum(
    x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    x = wide(x, dtype)
    if x.dtype.kind == "float":
        x = ops.where(ops.isnan(x), number(0, x.dtype), x)
    return ops.sum(x, along(x, dim), keepdims=keepdim)


def read_nanmean(
    x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    x = wide(x, dtype)
    present = ops.astype(ops.logical_not(ops.isnan(x)), dtype=x.dtype)
    size = ops.sum(present, along(x, dim), keepdims=keepdim)
    return read_nansum(x, dim, keepdim) / size


def read_count_nonzero(x: Any, dim: Any = None) -> Any:
    return ops.sum(ops.astype(as_truth(x), dtype="int64"), along(x, dim))


def vector_norm(x: Any, p: float, dim: Any = None, *, keepdim: bool = False) -> Any:
    """The p-norm of vectors along axes."""
    size = ops.modulus(x) if x.dtype.kind == "complex" else ops.abs(x)
    axes = along(x, dim)
    if p == 0:
        found = ops.astype(ops.not_equal(size, number(0, size.dtype)), dtype=size.dtype)
        return ops.sum(found, axes, keepdims=keepdim)
    if p == float("inf"):
        return ops.max(size, axes, keepdims=keepdim)
    if p == float("-inf"):
        return ops.min(size, axes, keepdims=keepdim)
    if p == 1:
        return ops.sum(size, axes, keepdims=keepdim)
    if p == 2:
        return ops.sqrt(ops.sum(size * size, axes, keepdims=keepdim))
    powers = ops.pow(size, number(p, size.dtype))
    total = ops.sum(powers, axes, keepdims=keepdim)
    return ops.pow(total, number(1 / p, size.dtype))


def read_vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *,
                     dtype: Any = None) -> Any:  # fmt: skip
    x = as_float(x) if dtype is None else cast_to(x, dtype)
    return vector_norm(x, float(ord), dim, keepdim=keepdim)


def read_norm(x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, *,
              dtype: Any = None) -> Any:  # fmt: skip
    x = as_float(x) if dtype is None else cast_to(x, dtype)
    return vector_norm(x, 2.0 if p is None else float(p), dim, keepdim=bool(keepdim))


def read_dist(a: Any, b: Any, p: float = 2) -> Any:
    a, b = promote(a, b)
    return vector_norm(a - b, float(p))


def read_renorm(x: Any, p: float, dim: int, maxnorm: float) -> Any:
    """Scale slices along an axis whose norm is larger than the limit."""
    axis = axis_of(dim, x)
    others = [i for i in range(rank_of(x)) if i != axis]
    norm = vector_norm(x, float(p), others, keepdim=True)
    limit = number(maxnorm, norm.dtype)
    scale = limit / (norm + number(1e-7, norm.dtype))
    scale = ops.where(ops.greater(norm, limit), scale, number(1, norm.dtype))
    return x * cast_to(scale, x.dtype)


def _cumulative(op: Callable[..., Any]) -> Callable[..., Any]:
    def read(x: Any, dim: int, *, dtype: Any = None) -> Any:
        x = wide(x, dtype)
        return op(x, axis_of(dim, x)) if rank_of(x) else ops.identity(x)

    return read


def read_logcumsumexp(x: Any, dim: int) -> Any:
    return (
        ops.cumulative_logsumexp(x, axis_of(dim, x)) if rank_of(x) else ops.identity(x)
    )


def _running_extremum(op: Callable[..., Any], compare: Callable[..., Any]) -> Any:
    """The extremum so far and its last index."""

    def read(x: Any, dim: int) -> Any:
        if not rank_of(x):
            return ops.identity(x), np.asarray(0, "int64")
        axis = axis_of(dim, x)
        values = op(as_ordered(x), axis)
        places = ops.arange(0, ops.dim(x, axis=axis))
        shape = [1] * rank_of(x)
        shape[axis] = -1
        places = ops.broadcast_to(ops.reshape(places, shape), ops.shape_of(x))
        is_new = compare(as_ordered(x), values)
        if x.dtype.kind == "float":
            is_new = ops.logical_or(is_new, ops.isnan(x))
        return cast_to(values, x.dtype), ops.cumulative_max(
            ops.where(is_new, places, ops.zeros_like(places)), axis
        )

    return read


def read_trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    return ops.sum(_areas(y, x, dx, dim), [axis_of(dim, y)])


def read_cumulative_trapezoid(
    y: Any, x: Any = None, *, dx: float = 1, dim: int = -1
) -> Any:
    return ops.cumulative_sum(_areas(y, x, dx, dim), axis_of(dim, y))


def _areas(y: Any, x: Any, dx: Any, dim: int) -> Any:
    axis = axis_of(dim, y)
    heights = (_part(y, axis, 1, None) + _part(y, axis, 0, -1)) / number(2, y.dtype)
    if x is None:
        return heights * number(dx, y.dtype)
    if rank_of(x) == 1 and rank_of(y) > 1:
        shape = [1] * rank_of(y)
        shape[axis] = -1
        widths = ops.reshape(_part(x, 0, 1, None) - _part(x, 0, 0, -1), shape)
    else:
        at = axis - rank_of(y) + rank_of(x)
        widths = _part(x, at, 1, None) - _part(x, at, 0, -1)
    return heights * cast_to(widths, y.dtype)


def read_difference(x: Any, n: int = 1, dim: int = -1, prepend: Any = None,
                    append: Any = None) -> Any:  # fmt: skip
    """The n-th differences of neighbours along an axis."""
    axis = axis_of(dim, x)
    parts = promote(*[v for v in (prepend, x, append) if v is not None])
    x = ops.concat(*parts, axis=axis) if len(parts) > 1 else x
    for _ in range(n):
        a, b = _part(x, axis, 1, None), _part(x, axis, 0, -1)
        x = ops.logical_xor(a, b) if x.dtype.kind == "bool" else a - b
    return x


def _part(x: Any, axis: int, start: int, stop: int | None) -> Any:
    return ops.slice_(x, [start], [2**62 if stop is None else stop], [axis])


READ = torch_functions(
    {
        "sum sum.dim_IntList": _sums(ops.sum),
        "prod prod.dim_int": _sums(ops.prod),
        "nansum": read_nansum,
        "mean mean.dim": read_mean,
        "nanmean": read_nanmean,
        "max amax": _extremum(with_order(ops.max)),
        "min amin": _extremum(with_order(ops.min)),
        "all all.dim all.dims": _truth(ops.all),
        "any any.dim any.dims": _truth(ops.any),
        "argmax": _argument(ops.argmax),
        "argmin": _argument(ops.argmin),
        "max.dim": _extremum_along(with_order(ops.max), ops.argmax),
        "min.dim": _extremum_along(with_order(ops.min), ops.argmin),
        "aminmax": read_aminmax,
        "var": read_var_of_all,
        "var.dim": read_var,
        "var.correction": read_var_by_correction,
        "std": _roots(read_var_of_all),
        "std.dim": _roots(read_var),
        "std.correction": _roots(read_var_by_correction),
        "var_mean": read_var_mean_of_all,
        "var_mean.dim": read_var_mean,
        "var_mean.correction": read_var_mean_by_correction,
        "std_mean": _roots(read_var_mean_of_all),
        "std_mean.dim": _roots(read_var_mean),
        "std_mean.correction": _roots(read_var_mean_by_correction),
        "logsumexp special_logsumexp": read_logsumexp,
        "count_nonzero count_nonzero.dim_IntList": read_count_nonzero,
        "linalg_vector_norm": read_vector_norm,
        "norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype norm.ScalarOpt_dtype":
            read_norm,
        "dist": read_dist,
        "renorm": read_renorm,
        "cumsum": _cumulative(ops.cumulative_sum),
        "cumprod": _cumulative(ops.cumulative_prod),
        "logcumsumexp _logcumsumexp": read_logcumsumexp,
        "cummax": _running_extremum(ops.cumulative_max, ops.greater_equal),
        "cummin": _running_extremum(ops.cumulative_min, ops.less_equal),
        "trapezoid.x trapezoid.dx trapz.x trapz.dx": read_trapezoid,
        "diff": read_difference,
        "cumulative_trapezoid.x cumulative_trapezoid.dx": read_cumulative_trapezoid,
    }
)  # fmt: skip
