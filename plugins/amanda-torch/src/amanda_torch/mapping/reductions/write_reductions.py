"""To PyTorch: reductions, cumulative ops, arguments of extrema, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.types import DType
from amanda_std.mappings import rank_of
from amanda_torch.mapping.written_arguments import (
    INT,
    dims_of,
    dtype_of,
    required_static,
    result_dims,
    write_call,
    write_size,
    write_sizes,
)

__all__ = ["WRITE"]


def _axes(x: Any, axes: Any) -> list[int]:
    rank = rank_of(x)
    if axes is None:
        return list(range(rank))
    return [int(a) % rank for a in np.ravel(required_static(axes, "the axes"))]


def _reduction(name: str, *, keeps_dtype: bool = False) -> Callable[..., Any]:
    def write(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
        along = _axes(x, axes)
        if not along:
            return write_call(o, "alias", x)
        more: dict[str, Any] = {}
        if keeps_dtype and dtype_of(x).kind in ("int", "uint"):
            more["dtype"] = dtype_of(x)
        return write_call(o, name, x, dim=along, keepdim=keepdims, **more)

    return write


def _extremum(name: str) -> Callable[..., Any]:
    reduce = _reduction(name)

    def write(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
        if any(_is_zero(dims_of(x)[axis]) for axis in _axes(x, axes)):
            sizes = [write_size(o, n) for n in result_dims(o)]
            return write_call(o, "full", size=sizes, fill_value=_limit(x, name),
                              dtype=dtype_of(x))  # fmt: skip
        return reduce(o, x, axes, keepdims=keepdims)

    return write


def _is_zero(dim: Any) -> bool:
    return isinstance(dim, int) and dim == 0


def _limit(x: Any, name: str) -> Any:
    """The extremum of no elements, as the hub has it."""
    dtype = dtype_of(x)
    if dtype.kind == "float":
        return -np.inf if name == "amax" else np.inf
    limits = np.iinfo(dtype.numpy)
    return int(limits.min if name == "amax" else limits.max)


def write_prod(o: Any, x: Any, axes: Any = None, *, keepdims: bool = False) -> Any:
    along = _axes(x, axes)
    for axis in sorted(along, reverse=True):
        x = write_call(o, "prod.dim_int", x, dim=axis, keepdim=keepdims,
                       dtype=dtype_of(o.source.outputs[0]))  # fmt: skip
    return x if along else write_call(o, "alias", x)


def _position(name: str) -> Callable[..., Any]:
    def write(o: Any, x: Any, axis: Any = 0, *, keepdims: bool = False,
              last: bool = False) -> Any:  # fmt: skip
        at = int(np.ravel(required_static(axis, "the axis"))[0])
        if dtype_of(x).kind == "bool":
            x = write_call(o, "to.dtype", x, dtype=DType("uint8"))
        size = dims_of(x)[at]
        if _is_zero(size):
            sizes = [write_size(o, n) for n in result_dims(o)]
            return write_call(o, "full", size=sizes, fill_value=0, dtype=INT)
        if not last:
            return write_call(o, name, x, dim=at, keepdim=keepdims)
        if not isinstance(size, int):
            raise Decline("the last extremum along an axis of unknown length")
        turned = write_call(o, "flip", x, dims=[at])
        found = write_call(o, name, turned, dim=at, keepdim=keepdims)
        return write_call(o, "rsub.Scalar", found, other=size - 1)

    return write


# -- cumulative --------------------------------------------------------------------


def _cumulative(name: str, start: Any, *, keeps_dtype: bool = True,
                outputs: int = 1) -> Callable[..., Any]:  # fmt: skip
    def write(o: Any, x: Any, axis: Any = 0, *, exclusive: bool = False,
              reverse: bool = False) -> Any:  # fmt: skip
        at = int(np.ravel(required_static(axis, "the axis"))[0]) % max(rank_of(x), 1)
        more = {"dtype": dtype_of(x)} if keeps_dtype else {}
        y = write_call(o, "flip", x, dims=[at]) if reverse else x
        if exclusive:
            y = _move_by_one(o, y, at, start, dims_of(x)[at])
        y = write_call(o, name, y, dim=at, **more)
        y = y[0] if outputs > 1 else y
        return write_call(o, "flip", y, dims=[at]) if reverse else y

    return write


def _move_by_one(o: Any, x: Any, axis: int, start: Any, size: Any) -> Any:
    """The elements one place later, with a neutral one before them."""
    if size == 0:
        return x
    first = write_call(o, "slice.Tensor", x, dim=axis, start=0, end=1)
    first = write_call(o, "full_like", first, fill_value=start)
    rest = write_call(o, "slice.Tensor", x, dim=axis, start=0, end=-1)
    return write_call(o, "cat", [first, rest], dim=axis)


def _running_extremum(name: str) -> Callable[..., Any]:
    write_all = _cumulative(name, None, keeps_dtype=False, outputs=2)

    def write(o: Any, x: Any, axis: Any = 0, *, reverse: bool = False) -> Any:
        return write_all(o, x, axis, reverse=reverse)

    return write


# -- order -------------------------------------------------------------------------


def _sort(o: Any, x: Any, axis: int, descending: bool) -> Any:
    """Values and positions in a stable order."""
    is_bool = dtype_of(x).kind == "bool"
    if is_bool:
        x = write_call(o, "to.dtype", x, dtype=DType("uint8"))
    values, order = write_call(
        o, "sort.stable", x, stable=True, dim=axis, descending=descending
    )
    if is_bool:
        values = write_call(o, "to.dtype", values, dtype=DType("bool"))
    return values, order


def write_sort(o: Any, x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    return _sort(o, x, axis, descending)[0]


def write_argsort(o: Any, x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    return _sort(o, x, axis, descending)[1]


def write_topk(o: Any, x: Any, k: Any, *, axis: int = -1, largest: bool = True) -> Any:
    """By a stable sort: `topk` does not say which of equal elements it takes."""
    count = write_sizes(o, k)[0]
    return tuple(
        write_call(o, "slice.Tensor", y, dim=axis, start=0, end=count)
        for y in _sort(o, x, axis, largest)
    )


def write_searchsorted(o: Any, x: Any, values: Any, *, right: bool = False) -> Any:
    dtype = dtype_of(x)
    if dtype.kind == "float" and dtype.bits < 32:
        single = DType("float32")
        x, values = (write_call(o, "to.dtype", v, dtype=single) for v in (x, values))
    return write_call(o, "searchsorted.Tensor", x, values, right=right)


def write_unique(o: Any, x: Any, *, axis: int | None = None,
                 sorted: bool = True) -> Any:  # fmt: skip
    """Of sorted elements; the first place of each by the smallest position, which is
    also the order of elements that are not sorted."""
    if axis is None:
        x, axis = write_call(o, "reshape", x, shape=[-1]), 0
    values, inverse, counts = write_call(
        o, "unique_dim", x, dim=axis, sorted=True, return_inverse=True,
        return_counts=True,
    )  # fmt: skip
    places = write_call(o, "cumsum", write_call(o, "ones_like", inverse), dim=0)
    places = write_call(o, "sub.Tensor", places, 1)
    far = write_call(o, "full_like", counts, fill_value=2**62)
    first = write_call(o, "scatter_reduce.two", far, inverse, places, dim=0,
                       reduce="amin")  # fmt: skip
    if sorted:
        return values, first, inverse, counts
    order = write_call(o, "argsort", first, dim=0)
    values = write_call(o, "index_select", values, order, dim=axis)
    first, counts = (
        write_call(o, "index_select", y, order, dim=0) for y in (first, counts)
    )
    place = write_call(o, "argsort", order, dim=0)
    return values, first, write_call(o, "take", place, inverse), counts


def write_nonzero(o: Any, x: Any) -> Any:
    return write_call(o, "transpose.int", write_call(o, "nonzero", x), dim0=0, dim1=1)


WRITE: dict[str, Any] = {
    "sum": _reduction("sum.dim_IntList", keeps_dtype=True),
    "mean": _reduction("mean.dim"),
    "max": _extremum("amax"),
    "min": _extremum("amin"),
    "all": _reduction("all.dims"),
    "any": _reduction("any.dims"),
    "logsumexp": _reduction("logsumexp"),
    "prod": write_prod,
    "argmax": _position("argmax"),
    "argmin": _position("argmin"),
    "cumulative_sum": _cumulative("cumsum", 0),
    "cumulative_prod": _cumulative("cumprod", 1),
    "cumulative_logsumexp": _cumulative("logcumsumexp", -np.inf, keeps_dtype=False),
    "cumulative_max": _running_extremum("cummax"),
    "cumulative_min": _running_extremum("cummin"),
    "sort": write_sort,
    "argsort": write_argsort,
    "topk": write_topk,
    "searchsorted": write_searchsorted,
    "unique": write_unique,
    "nonzero": write_nonzero,
}
