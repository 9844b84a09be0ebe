"""To PyTorch: linear algebra, with the signs of factors that the hub has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.types import DType
from amanda_std.backends import real_dtype
from amanda_torch.mapping.written_arguments import (
    dims_of,
    dtype_of,
    required_static,
    write_call,
    write_size,
    write_sizes,
)

__all__ = ["WRITE"]


def write_einsum(o: Any, *xs: Any, equation: str) -> Any:
    return write_call(o, "einsum", list(xs), equation=equation.replace(" ", ""))


def _same(name: str) -> Callable[..., Any]:
    def write(o: Any, *xs: Any) -> Any:
        return write_call(o, name, *xs)

    return write


def write_triangular_solve(o: Any, a: Any, b: Any, *, lower: bool, transpose: bool,
                           unit: bool) -> Any:  # fmt: skip
    if transpose:
        a, lower = write_call(o, "transpose.int", a, dim0=-2, dim1=-1), not lower
    return write_call(o, "linalg_solve_triangular", a, b, upper=not lower,
                      unitriangular=unit)  # fmt: skip


def _signs(o: Any, x: Any, dtype: Any) -> Any:
    """Numbers of magnitude 1 by which the products with x are nonnegative."""
    zero = write_call(o, "to.dtype", write_call(o, "eq.Scalar", x, other=0),
                      dtype=dtype)  # fmt: skip
    sign = _conjugate(o, write_call(o, "sgn", x), dtype)
    return write_call(o, "add.Tensor", sign, zero)


def _conjugate(o: Any, x: Any, dtype: Any) -> Any:
    return write_call(o, "conj_physical", x) if dtype.kind == "complex" else x


def _with_ones(o: Any, signs: Any, count: Any, all_: Any) -> Any:
    """Signs for all rows or columns; 1 for those after the last sign."""
    if not isinstance(count, int) or not isinstance(all_, int):
        raise Decline("the size of a matrix is known at run time only")
    if count == all_:
        return signs
    return write_call(o, "constant_pad_nd", signs, pad=[0, all_ - count], value=1)


def _scaled_columns(o: Any, x: Any, signs: Any) -> Any:
    return write_call(o, "mul.Tensor", x, write_call(o, "unsqueeze", signs, dim=-2))


def _scaled_rows(o: Any, x: Any, signs: Any) -> Any:
    return write_call(o, "mul.Tensor", x, write_call(o, "unsqueeze", signs, dim=-1))


def _column_signs(o: Any, x: Any, rows: Any, dtype: Any) -> Any:
    """The sign that each column of x, which has `rows` rows, is multiplied by."""
    end, part = write_size(o, rows), real_dtype(dtype)
    row = write_call(o, "arange", end=end, dtype=part)
    shifted = write_call(o, "add.Scalar", row, other=math.sqrt(2))
    column = write_call(o, "unsqueeze", shifted, dim=-1)
    weighted = write_call(o, "div.Tensor", x, column)
    return _signs(o, write_call(o, "sum.dim_IntList", weighted, dim=[-2]), dtype)


def write_qr(o: Any, x: Any, *, full: bool) -> Any:
    rows, columns = dims_of(x)[-2:]
    mode = "complete" if full else "reduced"
    q, r = write_call(o, "linalg_qr", x, mode=mode)
    diagonal = write_call(o, "diagonal", r, dim1=-2, dim2=-1)
    least = min(rows, columns)
    signs = _signs(o, diagonal, dtype_of(x))
    signs = _with_ones(o, signs, least, rows if full else least)
    back = _conjugate(o, signs, dtype_of(x))
    return _scaled_columns(o, q, back), _scaled_rows(o, r, signs)


def write_eigh(o: Any, x: Any) -> Any:
    values, vectors = write_call(o, "linalg_eigh", x)
    signs = _column_signs(o, vectors, dims_of(x)[-2], dtype_of(x))
    return values, _scaled_columns(o, vectors, signs)


def _ascending(o: Any, values: Any) -> Any:
    """The order of complex numbers by real parts, then by imaginary parts."""
    order = write_call(o, "argsort.stable", write_call(o, "imag", values), stable=True)
    sizes = write_call(o, "gather", write_call(o, "real", values), order, dim=-1)
    by_real = write_call(o, "argsort.stable", sizes, stable=True)
    return write_call(o, "gather", order, by_real, dim=-1)


def write_eig(o: Any, x: Any) -> Any:
    values, vectors = write_call(o, "linalg_eig", x)
    order = _ascending(o, values)
    columns = write_call(o, "unsqueeze", order, dim=-2)
    vectors = write_call(o, "take_along_dim", vectors, columns, dim=-1)
    dtype = dtype_of(o.source.outputs[1])
    signs = _column_signs(o, vectors, dims_of(x)[-2], dtype)
    values = write_call(o, "gather", values, order, dim=-1)
    return values, _scaled_columns(o, vectors, signs)


def write_eigvals(o: Any, x: Any) -> Any:
    values = write_call(o, "linalg_eigvals", x)
    return write_call(o, "gather", values, _ascending(o, values), dim=-1)


def write_svd(o: Any, x: Any, *, full: bool) -> Any:
    rows, columns = dims_of(x)[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise Decline("the size of a matrix is known at run time only")
    u, s, vh = write_call(o, "linalg_svd", x, full_matrices=full)
    signs = _column_signs(o, u, rows, dtype_of(x))
    least = min(rows, columns)
    first = signs
    if full and rows > least:
        first = write_call(o, "slice.Tensor", signs, dim=-1, start=0, end=least)
    first = _conjugate(o, first, dtype_of(x))
    down = _with_ones(o, first, least, columns if full else least)
    return _scaled_columns(o, u, signs), s, _scaled_rows(o, vh, down)


def write_lu(o: Any, x: Any) -> Any:
    packed, pivots = write_call(o, "linalg_lu_factor", x)
    parts = write_call(o, "lu_unpack", packed, pivots, unpack_data=False)
    exchange = parts[0]
    if dtype_of(x).kind == "complex":
        exchange = write_call(o, "real", exchange)
    return packed, write_call(o, "argmax", exchange, dim=-2)


def write_ldl_factor(o: Any, x: Any, *, hermitian: bool) -> Any:
    packed, pivots = write_call(o, "linalg_ldl_factor", x, hermitian=hermitian)
    return packed, write_call(o, "to.dtype", pivots, dtype=DType("int64"))


def write_ldl_solve(o: Any, packed: Any, pivots: Any, b: Any, *,
                    hermitian: bool) -> Any:  # fmt: skip
    pivots = write_call(o, "to.dtype", pivots, dtype=DType("int32"))
    return write_call(o, "linalg_ldl_solve", packed, pivots, b, hermitian=hermitian)


# -- Fourier transforms ------------------------------------------------------------


def _transform(name: str) -> Callable[..., Any]:
    def write(o: Any, x: Any, sizes: Any = None, axes: Any = (-1,), *,
              norm: str) -> Any:  # fmt: skip
        if any(isinstance(n, int) and not n for n in dims_of(x)):
            raise Decline("PyTorch transforms no empty tensors")
        dtype = dtype_of(x)
        if dtype.kind == "float" and dtype.bits < 32:
            x = write_call(o, "to.dtype", x, dtype=DType("float32"))
        along = np.ravel(required_static(axes, "the axes")).tolist()
        count = None if sizes is None else write_sizes(o, sizes)
        return write_call(o, name, x, s=count, dim=along, norm=norm)

    return write


WRITE: dict[str, Any] = {
    "einsum": write_einsum,
    "cholesky": _same("linalg_cholesky"),
    "solve": _same("linalg_solve"),
    "inverse": _same("linalg_inv"),
    "det": _same("linalg_det"),
    "slogdet": _same("linalg_slogdet"),
    "triangular_solve": write_triangular_solve,
    "qr": write_qr,
    "eigh": write_eigh,
    "eig": write_eig,
    "eigvals": write_eigvals,
    "svd": write_svd,
    "lu": write_lu,
    "ldl_factor": write_ldl_factor,
    "ldl_solve": write_ldl_solve,
    "fft": _transform("fft_fftn"),
    "ifft": _transform("fft_ifftn"),
    "rfft": _transform("fft_rfftn"),
    "irfft": _transform("fft_irfftn"),
}
