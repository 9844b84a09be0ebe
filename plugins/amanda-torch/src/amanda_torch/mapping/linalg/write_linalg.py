"""To PyTorch: linear algebra, with the signs of factors that the hub has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.types import DType
from amanda_torch.mapping.written_arguments import (
    dims_of,
    dtype_of,
    required_static,
    write_call,
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
    """-1 where elements are negative, else 1."""
    negative = write_call(o, "to.dtype", write_call(o, "lt.Scalar", x, other=0),
                          dtype=dtype)  # fmt: skip
    return write_call(o, "rsub.Scalar", write_call(o, "mul.Tensor", negative, 2),
                      other=1)  # fmt: skip


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
    """The sign of the element of largest magnitude in each of the columns of x, which
    has `rows` rows."""
    if isinstance(rows, int) and not rows:
        return _signs(o, write_call(o, "sum.dim_IntList", x, dim=[-2]), dtype)
    size = write_call(o, "abs", x)
    at = write_call(o, "argmax", size, dim=-2, keepdim=True)
    found = write_call(o, "gather", x, at, dim=-2)
    return _signs(o, write_call(o, "squeeze.dim", found, dim=-2), dtype)


def write_qr(o: Any, x: Any, *, full: bool) -> Any:
    rows, columns = dims_of(x)[-2:]
    mode = "complete" if full else "reduced"
    q, r = write_call(o, "linalg_qr", x, mode=mode)
    diagonal = write_call(o, "diagonal", r, dim1=-2, dim2=-1)
    least = min(rows, columns)
    signs = _signs(o, diagonal, dtype_of(x))
    signs = _with_ones(o, signs, least, rows if full else least)
    return _scaled_columns(o, q, signs), _scaled_rows(o, r, signs)


def write_eigh(o: Any, x: Any) -> Any:
    values, vectors = write_call(o, "linalg_eigh", x)
    signs = _column_signs(o, vectors, dims_of(x)[-2], dtype_of(x))
    return values, _scaled_columns(o, vectors, signs)


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
    down = _with_ones(o, first, least, columns if full else least)
    return _scaled_columns(o, u, signs), s, _scaled_rows(o, vh, down)


def write_lu(o: Any, x: Any) -> Any:
    packed, pivots = write_call(o, "linalg_lu_factor", x)
    parts = write_call(o, "lu_unpack", packed, pivots, unpack_data=False)
    return packed, write_call(o, "argmax", parts[0], dim=-2)


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
    "svd": write_svd,
    "lu": write_lu,
    "fft": _transform("fft_fftn"),
    "ifft": _transform("fft_ifftn"),
    "rfft": _transform("fft_rfftn"),
    "irfft": _transform("fft_irfftn"),
}
