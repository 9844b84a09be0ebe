"""From PyTorch: factorizations, solvers, determinants and norms of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to, expect, rank_of
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.reductions.read_reductions import vector_norm
from amanda_torch.mapping.shape_arguments import (
    axis_of,
    count_up,
    dims_of,
    larger,
    scalar,
    shape_argument,
    smaller,
)
from amanda_torch.mapping.shapes.read_shapes import permute, read_adjoint, take_slice
from amanda_torch.mapping.type_promotion import INT, as_value, number

__all__ = ["READ"]


def _batch_zeros(x: Any) -> Any:
    """A zero of int32 for each matrix: that its factorization succeeded."""
    flat = ops.sum(ops.zeros_like(_real(x)), [-2, -1])
    return ops.astype(flat, dtype="int32")


def _real(x: Any) -> Any:
    return ops.real(x) if x.dtype.kind == "complex" else x


def read_cholesky(x: Any, upper: bool = False) -> Any:
    if upper:
        return read_adjoint(ops.cholesky(read_adjoint(x)))
    return ops.cholesky(x)


def read_cholesky_keyword(x: Any, *, upper: bool = False) -> Any:
    return read_cholesky(x, upper)


def read_cholesky_ex(x: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    del check_errors
    return read_cholesky(x, upper), _batch_zeros(x)


def read_cholesky_inverse(x: Any, upper: bool = False) -> Any:
    factor = read_adjoint(x) if upper else x
    return ops.inverse(ops.matmul(factor, read_adjoint(factor)))


def read_cholesky_solve(b: Any, x: Any, upper: bool = False) -> Any:
    factor = read_adjoint(x) if upper else x
    return ops.solve(ops.matmul(factor, read_adjoint(factor)), b)


def read_inverse_ex(x: Any, *, check_errors: bool = False) -> Any:
    del check_errors
    return ops.inverse(x), _batch_zeros(x)


def _is_vector(a: Any, b: Any) -> bool:
    if rank_of(b) == 1:
        return True
    dims = a.type.shape.dims[:-1]
    return rank_of(b) == rank_of(a) - 1 and b.type.shape.dims == dims


def read_solve(a: Any, b: Any, *, left: bool = True) -> Any:
    if not left:
        a, b = ops.swap_last(a), ops.swap_last(b)
        return ops.swap_last(ops.solve(a, b))
    if _is_vector(a, b):
        return ops.squeeze(ops.solve(a, ops.expand_dims(b, [rank_of(b)])), [-1])
    return ops.solve(a, b)


def read_solve_ex(
    a: Any, b: Any, *, left: bool = True, check_errors: bool = False
) -> Any:
    del check_errors
    return read_solve(a, b, left=left), _batch_zeros(a)


def read_solve_with_factors(
    a: Any, b: Any, *, left: bool = True, check_errors: bool = False
) -> Any:
    """The solution, LU and its row exchanges, and that it succeeded."""
    del check_errors
    return (read_solve(a, b, left=left), *read_lu_factor(a), _batch_zeros(a))


def read_det_with_factors(x: Any) -> Any:
    return (ops.det(x), *read_lu_factor(x))


def read_slogdet_with_factors(x: Any) -> Any:
    return (*ops.slogdet(x), *read_lu_factor(x))


def read_solve_triangular(a: Any, b: Any, *, upper: bool, left: bool = True,
                          unitriangular: bool = False) -> Any:  # fmt: skip
    if left:
        return ops.triangular_solve(a, b, lower=not upper, unit=unitriangular)
    y = ops.triangular_solve(
        ops.swap_last(a), ops.swap_last(b), lower=upper, unit=unitriangular
    )
    return ops.swap_last(y)


def read_triangular_solve(b: Any, a: Any, upper: bool = True, transpose: bool = False,
                          unitriangular: bool = False) -> Any:  # fmt: skip
    left = ops.swap_last(a) if transpose else a
    y = ops.triangular_solve(
        left, b, lower=upper if transpose else not upper, unit=unitriangular
    )
    return y, ops.identity(a)


def read_tensorsolve(a: Any, b: Any, dims: Any = None) -> Any:
    if dims:
        rank = rank_of(a)
        last = [int(d) % rank for d in dims]
        a = permute(a, [*(i for i in range(rank) if i not in last), *last])
    rest = dims_of(a)[rank_of(b) :]
    square = shape_argument([math.prod(rest)] * 2)
    x = ops.solve(ops.reshape(a, square), ops.reshape(b, [-1, 1]))
    return ops.reshape(x, shape_argument(rest))


def read_tensorinv(x: Any, ind: int = 2) -> Any:
    dims = dims_of(x)
    square = shape_argument([math.prod(dims[ind:])] * 2)
    y = ops.inverse(ops.reshape(x, square))
    return ops.reshape(y, shape_argument([*dims[ind:], *dims[:ind]]))


def read_logdet(x: Any) -> Any:
    sign, size = ops.slogdet(x)
    if x.dtype.kind == "complex":
        return ops.log(sign) + cast_to(size, x.dtype)
    nan = number(float("nan"), size.dtype)
    return ops.where(ops.less(sign, number(0, sign.dtype)), nan, size)


def read_matrix_power(x: Any, n: int) -> Any:
    return ops.matrix_power(x, power=n)


_TERMS = 18
"""The degree of the Taylor series of a matrix exponential."""
_LARGEST_NORM = {64: 1.09, 32: 3.01}
"""The norm up to which it is exact, by the bits of an element (Bader et al., 2019)."""


def read_matrix_exponential(x: Any) -> Any:
    """Scaling and squaring of a Taylor series, each matrix as often as it needs."""
    size = dims_of(x)[-1]
    last = rank_of(x) - 1
    sizes = (
        ops.abs(x) if x.dtype.kind == "float" else ops.hypot(ops.real(x), ops.imag(x))
    )
    norm = ops.max(ops.sum(sizes, [last - 1], keepdims=True), [last], keepdims=True)
    kind = norm.dtype
    one, zero = number(1, kind), number(0, kind)
    limit = number(_LARGEST_NORM.get(kind.bits, 3.01), kind)
    count = ops.ceil(ops.log2(ops.maximum(norm / limit, one)))
    scaled = x / cast_to(ops.exp2(count), x.dtype)
    eye = ops.eye(size, size, dtype=x.dtype)
    total = eye + scaled / number(_TERMS, x.dtype)
    for k in range(_TERMS - 1, 0, -1):
        total = eye + ops.matmul(scaled, total) / number(k, x.dtype)

    def square(done: Any, y: Any) -> Any:
        return done + one, ops.where(ops.less(done, count), ops.matmul(y, y), y)

    most = ops.max(ops.where(ops.isfinite(count), count, zero))
    return ops.while_(lambda done, _: ops.less(done, most), square, zero, total)[1]


def read_svd(x: Any, full_matrices: bool = True) -> Any:
    return tuple(ops.svd(x, full=full_matrices))


def read_any_svd(
    x: Any,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> Any:
    """Without `compute_uv` PyTorch returns empty matrices, which nothing reads."""
    del compute_uv, driver
    return read_svd(x, full_matrices)


def read_old_svd(x: Any, some: bool = True, compute_uv: bool = True) -> Any:
    u, s, v = ops.svd(x, full=not some)
    del compute_uv
    return u, s, read_adjoint(v)


def read_singular_values(x: Any) -> Any:
    return ops.svd(x, full=False)[1]


def _symmetric(x: Any, uplo: str) -> Any:
    """The matrix of which one triangle counts."""
    part = ops.tril(x, -1) if uplo.upper() == "L" else ops.triu(x, 1)
    line = ops.tril(ops.triu(x, 0), 0)
    if x.dtype.kind == "complex":
        line = cast_to(ops.real(line), x.dtype)
    return part + read_adjoint(part) + line


def read_eigh(x: Any, uplo: str = "L") -> Any:
    return tuple(ops.eigh(_symmetric(x, uplo)))


def read_any_eigh(x: Any, uplo: str = "L", compute_v: bool = True) -> Any:
    """Without `compute_v` PyTorch returns an empty matrix, which nothing reads."""
    del compute_v
    return read_eigh(x, uplo)


def read_eigvalsh(x: Any, uplo: str = "L") -> Any:
    return ops.eigh(_symmetric(x, uplo))[0]


def read_qr(x: Any, mode: str = "reduced") -> Any:
    q, r = ops.qr(x, full=mode == "complete")
    if mode == "r":
        return np.zeros(0, x.dtype.numpy), r
    return q, r


def read_old_qr(x: Any, some: bool = True) -> Any:
    return tuple(ops.qr(x, full=not some))


def read_lu(x: Any, *, pivot: bool = True) -> Any:
    """P, L and U."""
    expect(pivot, "LU without pivoting is not supported")
    packed, order = ops.lu(x)
    return _unpack(packed, order)


def _unpack(packed: Any, order: Any) -> tuple[Any, Any, Any]:
    rows, columns = dims_of(packed)[-2:]
    small = smaller(rows, columns)
    last = rank_of(packed) - 1
    low = ops.tril(take_slice(packed, last, 0, small), -1)
    low = low + ops.eye(rows, small, dtype=packed.dtype)
    high = ops.triu(take_slice(packed, last - 1, 0, small))
    place = ops.expand_dims(count_up(0, rows), [1])
    one_hot = ops.equal(ops.expand_dims(order, [last - 1]), place)
    return ops.astype(one_hot, dtype=packed.dtype), low, high


def _pivots(order: Any, count: Any) -> Any:
    """The first row exchanges that lead to an order of rows, counted from 1.

    LAPACK has them in this form.
    """
    last = rank_of(order) - 1
    place = count_up(0, dims_of(order)[last])
    start = ops.zeros_like(order) + place, ops.zeros_like(order)

    def exchange(i: Any, now: Any, pivots: Any) -> Any:
        is_row = ops.equal(place, i)
        wanted = _element(order, i)
        at = ops.argmax(ops.astype(ops.equal(now, wanted), dtype="uint8"), last,
                        keepdims=True)  # fmt: skip
        now = ops.where(ops.equal(place, at), _element(now, i), now)
        now = ops.where(is_row, wanted, now)
        return now, ops.where(is_row, at + np.int64(1), pivots)

    pivots = _repeat(count, exchange, *start)[1]
    return ops.astype(take_slice(pivots, last, 0, count), dtype="int32")


def _repeat(count: Any, body: Callable[..., Any], *start: Any) -> Any:
    """The results of `values = body(i, *values)` for i from 0 to `count` - 1."""

    def step(i: Any, condition: Any, *values: Any) -> Any:
        return condition, *body(i, *values)

    return ops.loop(scalar(count), None, step, *start)


def _element(x: Any, i: Any) -> Any:
    """Element i of the last axis, of which length 1 is kept."""
    return ops.gather(x, ops.reshape(i, [1]), rank_of(x) - 1)


def read_lu_factor(x: Any, *, pivot: bool = True) -> Any:
    expect(pivot, "LU without pivoting is not supported")
    packed, order = ops.lu(x)
    return packed, _pivots(cast_to(order, INT), smaller(*dims_of(x)[-2:]))


def read_lu_factor_ex(x: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    del check_errors
    return (*read_lu_factor(x, pivot=pivot), _batch_zeros(x))


def read_lu_with_info(x: Any, pivot: bool = True, check_errors: bool = True) -> Any:
    del check_errors
    return (*read_lu_factor(x, pivot=pivot), _batch_zeros(x))


def _order_of(pivots: Any, rows: Any) -> Any:
    """The order of rows after exchanges."""
    last = rank_of(pivots) - 1
    place = count_up(0, rows)
    exchanges = cast_to(pivots, INT) - np.int64(1)

    def exchange(i: Any, now: Any) -> Any:
        at = _element(exchanges, i)
        there = ops.gather_elements(now, at, axis=last)
        now = ops.where(ops.equal(place, at), _element(now, i), now)
        return (ops.where(ops.equal(place, i), there, now),)

    start = ops.sum(ops.zeros_like(exchanges), [last], keepdims=True) + place
    return _repeat(dims_of(pivots)[last], exchange, start)[0]


def read_lu_unpack(packed: Any, pivots: Any, unpack_data: bool = True,
                   unpack_pivots: bool = True) -> Any:  # fmt: skip
    rows = dims_of(packed)[-2]
    none = np.zeros(0, packed.dtype.numpy)
    p, low, high = _unpack(packed, _order_of(pivots, rows))
    return (
        p if unpack_pivots else none,
        *((low, high) if unpack_data else (none, none)),
    )


def read_lu_solve(packed: Any, pivots: Any, b: Any, *, left: bool = True,
                  adjoint: bool = False) -> Any:  # fmt: skip
    rows = dims_of(packed)[-2]
    p, low, high = _unpack(packed, _order_of(pivots, rows))
    a = ops.matmul(ops.matmul(p, low), high)
    return read_solve(read_adjoint(a) if adjoint else a, b, left=left)


def read_old_lu_solve(b: Any, packed: Any, pivots: Any) -> Any:
    return read_lu_solve(packed, pivots, b)


def read_ldl_factor(x: Any, *, hermitian: bool = False) -> Any:
    packed, pivots = ops.ldl_factor(x, hermitian=hermitian)
    return packed, ops.astype(pivots, dtype="int32")


def read_ldl_factor_ex(
    x: Any, *, hermitian: bool = False, check_errors: bool = False
) -> Any:
    del check_errors
    return (*read_ldl_factor(x, hermitian=hermitian), _batch_zeros(x))


def read_ldl_solve(packed: Any, pivots: Any, b: Any, *, hermitian: bool = False) -> Any:
    return ops.ldl_solve(packed, cast_to(pivots, INT), b, hermitian=hermitian)


def _tolerance(s: Any, x: Any, atol: Any, rtol: Any) -> Any:
    """The limit below which singular values count as zero."""
    largest = ops.max(s, [rank_of(s) - 1], keepdims=True)
    eps = np.asarray(np.finfo(s.dtype.numpy).eps)
    longest = as_value(larger(*dims_of(x)[-2:]), s.dtype)
    floor = number(0, s.dtype) if atol is None else _column(as_value(atol, s.dtype))
    if rtol is None:
        usual = longest * eps
        ratio = usual if atol is None else ops.where(
            ops.greater(floor, number(0, s.dtype)), number(0, s.dtype), usual
        )  # fmt: skip
    else:
        ratio = _column(as_value(rtol, s.dtype))
    return ops.maximum(floor, ratio * largest)


def _column(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x
    return ops.expand_dims(x, [rank_of(x)])


def read_rank(x: Any, *, atol: Any = None, rtol: Any = None,
              hermitian: bool = False) -> Any:  # fmt: skip
    del hermitian
    s = ops.svd(x, full=False)[1]
    above = ops.greater(s, _tolerance(s, x, atol, rtol))
    return ops.sum(ops.astype(above, dtype="int64"), [rank_of(s) - 1])


def read_rank_by_tolerance(x: Any, tol: Any, hermitian: bool = False) -> Any:
    return read_rank(x, atol=tol, rtol=0.0, hermitian=hermitian)


def read_pinv(x: Any, *, atol: Any = None, rtol: Any = None,
              hermitian: bool = False) -> Any:  # fmt: skip
    if hermitian:  # only the lower triangle is read
        x = ops.tril(x) + read_adjoint(ops.tril(x, -1))
    u, s, vh = ops.svd(x, full=False)
    keep = ops.greater(s, _tolerance(s, x, atol, rtol))
    one = number(1, s.dtype)
    inverse = ops.where(keep, one / ops.where(keep, s, one), number(0, s.dtype))
    scaled = read_adjoint(vh) * cast_to(ops.expand_dims(inverse, [-2]), x.dtype)
    return ops.matmul(scaled, read_adjoint(u))


def read_pinv_by_ratio(x: Any, rcond: Any = 1e-15, hermitian: bool = False) -> Any:
    return read_pinv(x, atol=0.0, rtol=rcond, hermitian=hermitian)


def _matrix_norm(x: Any, kind: Any, axes: tuple[int, int], keepdim: bool) -> Any:
    a, b = axes
    if kind in ("fro", None):
        return vector_norm(x, 2.0, [a, b], keepdim=keepdim)
    if kind in ("nuc", 2, -2):
        rest = [i for i in range(rank_of(x)) if i not in axes]
        s = ops.svd(permute(x, [*rest, a, b]), full=False)[1]
        last = [rank_of(s) - 1]
        reduce = ops.sum if kind == "nuc" else ops.max if kind == 2 else ops.min
        y = reduce(s, last)
        return ops.expand_dims(y, sorted(axes)) if keepdim else y
    inner, outer = (a, b) if abs(kind) == 1 else (b, a)
    total = vector_norm(x, 1.0, inner, keepdim=True)
    y = (ops.max if kind > 0 else ops.min)(total, [outer], keepdims=True)
    return y if keepdim else ops.squeeze(y, sorted(axes))


def read_matrix_norm(x: Any, ord: Any = "fro", dim: Any = (-2, -1),
                     keepdim: bool = False, *, dtype: Any = None) -> Any:  # fmt: skip
    x = x if dtype is None else cast_to(x, dtype)
    axes = (axis_of(dim[0], x), axis_of(dim[1], x))
    return _matrix_norm(x, ord, axes, keepdim)


def read_norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *,
              dtype: Any = None) -> Any:  # fmt: skip
    x = x if dtype is None else cast_to(x, dtype)
    axes = [dim] if isinstance(dim, int) else dim
    if axes is None and ord is not None and rank_of(x) == 2:
        axes = [0, 1]
    if ord is None or axes is None or len(axes) == 1:
        return vector_norm(x, 2.0 if ord is None else float(ord), axes, keepdim=keepdim)
    return read_matrix_norm(x, ord, axes, keepdim)


def read_nuclear_norm(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    axes = [0, 1] if not isinstance(dim, list | tuple) else dim
    return read_matrix_norm(x, "nuc", axes, keepdim)


def read_frobenius_norm(x: Any, dim: Any, keepdim: bool = False) -> Any:
    return vector_norm(x, 2.0, dim or None, keepdim=keepdim)


def read_norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """Norms over all axes but one; over all for -1."""
    rank = rank_of(v)
    if dim == -1:
        return vector_norm(v, float(pow), None)
    rest = [i for i in range(rank) if i != axis_of(dim, v)]
    return vector_norm(v, float(pow), rest, keepdim=True)


def read_condition(x: Any, p: Any = None) -> Any:
    if p in (None, 2, -2):
        s = ops.svd(x, full=False)[1]
        high, low = (op(s, [rank_of(s) - 1]) for op in (ops.max, ops.min))
        return low / high if p == -2 else high / low
    last = (rank_of(x) - 2, rank_of(x) - 1)
    return _matrix_norm(x, p, last, False) * _matrix_norm(
        ops.inverse(x), p, last, False
    )


READ = torch_functions(
    {
        "cholesky": read_cholesky,
        "linalg_cholesky": read_cholesky_keyword,
        "linalg_cholesky_ex": read_cholesky_ex,
        "cholesky_inverse": read_cholesky_inverse,
        "cholesky_solve": read_cholesky_solve,
        "inverse linalg_inv": ops.inverse,
        "linalg_inv_ex": read_inverse_ex,
        "linalg_solve": read_solve,
        "linalg_solve_ex": read_solve_ex,
        "_linalg_solve_ex": read_solve_with_factors,
        "_linalg_det": read_det_with_factors,
        "_linalg_slogdet": read_slogdet_with_factors,
        "_linalg_svd": read_any_svd,
        "_linalg_eigh": read_any_eigh,
        "linalg_solve_triangular": read_solve_triangular,
        "triangular_solve": read_triangular_solve,
        "linalg_tensorsolve": read_tensorsolve,
        "linalg_tensorinv": read_tensorinv,
        "det linalg_det": ops.det,
        "slogdet linalg_slogdet": lambda x: tuple(ops.slogdet(x)),
        "logdet": read_logdet,
        "matrix_power linalg_matrix_power": read_matrix_power,
        "matrix_exp linalg_matrix_exp": read_matrix_exponential,
        "linalg_svd": read_svd,
        "svd": read_old_svd,
        "linalg_svdvals": read_singular_values,
        "linalg_eigh": read_eigh,
        "linalg_eigvalsh": read_eigvalsh,
        "linalg_eig": lambda x: tuple(ops.eig(x)),
        "linalg_eigvals _linalg_eigvals": ops.eigvals,
        "linalg_qr": read_qr,
        "qr": read_old_qr,
        "linalg_lu": read_lu,
        "linalg_lu_factor": read_lu_factor,
        "linalg_lu_factor_ex": read_lu_factor_ex,
        "_lu_with_info": read_lu_with_info,
        "lu_unpack": read_lu_unpack,
        "linalg_lu_solve": read_lu_solve,
        "linalg_ldl_factor": read_ldl_factor,
        "linalg_ldl_factor_ex": read_ldl_factor_ex,
        "linalg_ldl_solve": read_ldl_solve,
        "lu_solve": read_old_lu_solve,
        "linalg_matrix_rank linalg_matrix_rank.atol_rtol_float "
        "linalg_matrix_rank.atol_rtol_tensor": read_rank,
        "linalg_matrix_rank.tol_tensor": read_rank_by_tolerance,
        "linalg_pinv.atol_rtol_float linalg_pinv.atol_rtol_tensor": read_pinv,
        "linalg_pinv linalg_pinv.rcond_tensor pinverse": read_pinv_by_ratio,
        "linalg_matrix_norm linalg_matrix_norm.str_ord": read_matrix_norm,
        "linalg_norm linalg_norm.ord_str": read_norm,
        "nuclear_norm nuclear_norm.dim": read_nuclear_norm,
        "frobenius_norm.dim": read_frobenius_norm,
        "norm_except_dim": read_norm_except_dim,
        "linalg_cond linalg_cond.p_str": read_condition,
    }
)
