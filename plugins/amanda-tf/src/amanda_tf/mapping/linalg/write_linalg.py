"""To TensorFlow: linear algebra and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.tensors import Tensor
from amanda.types import DType
from amanda_std.mappings import expect, rank_of
from amanda_tf.mapping.operands import dims_of, dtype_of, int_tensor, required_static
from amanda_tf.mapping.reductions.write_reductions import last_size

__all__ = ["WRITE"]


_REAL_TYPES = {"complex64": "float32", "complex128": "float64"}
_COMPLEX_TYPES = {name: whole for whole, name in _REAL_TYPES.items()}


def _is_complex(x: Any) -> bool:
    return dtype_of(x).kind == "complex"


def _real_part(o: Any, y: Any, x: Any) -> Any:
    """A real result that has the complex type of x in TensorFlow."""
    return _part(o, "Real", y, dtype_of(x)) if _is_complex(x) else y


def _part(o: Any, type: str, y: Any, dtype: Any) -> Any:
    return o.op(type, y, Tout=DType(_REAL_TYPES[dtype.name]))


def _signs(o: Any, x: Any, dtype: Any) -> Any:
    """Numbers of magnitude 1 by which the products with x are nonnegative."""
    sign = o.Conj(o.Sign(x)) if dtype.kind == "complex" else o.Sign(x)
    return o.AddV2(sign, o.Cast(o.Equal(x, o.ZerosLike(x)), DstT=dtype))


def _column_signs(o: Any, vectors: Any, dtype: Any) -> Any:
    """The sign that each column is multiplied by, in an axis of length 1."""
    rows = o.Cumsum(o.OnesLike(vectors), int_tensor(-2), exclusive=True)
    shifted = o.AddV2(rows, Tensor.of(np.asarray(math.sqrt(2), dtype.numpy)))
    total = o.Sum(o.RealDiv(vectors, shifted), int_tensor(-2), keep_dims=True)
    return _signs(o, total, dtype)


def _first_columns(o: Any, signs: Any, x: Any, count: int) -> Any:
    """Signs for `count` vectors; 1 for those after the last sign."""
    known = min(dims_of(x)[-2:])
    rank, dtype = rank_of(x), dtype_of(x)
    if count <= known:
        return o.Slice(
            signs, int_tensor([0] * rank), int_tensor([-1] * (rank - 1) + [count])
        )
    pads = int_tensor([[0, 0]] * (rank - 1) + [[0, count - known]])
    return o.PadV2(signs, pads, Tensor.of(np.asarray(1, dtype.numpy)))


def _static_sizes(x: Any) -> tuple[int, int]:
    rows, columns = dims_of(x)[-2:]
    sized = isinstance(rows, int) and isinstance(columns, int)
    expect(sized, "the size of a matrix is known at run time only")
    return rows, columns


def write_qr(o: Any, x: Any, *, full: bool = False) -> Any:
    rows, columns = _static_sizes(x)
    q, r = o.Qr(x, full_matrices=full)
    rank, dtype = rank_of(x), dtype_of(x)
    signs = o.ExpandDims(_signs(o, o.MatrixDiagPart(r), dtype), int_tensor(-2))
    signs = _first_columns(o, signs, x, rows if full else min(rows, columns))
    back = o.Conj(signs) if dtype.kind == "complex" else signs
    return o.Mul(q, back), o.Mul(r, _swap_last_axes(o, signs, rank))


def _swap_last_axes(o: Any, x: Any, rank: int) -> Any:
    order = [*range(rank - 2), rank - 1, rank - 2]
    return o.Transpose(x, int_tensor(order))


def write_svd(o: Any, x: Any, *, full: bool = False) -> Any:
    rows, columns = _static_sizes(x)
    rank, dtype = rank_of(x), dtype_of(x)
    s, u, v = o.Svd(x, full_matrices=full, compute_uv=True)
    signs = _column_signs(o, u, dtype)
    least = min(rows, columns)
    first = _first_columns(o, signs, x, least) if full and rows > least else signs
    if full and columns > least:
        first = _first_columns(o, first, x, columns)
    vh = _swap_last_axes(o, o.Mul(v, first), rank)
    if dtype.kind == "complex":
        vh = o.Conj(vh)
    return o.Mul(u, signs), _real_part(o, s, x), vh


def write_eigh(o: Any, x: Any) -> Any:
    values, vectors = o.SelfAdjointEigV2(x)
    signs = _column_signs(o, vectors, dtype_of(x))
    return _real_part(o, values, x), o.Mul(vectors, signs)


def write_slogdet(o: Any, x: Any) -> Any:
    sign, size = o.LogMatrixDeterminant(x)
    return sign, _real_part(o, size, x)


def write_eig(o: Any, x: Any) -> Any:
    """In the order of the hub: two sorts, of which the second one is stable."""
    dtype, rank = _complex_type(x), rank_of(x)
    values, vectors = o.Eig(x, Tout=dtype)
    values, order = _in_order(o, values, x, dtype)
    vectors = o.GatherV2(vectors, order, int_tensor(rank - 1), batch_dims=rank - 2)
    return values, o.Mul(vectors, _column_signs(o, vectors, dtype))


def write_eigvals(o: Any, x: Any) -> Any:
    dtype = _complex_type(x)
    return _in_order(o, o.Eig(x, Tout=dtype, compute_v=False)[0], x, dtype)[0]


def _complex_type(x: Any) -> DType:
    dtype = dtype_of(x)
    return DType(_COMPLEX_TYPES.get(dtype.name, dtype.name))


def _in_order(o: Any, values: Any, x: Any, dtype: DType) -> tuple[Any, Any]:
    count = last_size(o, x)

    def arrange(y: Any, order: Any) -> Any:
        axis = rank_of(x) - 2
        return o.GatherV2(y, order, int_tensor(axis), batch_dims=axis)

    def ascending(y: Any) -> Any:
        return o.TopKV2(o.Neg(y), count)[1]

    order = ascending(_part(o, "Imag", values, dtype))
    by_real = ascending(arrange(_part(o, "Real", values, dtype), order))
    order = arrange(order, by_real)
    return arrange(values, order), order


def write_lu(o: Any, x: Any) -> Any:
    matrix, order = o.Lu(x, output_idx_type=DType("int64"))
    return matrix, order


def write_triangular_solve(
    o: Any, a: Any, b: Any, *, lower: bool = True, unit: bool = False,
    transpose: bool = False,
) -> Any:  # fmt: skip
    """TensorFlow solves by the adjoint, where the hub transposes."""
    if unit:
        ones = o.OnesLike(o.MatrixDiagPart(a))
        a = o.MatrixSetDiag(a, ones)
    if transpose and _is_complex(b):
        a = o.Conj(a)
    return o.MatrixTriangularSolve(a, b, lower=lower, adjoint=transpose)


def write_diagonal(o: Any, x: Any, *, offset: int = 0) -> Any:
    """The main diagonal of the columns from an offset, or of the rows."""
    if offset:
        starts = [0] * rank_of(x)
        starts[-1 if offset > 0 else -2] = abs(offset)
        x = o.Slice(x, int_tensor(starts), int_tensor([-1] * len(starts)))
    return o.MatrixDiagPart(x)


def write_matmul(o: Any, a: Any, b: Any) -> Any:
    """Vectors are matrices of one row or column."""
    ranks = rank_of(a), rank_of(b)
    if ranks[0] == 1:
        a = o.ExpandDims(a, int_tensor(0))
    if ranks[1] == 1:
        b = o.ExpandDims(b, int_tensor(1))
    y = o.BatchMatMulV2(a, b)
    cut = [axis for axis, rank in ((-2, ranks[0]), (-1, ranks[1])) if rank == 1]
    return o.Squeeze(y, squeeze_dims=cut) if cut else y


def write_einsum(o: Any, *xs: Any, equation: str) -> Any:
    """An equation without spaces, and with a result: in numpy's order, if none."""
    text = equation.replace(" ", "")
    if "->" not in text:
        letters = [c for c in text if c.isalpha()]
        once = sorted(c for c in letters if letters.count(c) == 1)
        text += "->" + ("..." if "..." in text else "") + "".join(once)
    if text == "...ii->...i":
        return o.MatrixDiagPart(*xs)
    return o.Einsum(*xs, equation=text, N=len(xs))


def _fourier(name: str) -> Callable[..., Any]:
    """A transform along axes that are moved to the end, one after the other."""

    def write(
        o: Any, x: Any, sizes: Any = None, axes: Any = (-1,), *, norm: str = "backward"
    ) -> Any:
        rank, forward = rank_of(x), not name.startswith("I")
        places = _axes(sizes, axes, rank)
        lengths: list[Any] = [None] * len(places)
        if sizes is not None:
            lengths = required_static(sizes, "the sizes")
        shape, total, dtype = list(dims_of(x)), 1.0, str(dtype_of(x))
        if dtype_of(x).bits < 32:
            x, dtype = o.Cast(x, DstT=DType("float32")), "float32"
        order = list(zip(places, lengths, strict=True))
        real = "R" in name
        for place, size in order if name == "IRFFT" else reversed(order):
            last = (place, size) == order[-1]
            step = name if real and last else name.replace("R", "")
            wanted = size if size is not None else _length(step, shape[place])
            expect(
                norm == "backward" or wanted is not None,
                f"a transform with norm {norm} of an axis of unknown length",
            )
            x, dtype = _transform(o, step, x, dtype, place, wanted, shape)
            total *= wanted or 1
        if norm == "backward":
            return x
        power = {"ortho": 0.5, "forward": 1.0}[norm]
        factor = total ** (-power if forward else power)
        return o.Mul(x, Tensor.of(np.asarray(factor, dtype)))

    return write


def _axes(sizes: Any, axes: Any, rank: int) -> list[int]:
    if axes is None:
        count = rank if sizes is None else len(required_static(sizes, "the sizes"))
        return list(range(rank - count, rank))
    return [axis % rank for axis in required_static(axes, "the axes")]


def _length(step: str, size: Any) -> int | None:
    """The length of a whole transform; None where it is known at run time only."""
    if not isinstance(size, int):
        return None
    return 2 * (size - 1) if step == "IRFFT" else size


def _transform(
    o: Any, step: str, x: Any, dtype: str, place: int, size: int | None,
    shape: list[Any],
) -> tuple[Any, str]:  # fmt: skip
    """One transform along one axis, whose length in `shape` is updated; its dtype."""
    rank, old = len(shape), shape[place]
    order = list(range(rank))
    order[place], order[-1] = order[-1], order[place]
    moved = place != rank - 1
    y = o.Transpose(x, int_tensor(order)) if moved else x
    if size is not None:
        short = size // 2 + 1
        y = _resize_last(o, y, rank, old, short if step == "IRFFT" else size)
        shape[place] = short if step == "RFFT" else size
    if step == "RFFT":
        dtype = _COMPLEX_TYPES[dtype]
        y = o.RFFT(y, _fft_length(o, y, rank, size, 0), Tcomplex=DType(dtype))
    elif step == "IRFFT":
        dtype = _REAL_TYPES[dtype]
        y = o.IRFFT(y, _fft_length(o, y, rank, size, 1), Treal=DType(dtype))
    else:
        y = o.op(step, y)
    return (o.Transpose(y, int_tensor(order)) if moved else y), dtype


def _fft_length(o: Any, y: Any, rank: int, size: int | None, inverse: int) -> Any:
    """The length of a real transform, as a vector; of a whole one, if unknown."""
    if size is not None:
        return int_tensor([size])
    last = o.Slice(o.Shape(y), int_tensor([rank - 1]), int_tensor([1]))
    return o.Mul(o.Sub(last, int_tensor([1])), int_tensor([2])) if inverse else last


def _resize_last(o: Any, y: Any, rank: int, old: Any, new: int) -> Any:
    """The last axis cut, or padded with zeros, to a length."""
    if old == new:
        return y
    expect(isinstance(old, int), "a transform of other sizes than the unknown ones")
    if new < old:
        return o.Slice(y, int_tensor([0] * rank), int_tensor([-1] * (rank - 1) + [new]))
    pairs = [[0, 0]] * (rank - 1)
    return o.Pad(y, int_tensor([*pairs, [0, new - old]]))


WRITE: dict[str, Any] = {
    "qr": write_qr,
    "svd": write_svd,
    "eigh": write_eigh,
    "eig": write_eig,
    "eigvals": write_eigvals,
    "slogdet": write_slogdet,
    "lu": write_lu,
    "diagonal": write_diagonal,
    "triangular_solve": write_triangular_solve,
    "matmul": write_matmul,
    "einsum": write_einsum,
    "fft": _fourier("FFT"),
    "ifft": _fourier("IFFT"),
    "rfft": _fourier("RFFT"),
    "irfft": _fourier("IRFFT"),
}
