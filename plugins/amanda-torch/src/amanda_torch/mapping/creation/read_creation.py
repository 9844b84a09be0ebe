"""From PyTorch: tensors made from sizes and numbers, triangles and diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from amanda.types import DType
from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import (
    axis_of,
    dims_of,
    integer,
    shape_argument,
)
from amanda_torch.mapping.shapes.read_joins import pad
from amanda_torch.mapping.type_promotion import (
    BOOL,
    FLOAT,
    INT,
    as_value,
    is_number,
    number,
    result_type,
)

__all__ = ["READ"]


def _type_of(value: Any) -> Any:
    """The element type of a tensor made from a number."""
    return result_type(value) if is_number(value) else value.dtype


def read_full(size: Sequence[Any], value: Any, *, dtype: Any = None) -> Any:
    return ops.full(shape_argument(size), as_value(value, dtype or _type_of(value)))


def _filler(value: float) -> Any:
    def read(size: Sequence[Any], *, dtype: Any = None) -> Any:
        return read_full(size, value, dtype=dtype or FLOAT)

    return read


def _filled_like(value: float) -> Any:
    def read(x: Any, *, dtype: Any = None) -> Any:
        return ops.full(ops.shape_of(x), number(value, dtype or x.dtype))

    return read


def read_full_like(x: Any, value: Any, *, dtype: Any = None) -> Any:
    return ops.full(ops.shape_of(x), as_value(value, dtype or x.dtype))


def read_new_full(x: Any, size: Sequence[Any], value: Any, *, dtype: Any = None) -> Any:
    return read_full(size, value, dtype=dtype or x.dtype)


def _new_filled(value: float) -> Any:
    def read(x: Any, size: Sequence[Any], *, dtype: Any = None) -> Any:
        return read_full(size, value, dtype=dtype or x.dtype)

    return read


def read_new_empty_strided(x: Any, size: Sequence[Any], stride: Any, *,
                           dtype: Any = None) -> Any:  # fmt: skip
    del stride
    return read_full(size, 0, dtype=dtype or x.dtype)


def read_empty_strided(size: Sequence[Any], stride: Any, *, dtype: Any = None) -> Any:
    del stride
    return read_full(size, 0, dtype=dtype or FLOAT)


def read_fill(x: Any, value: Any) -> Any:
    return read_full_like(x, value)


def read_zero(x: Any) -> Any:
    return ops.zeros_like(x)


def read_copy(x: Any, source: Any) -> Any:
    """The source with the shape and element type of x."""
    return ops.broadcast_to(as_value(source, x.dtype), ops.shape_of(x))


def read_scalar_tensor(value: Any, *, dtype: Any = None) -> Any:
    return ops.identity(as_value(value, dtype or FLOAT))


def read_arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None
) -> Any:
    if end is None:
        start, end = 0, start
    found = dtype or result_type(start, end, step)
    if found.kind == "float" and all(
        isinstance(v, int | float) for v in (start, end, step)
    ):
        count = max(int(np.ceil((end - start) / step)), 0)
        return _steps(count, start, step, found)
    parts = [
        as_value(v, INT if found.kind != "float" else found) for v in (start, end, step)
    ]
    return cast_to(ops.range(*parts), found)


def read_range(start: Any, end: Any, step: Any = 1, *, dtype: Any = None) -> Any:
    """Numbers up to `end`, which is one of them: `torch.range`."""
    expect(all(isinstance(v, int | float) for v in (start, end, step)),
           "a range is known at run time only")  # fmt: skip
    return _steps(int((end - start) / step) + 1, start, step, dtype or FLOAT)


def _steps(count: int, start: float, step: float, dtype: Any) -> Any:
    values = start + np.arange(count, dtype="float64") * step
    return ops.identity(values.astype(dtype.numpy))


def read_arange_end(end: Any, *, dtype: Any = None) -> Any:
    return read_arange(0, end, dtype=dtype)


def read_linspace(start: Any, end: Any, steps: int, *, dtype: Any = None) -> Any:
    dtype = dtype or _line_type(start, end)
    return cast_to(_line(start, end, integer(steps, "steps"), dtype), dtype)


def _line_type(start: Any, end: Any) -> Any:
    found = result_type(start, end)
    return found if found.kind in ("float", "complex") else FLOAT


def _line(start: Any, end: Any, steps: int, dtype: Any) -> Any:
    """Numbers at equal distances, computed from the end that is nearer."""
    exact = dtype if dtype.kind in ("float", "complex") else DType("float64")
    if (
        dtype.kind == "float"
        and dtype.bits < 64
        and is_number(start)
        and is_number(end)
    ):
        exact = DType("float64")
    first, last = as_value(start, exact), as_value(end, exact)
    if steps < 2:
        return ops.reshape(first, [1]) if steps else ops.zeros([0], dtype=exact)
    at = number(0, exact) + ops.astype(ops.arange(0, steps), dtype=exact)
    back = number(steps - 1, exact) - at
    width = (last - first) / number(steps - 1, exact)
    near = np.arange(steps) < steps / 2
    return ops.where(near, first + at * width, last - back * width)


def read_logspace(start: Any, end: Any, steps: int, base: float = 10.0, *,
                  dtype: Any = None) -> Any:  # fmt: skip
    dtype = dtype or _line_type(start, end)
    exponents: Any = _line(start, end, integer(steps, "steps"), dtype)
    exponents_type = DType("complex128" if dtype.kind == "complex" else "float64")
    exponents = as_value(exponents, exponents_type)
    return cast_to(ops.pow(as_value(base, exponents_type), exponents), dtype)


def read_eye(n: Any, m: Any = None, *, dtype: Any = None) -> Any:
    return ops.eye(n, n if m is None else m, dtype=dtype or FLOAT)


def _triangle(op: Any) -> Any:
    def read(x: Any, diagonal: int = 0) -> Any:
        return op(x, diagonal)

    return read


def _triangle_indices(lower: bool) -> Any:
    def read(row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Any:
        find = np.tril_indices if lower else np.triu_indices
        found = np.stack(find(row, offset, col))
        return ops.identity(found.astype((dtype or INT).numpy))

    return read


def read_diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    a, b = axis_of(dim1, x), axis_of(dim2, x)
    rest = [i for i in range(rank_of(x)) if i not in (a, b)]
    return ops.diagonal(ops.transpose(x, perm=(*rest, a, b)), offset=offset)


def read_matrix_diagonal(
    x: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Any:
    return read_diagonal(x, offset, dim1, dim2)


def read_diagonal_embedded(
    x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Any:
    """Matrices with x on a diagonal, as any two axes."""
    whole = dims_of(x)[-1] + abs(offset)
    pads = [[0, 0]] * (rank_of(x) - 1) + [[max(-offset, 0), max(offset, 0)]]
    row = ops.expand_dims(ops.pad(x, pads), [-1])
    line = ops.eye(whole, whole, k=offset, dtype=BOOL)
    y = ops.where(line, row, number(0, x.dtype))
    rank = rank_of(x) + 1
    a, b = dim1 % rank, dim2 % rank
    order = iter(range(rank - 2))
    perm = [
        rank - 2 if i == a else rank - 1 if i == b else next(order) for i in range(rank)
    ]
    return ops.transpose(y, perm=tuple(perm))


def read_diag(x: Any, diagonal: int = 0) -> Any:
    if rank_of(x) == 1:
        return read_diagonal_embedded(x, diagonal)
    return read_diagonal(x, diagonal)


def read_diagflat(x: Any, offset: int = 0) -> Any:
    return read_diagonal_embedded(ops.reshape(x, [-1]), offset)


def read_diagonal_scatter(x: Any, src: Any, offset: int = 0, dim1: int = 0,
                          dim2: int = 1) -> Any:  # fmt: skip
    a, b = axis_of(dim1, x), axis_of(dim2, x)
    rows, columns = (dims_of(x)[i] for i in (a, b))
    rest = [i for i in range(rank_of(x)) if i not in (a, b)]
    perm = [*rest, a, b]
    y = ops.transpose(x, perm=tuple(perm))
    line = ops.eye(rows, columns, k=offset, dtype=BOOL)
    before = max(-offset, 0)  # rows above the diagonal, as many as can be
    behind = rows - before - dims_of(src)[-1]
    row = ops.expand_dims(pad(src, [before, behind]), [-1])
    y = ops.where(line, row, y)
    return ops.transpose(y, perm=tuple(perm.index(i) for i in range(len(perm))))


def read_trace(x: Any) -> Any:
    y = ops.diagonal(x)
    return ops.sum(y if y.dtype.kind in ("float", "complex") else cast_to(y, INT), [0])


def read_vander(x: Any, *, N: int | None = None) -> Any:  # noqa: N803
    """Powers 0 ... n - 1 along a new last axis."""
    x = x if rank_of(x) else ops.reshape(x, [1])
    count = integer(x.type.shape.dims[-1] if N is None else N, "N")
    if x.dtype.kind in ("int", "uint", "bool"):
        x = cast_to(x, INT)
    parts = [ops.ones_like(x)]
    for _ in range(count - 1):
        parts.append(parts[-1] * x)
    return ops.stack(*parts, axis=rank_of(x))


def read_decreasing_powers(x: Any, N: Any = None,  # noqa: N803
                           increasing: bool = False) -> Any:  # fmt: skip
    """Powers n - 1 ... 0 along a new last axis: `torch.vander`."""
    y = read_vander(x, N=N)
    return y if increasing else ops.flip(y, [-1])


def read_item(x: Any) -> Any:
    """The number of a tensor of one element."""
    return ops.reshape(x, [])


def read_one_hot(x: Any, num_classes: int = -1) -> Any:
    expect(num_classes >= 0, "the number of classes is known at run time only")
    return ops.one_hot(x, num_classes, np.int64(1), np.int64(0))


READ = torch_functions(
    {
        "full": read_full,
        "full_like": read_full_like,
        "new_full": read_new_full,
        "fill.Scalar fill.Tensor": read_fill,
        "zero": read_zero,
        "copy": read_copy,
        "zeros empty.memory_format": _filler(0),
        "ones": _filler(1),
        "zeros_like empty_like": _filled_like(0),
        "ones_like": _filled_like(1),
        "new_zeros new_empty": _new_filled(0),
        "new_ones": _new_filled(1),
        "new_empty_strided": read_new_empty_strided,
        "empty_strided empty_permuted": read_empty_strided,
        "scalar_tensor": read_scalar_tensor,
        "arange": read_arange_end,
        "arange.start arange.start_step": read_arange,
        "linspace linspace.Tensor_Tensor linspace.Tensor_Scalar linspace.Scalar_Tensor":
            read_linspace,
        "logspace logspace.Tensor_Tensor logspace.Tensor_Scalar logspace.Scalar_Tensor":
            read_logspace,
        "eye eye.m": read_eye,
        "tril": _triangle(ops.tril),
        "triu": _triangle(ops.triu),
        "tril_indices": _triangle_indices(True),
        "triu_indices": _triangle_indices(False),
        "diagonal diagonal_copy": read_diagonal,
        "linalg_diagonal": read_matrix_diagonal,
        "diag_embed": read_diagonal_embedded,
        "diag": read_diag,
        "diagflat": read_diagflat,
        "diagonal_scatter": read_diagonal_scatter,
        "trace": read_trace,
        "linalg_vander": read_vander,
        "vander": read_decreasing_powers,
        "range range.step": read_range,
        "item _local_scalar_dense": read_item,
        "one_hot": read_one_hot,
    }
)  # fmt: skip
