"""To PyTorch: shapes, slices, joins, padding and generated tensors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline
from amanda.types import DType, Sym, TensorType
from amanda_std.mappings import rank_of, static_value
from amanda_torch.mapping.written_arguments import (
    INT,
    broadcasts_to,
    dims_of,
    dtype_of,
    number_or_value,
    required_static,
    result_dims,
    write_call,
    write_constant,
    write_size,
    write_sizes,
)

__all__ = ["WRITE", "pad_axes"]


# -- sizes as tensors --------------------------------------------------------------


def write_shape_of(o: Any, x: Any) -> Any:
    dims = dims_of(x)
    if all(isinstance(n, int) for n in dims):
        return write_constant(o, np.array(dims, "int64"))
    return write_call(o, "stack", [_size_tensor(o, x, i) for i in range(len(dims))])


def _size_tensor(o: Any, x: Any, axis: int) -> Any:
    dim = dims_of(x)[axis]
    if isinstance(dim, int):
        return write_constant(o, np.array(dim))
    size = write_call(o, "sym_size.int", x, dim=axis)
    size.type = TensorType(INT, [], value=dim)
    return write_call(o, "scalar_tensor", s=size, dtype=INT)


def write_dim(o: Any, x: Any, *, axis: int) -> Any:
    return _size_tensor(o, x, axis % rank_of(x))


def write_size_of(o: Any, x: Any) -> Any:
    total: Any = 1
    for dim in dims_of(x):
        total = total * dim
    if isinstance(total, int):
        return write_constant(o, np.array(total))
    return write_call(o, "prod", write_shape_of(o, x))


# -- shapes ------------------------------------------------------------------------


def write_reshape(o: Any, x: Any, shape: Any, *, copy_zero: bool = False) -> Any:
    known, dims = static_value(shape), result_dims(o)
    if known is not None and not (copy_zero and 0 in known):
        return write_call(o, "reshape", x, shape=known)
    if not copy_zero:
        return write_call(o, "reshape", x, shape=write_sizes(o, shape))
    if known is None and any(_is_unknown(dim) for dim in dims):
        shape = _with_copied_sizes(o, x, shape)
        return write_call(o, "reshape", x, shape=write_sizes(o, shape))
    return write_call(o, "reshape", x, shape=[write_size(o, dim) for dim in dims])


def _is_unknown(dim: Any) -> bool:
    return not isinstance(dim, int) and (dim is None or dim.is_anonymous)


def _with_copied_sizes(o: Any, x: Any, shape: Any) -> Any:
    """A computed shape in which each 0 is the size of that axis of x."""
    own, count = write_shape_of(o, x), dims_of(shape)[0]
    if not isinstance(count, int):
        raise Decline("the number of sizes is known at run time only")
    rest = max(count - rank_of(x), 0)
    own = write_call(o, "constant_pad_nd", own, pad=[0, rest], value=0)
    own = write_call(o, "slice.Tensor", own, dim=0, start=0, end=count)
    is_copied = write_call(o, "eq.Scalar", shape, other=0)
    found = write_call(o, "where.self", is_copied, own, shape)
    found.type = TensorType(INT, [count])
    return found


def write_squeeze(o: Any, x: Any, axes: Any = None) -> Any:
    if axes is None:
        return write_call(o, "squeeze", x)
    known = required_static(axes, "the axes")
    known = known if isinstance(known, list) else [known]
    return write_call(o, "squeeze.dims", x, dim=known)


def write_expand_dims(o: Any, x: Any, axes: Any) -> Any:
    known = required_static(axes, "the axes")
    known = known if isinstance(known, list) else [known]
    total = rank_of(x) + len(known)
    for axis in sorted(axis % total for axis in known):
        x = write_call(o, "unsqueeze", x, dim=axis)
    return x if known else write_call(o, "alias", x)


def write_transpose(o: Any, x: Any, *, perm: Any = None) -> Any:
    order = list(range(rank_of(x)))[::-1] if perm is None else list(perm)
    moved = [i for i, p in enumerate(order) if i != p % len(order)]
    if len(moved) == 2:
        return write_call(o, "transpose.int", x, dim0=moved[0], dim1=moved[1])
    return write_call(o, "permute", x, dims=order)


def write_broadcast_to(o: Any, x: Any, shape: Any) -> Any:
    """A 1 in the shape keeps the dim of x."""
    dims = result_dims(o)
    if broadcasts_to(x, dims):
        return write_call(o, "alias", x)
    own: list[Any] = [None] * (len(dims) - rank_of(x)) + list(dims_of(x))
    values = None if static_value(shape) is not None else shape
    start = len(dims) - (len(own) if values is None else _length(shape, len(dims)))
    sizes = [
        -1 if mine is not None and _is_same(mine, dim)
        else write_size(o, dim, values, i - start)
        for i, (mine, dim) in enumerate(zip(own, dims, strict=True))
    ]  # fmt: skip
    return write_call(o, "expand", x, size=sizes)


def _length(shape: Any, otherwise: int) -> int:
    count = dims_of(shape)[0]
    return count if isinstance(count, int) else otherwise


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, Sym) and isinstance(b, Sym):
        return a.key == b.key
    return type(a) is type(b) and bool(a == b)


def write_concat(o: Any, *xs: Any, axis: int = 0) -> Any:
    return write_call(o, "cat", list(xs), dim=axis)


def write_stack(o: Any, *xs: Any, axis: int = 0) -> Any:
    return write_call(o, "stack", list(xs), dim=axis)


def write_split(o: Any, x: Any, sizes: Any = None, *, axis: int = 0,
                outputs: int) -> Any:  # fmt: skip
    if sizes is None:
        size = dims_of(x)[axis]
        if not isinstance(size, int):
            raise Decline("equal parts of an axis of unknown length")
        step = -(-size // outputs)
        edges = [min(step * i, size) for i in range(outputs + 1)]
        given: list[Any] = [b - a for a, b in pairwise(edges)]
    else:
        given = write_sizes(o, sizes)
    parts = write_call(
        o, "split_with_sizes", x, split_sizes=given, dim=axis, outputs=outputs
    )
    return parts if isinstance(parts, tuple) else (parts,)


def write_flip(o: Any, x: Any, axes: Any = None) -> Any:
    rank = rank_of(x)
    dims = range(rank) if axes is None else required_static(axes, "the axes")
    dims = [dims] if isinstance(dims, int) else list(dims)
    signed = _SIGNED.get(str(dtype_of(x)))
    if signed is None:
        return write_call(o, "flip", x, dims=dims)
    y = write_call(o, "view.dtype", x, dtype=DType(signed))
    y = write_call(o, "flip", y, dims=dims)
    return write_call(o, "view.dtype", y, dtype=dtype_of(x))


_SIGNED = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}
"""Element types for which PyTorch has few kernels, and those of their bits."""


def write_tile(o: Any, x: Any, repeats: Any) -> Any:
    return write_call(o, "tile", x, dims=write_sizes(o, repeats))


def write_diagonal(o: Any, x: Any, *, offset: int = 0) -> Any:
    return write_call(o, "diagonal", x, offset=offset, dim1=-2, dim2=-1)


def _triangle(name: str) -> Any:
    def write(o: Any, x: Any, k: Any = 0) -> Any:
        known = required_static(k, "the diagonal")
        return write_call(o, name, x, diagonal=int(np.ravel(known)[0]))

    return write


def write_view(o: Any, x: Any, shape: Any, strides: Any, offset: Any = 0) -> Any:
    """The elements at the places that strides lead to."""
    sizes, steps = (
        required_static(v, what) for v, what in ((shape, "shape"), (strides, "strides"))
    )
    at = np.full((), np.ravel(required_static(offset, "the offset"))[0], "int64")
    for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        rest = (1,) * (len(sizes) - axis - 1)
        at = at + (np.arange(size) * step).reshape(-1, *rest)
    places = write_constant(o, np.broadcast_to(at, tuple(sizes)).copy())
    flat = write_call(o, "reshape", x, shape=[-1])
    return write_call(o, "index.Tensor", flat, [places])


def write_transfer(o: Any, x: Any, *, to: str, source: str = "") -> Any:
    """A program runs on one device, whatever others the graph names."""
    del to, source
    return write_call(o, "alias", x)


# -- slices ------------------------------------------------------------------------


def write_slice(o: Any, x: Any, starts: Any, stops: Any, axes: Any = None,
                steps: Any = None) -> Any:  # fmt: skip
    begins, ends = write_sizes(o, starts), write_sizes(o, stops)
    count = len(begins)
    given = list(range(count)) if axes is None else required_static(axes, "the axes")
    apart = [1] * count if steps is None else required_static(steps, "the steps")
    rows = zip(np.ravel(given).tolist(), begins, ends, np.ravel(apart).tolist(),
               strict=True)  # fmt: skip
    rank = rank_of(x)
    out = x
    for axis, begin, end, step in rows:
        out = _slice_axis(o, out, axis % rank, begin, end, step, dims_of(x))
    return out if count else write_call(o, "alias", x)


def _slice_axis(o: Any, x: Any, axis: int, begin: Any, end: Any, step: int,
                dims: tuple[Any, ...]) -> Any:  # fmt: skip
    """A slice along one axis; PyTorch has no negative steps."""
    if step > 0:
        limits = {"start": _limit(begin), "end": _limit(end)}
        return write_call(o, "slice.Tensor", x, dim=axis, step=step, **limits)
    size = dims[axis]
    turned = write_call(o, "flip", x, dims=[axis])
    first, last = (_from_the_end(v, size) for v in (begin, end))
    return write_call(o, "slice.Tensor", turned, dim=axis, start=first, end=last,
                      step=-step)  # fmt: skip


_MOST = 2**63 - 1


def _limit(value: Any) -> Any:
    return max(-_MOST, min(value, _MOST)) if isinstance(value, int) else value


def _from_the_end(value: Any, size: Any) -> Any:
    """A limit of a slice with a negative step as one of the reversed axis."""
    if not isinstance(value, int):
        raise Decline("a limit of a reversed slice is known at run time only")
    if isinstance(size, int):
        place = max(value + size, -1) if value < 0 else min(value, size - 1)
        return size - 1 - place
    if value < 0:  # -1 is the last element, which is the first of the reversed axis
        return -1 - value
    if value >= 2**31 - 1:
        return 0
    raise Decline("a limit of a reversed slice of an axis of unknown length")


# -- padding -----------------------------------------------------------------------


def write_pad(o: Any, x: Any, pads: Any, value: Any = None, axes: Any = None, *,
              mode: str = "constant") -> Any:  # fmt: skip
    rank = rank_of(x)
    sizes = write_sizes(o, _flat_pads(o, pads))
    given = range(rank) if axes is None else required_static(axes, "the axes")
    rows: list[tuple[Any, Any]] = [(0, 0)] * rank
    for i, axis in enumerate(np.ravel(list(given)).tolist()):
        rows[int(axis)] = (sizes[2 * i], sizes[2 * i + 1])
    if mode != "constant":
        return _pad_by_elements(o, x, rows, mode)
    number = 0 if value is None else number_or_value(value)
    if isinstance(number, OutputPort):
        raise Decline("the value of the padding is known at run time only")
    return pad_axes(o, x, rows, number)


def _flat_pads(o: Any, pads: Any) -> Any:
    """Pairs of pads as a vector."""
    if not isinstance(pads, OutputPort):
        return np.ravel(np.asarray(pads, "int64")).tolist()
    known = static_value(pads)
    if known is not None:
        return np.ravel(np.asarray(known, "int64")).tolist()
    flat = write_call(o, "reshape", pads, shape=[-1])
    count = dims_of(pads)[0]
    dims = [count * 2] if isinstance(count, int) else None
    content = tensor_content(pads)
    flat.type = TensorType(dtype_of(pads), dims, value=content)
    return flat


def tensor_content(value: Any) -> Any:
    """The known elements of a value in row-major order."""
    type = value.type
    return type.elements if isinstance(type, TensorType) else None


def pad_axes(o: Any, x: Any, rows: Any, number: Any = 0) -> Any:
    """Pad, or crop, the axes by (low, high) elements."""
    widths = [width for pair in reversed(list(rows)) for width in pair]
    while (
        widths
        and isinstance(widths[-1], int)
        and not any(not isinstance(w, int) or w for w in widths[-2:])
    ):
        del widths[-2:]
    if not widths:
        return write_call(o, "alias", x)
    dtype = dtype_of(x)
    if dtype.kind == "bool":
        number = bool(number)
    return write_call(o, "constant_pad_nd", x, pad=widths, value=number)


def _pad_by_elements(o: Any, x: Any, rows: Any, mode: str) -> Any:
    """Padding with elements of the tensor, at positions that NumPy computes."""
    dims = dims_of(x)
    for axis, (low, high) in enumerate(rows):
        if low == 0 == high:
            continue
        size = dims[axis]
        if not all(isinstance(n, int) for n in (low, high, size)):
            raise Decline(f"padding of mode {mode} by sizes known at run time only")
        at = np.arange(size)[max(-low, 0) : size - max(-high, 0)]
        grow: Any = (max(low, 0), max(high, 0))
        at = np.pad(at, grow, mode=mode)  # type: ignore[call-overload]
        x = write_call(o, "index_select", x, write_constant(o, at), dim=axis)
    return x if any(r != (0, 0) for r in rows) else write_call(o, "alias", x)


# -- generated tensors -------------------------------------------------------------


def write_full(o: Any, shape: Any, value: Any) -> Any:
    number = number_or_value(value)
    sizes = write_sizes(o, shape)
    if not isinstance(number, OutputPort):
        return write_call(o, "full", size=sizes, fill_value=number,
                          dtype=dtype_of(value))  # fmt: skip
    return write_call(o, "expand", value, size=sizes)


def write_arange(o: Any, start: Any, stop: Any, step: Any = 1) -> Any:
    first, last, by = (write_sizes(o, v)[0] for v in (start, stop, step))
    return write_call(o, "arange.start_step", start=first, end=last, step=by, dtype=INT)


def write_eye(o: Any, rows: Any, columns: Any = None, *, k: int = 0,
              dtype: Any) -> Any:  # fmt: skip
    given = (rows, rows if columns is None else columns)
    height, width = (write_sizes(o, size)[0] for size in given)
    if isinstance(height, int) and isinstance(width, int):
        return write_constant(o, np.eye(height, width, k).astype(dtype.numpy))
    if not k:
        return write_call(o, "eye.m", n=height, m=width, dtype=dtype)
    own, other = (
        write_call(o, "arange.start_step", start=0, end=size, step=1, dtype=INT)
        for size in (width, height)
    )
    shifted = write_call(o, "add.Scalar", other, other=k)
    column = write_call(o, "unsqueeze", shifted, dim=1)
    is_one = write_call(o, "eq.Tensor", own, column)
    return write_call(o, "to.dtype", is_one, dtype=dtype)


WRITE: dict[str, Any] = {
    "shape_of": write_shape_of,
    "size": write_size_of,
    "dim": write_dim,
    "reshape": write_reshape,
    "squeeze": write_squeeze,
    "expand_dims": write_expand_dims,
    "transpose": write_transpose,
    "broadcast_to": write_broadcast_to,
    "concat": write_concat,
    "stack": write_stack,
    "split": write_split,
    "flip": write_flip,
    "tile": write_tile,
    "diagonal": write_diagonal,
    "tril": _triangle("tril"),
    "triu": _triangle("triu"),
    "view": write_view,
    "transfer": write_transfer,
    "slice": write_slice,
    "pad": write_pad,
    "full": write_full,
    "arange": write_arange,
    "eye": write_eye,
}
