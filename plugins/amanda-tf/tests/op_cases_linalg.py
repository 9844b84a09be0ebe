"""Cases of linear algebra, Fourier transforms, sparse tensors and strings."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_cases import case, i, positive, r


def definite(*shape: int) -> Any:
    """Symmetric positive definite matrices."""
    x = r(*shape)
    return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(shape[-1], dtype="float32")


def triangle(*shape: int) -> Any:
    """Lower triangular matrices with a positive diagonal."""
    return np.tril(r(*shape, low=0.5, high=2))


def to_absolute(got: Any, expected: Any) -> bool:
    """Whether results are equal up to the signs of vectors."""
    return bool(np.allclose(np.abs(got), np.abs(expected), atol=1e-3))


FULL = r(2, 3, 4)
SPARSE = (np.array([[0, 1], [1, 0], [2, 3]]), r(3), [3, 4])

LINALG = [
    case("Cholesky", definite(2, 3, 3)),
    case("Cholesky", definite(3, 3), instead_of="BatchCholesky"),
    case("CholeskyGrad", triangle(3, 3), r(3, 3)),
    case("CholeskyGrad", triangle(3, 3), r(3, 3), instead_of="BatchCholeskyGrad"),
    case("MatrixDeterminant", r(2, 3, 3)),
    case("MatrixDeterminant", r(2, 3, 3), instead_of="BatchMatrixDeterminant"),
    case("MatrixInverse", definite(2, 3, 3)),
    case("MatrixInverse", definite(2, 3, 3), adjoint=True),
    case("MatrixSquareRoot", definite(2, 3, 3), tolerance=1e-3),
    case("MatrixInverse", definite(3, 3), instead_of="BatchMatrixInverse"),
    case("MatrixSolve", definite(2, 3, 3), r(2, 3, 2)),
    case("MatrixSolve", definite(3, 3), r(3, 2), adjoint=True),
    case("MatrixSolve", definite(3, 3), r(3, 2), instead_of="BatchMatrixSolve"),
    case("MatrixTriangularSolve", triangle(3, 3), r(3, 2)),
    case("MatrixTriangularSolve", triangle(3, 3), r(3, 2), adjoint=True),
    case("MatrixTriangularSolve", triangle(2, 3, 3), r(2, 3, 2),
         instead_of="BatchMatrixTriangularSolve"),
    case("MatrixSolveLs", r(4, 2), r(4, 3), 0.0, fast=False),
    case("MatrixSolveLs", r(4, 2), r(4, 3), 0.5),
    case("MatrixSolveLs", r(4, 2), r(4, 3), 0.5, instead_of="BatchMatrixSolveLs"),
    case("LogMatrixDeterminant", r(2, 3, 3)),
    case("Qr", r(4, 3), agrees=to_absolute),
    case("Svd", r(4, 3), agrees=to_absolute),
    case("Svd", r(4, 3), compute_uv=False, results=1),
    case("Svd", r(4, 3), agrees=to_absolute, instead_of="BatchSvd"),
    case("SelfAdjointEigV2", definite(3, 3), agrees=to_absolute),
    case("SelfAdjointEigV2", definite(3, 3), agrees=to_absolute,
         instead_of="BatchSelfAdjointEigV2"),
    case("Lu", r(3, 3)),
    case("Cross", r(2, 3), r(2, 3)),
    case("MatrixBandPart", r(2, 3, 4), 1, 0),
    case("MatrixBandPart", r(3, 4), -1, 1, instead_of="BatchMatrixBandPart"),
    case("MatrixDiag", r(2, 3)),
    case("MatrixDiag", r(2, 3), instead_of="BatchMatrixDiag"),
    case("MatrixDiagV2", r(2, 3), 0, -1, -1, 0.0),
    case("MatrixDiagV2", r(2, 3), [-1, 0], -1, -1, 7.0),
    case("MatrixDiagV3", r(2, 3), [0, 1], -1, -1, 7.0),
    case("MatrixDiagPart", r(2, 3, 4)),
    case("MatrixDiagPart", r(2, 3, 4), instead_of="BatchMatrixDiagPart"),
    case("MatrixDiagPartV2", r(2, 3, 4), [-1, 1], 7.0),
    case("MatrixDiagPartV3", r(2, 3, 4), [-1, 1], 7.0),
    case("MatrixSetDiag", r(2, 3, 4), r(2, 3)),
    case("MatrixSetDiag", r(2, 3, 4), r(2, 3), instead_of="BatchMatrixSetDiag"),
    case("MatrixSetDiagV2", r(2, 3, 4), r(2, 2, 3), [0, 1]),
    case("MatrixSetDiagV3", r(2, 3, 4), r(2, 2, 3), [0, 1]),
    case("Diag", r(2, 3)),
    case("DiagPart", r(2, 3, 2, 3)),
    case("TridiagonalMatMul", r(2, 1, 4), r(2, 1, 4), r(2, 1, 4), r(2, 4, 3)),
    case("TridiagonalSolve", r(2, 3, 4) + np.float32([[0], [5], [0]]), r(2, 4, 2)),
    case("BandedTriangularSolve", positive(2, 4), r(4, 2)),
    case("BandedTriangularSolve", positive(2, 4), r(4, 2), lower=False),
]  # fmt: skip

FOURIER = [
    *(case(f"{name}{rank}", r(2, 3, 4, dtype="complex64"))
      for name in ("FFT", "IFFT") for rank in ("", "2D", "3D")),
    *(case(f"{name}{n}", r(2, 3, 4, dtype="complex64"), instead_of=f"Batch{name}{n}")
      for name in ("FFT", "IFFT") for n in ("", "2D", "3D")),
    case("RFFT", r(3, 8), [8]), case("RFFT", r(3, 8), [6]),
    case("RFFT2D", r(3, 8), [3, 8]), case("RFFT3D", r(3, 4, 6), [3, 4, 6]),
    case("IRFFT", r(3, 5, dtype="complex64"), [8]),
    case("IRFFT2D", r(4, 5, dtype="complex64"), [4, 8]),
    case("IRFFT3D", r(2, 4, 5, dtype="complex64"), [2, 4, 8], tolerance=1e-2,
         agrees=lambda a, b: a.shape == b.shape),  # its input is not symmetric
]  # fmt: skip

SPARSES = [
    case("SparseTensorDenseMatMul", *SPARSE, r(4, 2)),
    case("SparseTensorDenseMatMul", *SPARSE, r(2, 3), adjoint_a=True, adjoint_b=True),
    case("SparseDenseCwiseAdd", *SPARSE, r(4)),
    case("SparseDenseCwiseMul", *SPARSE, r(3, 4)),
    case("SparseDenseCwiseDiv", *SPARSE, positive(3, 1)),
    case("SparseReduceSum", *SPARSE, [1]),
    case("SparseReduceSum", *SPARSE, [0], keep_dims=True),
    case("SparseReduceMax", *SPARSE, [0]),
    case("SparseAdd", *SPARSE, np.array([[0, 1], [1, 2]]), r(2), [3, 4], 0.1),
    case("SparseAdd", np.array([[0, 1], [1, 0], [2, 3]]), np.float32([0.5, 0.01, 2]),
         [3, 4], np.array([[0, 1], [1, 2], [2, 3]]), np.float32([-0.45, 0.02, 1]),
         [3, 4], 0.1),
    case("SparseSplit", 1, *SPARSE, num_split=3),
    case("SparseReorder", np.array([[2, 3], [0, 1], [1, 0]]), r(3), [3, 4]),
    case("SparseReshape", SPARSE[0], [3, 4], [2, -1]),
    case("SparseSoftmax", np.array([[0, 1], [0, 2], [1, 0]]), r(3), [2, 4]),
    case("SparseConcat", (np.array([[0, 1], [1, 0]]), np.array([[0, 0], [1, 1]])),
         (r(2), r(2)), ([2, 3], [2, 2]), concat_dim=1),
    case("SparseToDense", i([[0, 1], [2, 0]]), [3, 2], r(2), 7.0),
    case("SparseTensorDenseAdd", np.array([[0, 1], [2, 0]]), r(2), [3, 2], r(3, 2)),
    *(case(f"SparseSegment{name}Grad", r(2, 3), i([0, 2, 3]), i([0, 0, 1]), 5)
      for name in ("Sum", "Mean", "SqrtN")),
]  # fmt: skip

WORDS = np.array([b"Ab c", b" dE ", b"x9"])
STRINGS = [
    case("StringStrip", WORDS), case("StringLower", WORDS, encoding="utf-8"),
    case("StringUpper", WORDS, encoding="utf-8"), case("StringLength", WORDS),
    case("StringLength", WORDS, unit="UTF8_CHAR"),
    case("StaticRegexFullMatch", WORDS, pattern="[a-z][0-9]"),
    case("RegexFullMatch", WORDS, "[a-z][0-9]"),
    case("StaticRegexReplace", WORDS, pattern="[ A]", rewrite="_"),
    case("RegexReplace", WORDS, "[ A]", "_", replace_global=False),
    case("StringJoin", (WORDS, WORDS), separator="-"),
    case("StringJoin", (WORDS, WORDS)),
    case("StringToNumber", np.array([b"1.5", b"-2"])),
    case("Add", WORDS, WORDS),
]  # fmt: skip

_RNG = np.random.default_rng(99)


def z(*shape: int) -> Any:
    """Random complex numbers."""
    return (_RNG.normal(size=shape) + 1j * _RNG.normal(size=shape)).astype("complex64")


def hermitian(*shape: int) -> Any:
    """Hermitian positive definite matrices of complex numbers."""
    x = z(*shape)
    return x @ np.conj(np.swapaxes(x, -1, -2)) + 2 * np.eye(shape[-1], dtype=x.dtype)


def in_any_order(got: Any, expected: Any) -> bool:
    """Whether the elements have the same sizes, which no order or phase changes."""
    sizes = (np.sort(np.abs(x), axis=None) for x in (got, expected))
    return bool(np.allclose(*sizes, atol=1e-3))


_SQUARE = z(3, 3) + 3 * np.eye(3, dtype="complex64")
_REAL = z(2, 4, 4).real.copy()
COMPLEX = [
    case("Eig", _REAL, Tout=np.complex64, agrees=in_any_order),
    case("Eig", _SQUARE, Tout=np.complex64, agrees=in_any_order),
    case("Eig", _REAL, Tout=np.complex64, compute_v=False, agrees=in_any_order,
         results=1),
    case("Cholesky", hermitian(2, 3, 3)),
    case("MatrixInverse", _SQUARE, adjoint=True),
    case("MatrixSolve", _SQUARE, z(3, 2), adjoint=True),
    case("MatrixTriangularSolve", _SQUARE, z(3, 2), adjoint=True),
    case("MatrixTriangularSolve", _SQUARE, z(3, 2), lower=False),
    case("LogMatrixDeterminant", _SQUARE),
    case("Qr", _SQUARE, agrees=to_absolute),
    case("Svd", z(4, 3), agrees=to_absolute),
    case("SelfAdjointEigV2", hermitian(3, 3), agrees=to_absolute),
    case("Lu", _SQUARE),
    case("MatrixSquareRoot", hermitian(2, 3, 3)),
    case("MatrixSquareRoot", _REAL @ np.swapaxes(_REAL, -1, -2) + np.eye(4, dtype="f")),
    case("MatrixLogarithm", hermitian(2, 3, 3)),
]  # fmt: skip

CASES = [*LINALG, *FOURIER, *SPARSES, *STRINGS, *COMPLEX]
