"""Test matrices, and products, solutions and factorizations by plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda_std.ops.tensor.creation import eye
from amanda_std.ops.tensor.shape import broadcast_like


def matrices(side: int) -> Any:
    """Two well-conditioned matrices without structure."""
    numbers = [((7 * i * i + 3 * i) % 11 - 5) / 8 for i in range(2 * side * side)]
    result = np.array(numbers).reshape(2, side, side)
    return result + np.array([3.0, -2.0]).reshape(2, 1, 1) * np.eye(side)


def complex_matrices(side: int) -> Any:
    """Two well-conditioned complex matrices without structure."""
    return matrices(side) + 0.5j * np.swapaxes(matrices(side), -1, -2)[::-1]


def unitary_matrix() -> Any:
    """A unitary matrix of size 3."""
    turn = np.array([[0.6, 0.8j, 0], [0.8j, 0.6, 0], [0, 0, 1j]])
    other = np.array([[1, 0, 0], [0, 0.28, 0.96], [0, 0.96j, -0.28j]])
    return matrix_product(turn, other)


def symmetric(side: int) -> Any:
    """Two symmetric matrices with well-separated eigenvalues."""
    result = matrices(side)
    return (
        result + np.swapaxes(result, -1, -2) + np.diag([3.0 * i for i in range(side)])
    )


def sample_matrix(*shape: int) -> Any:
    size = math.prod(shape)
    numbers = [((5 * i * i + 2 * i) % 13 - 6) / 4 for i in range(size)]
    return np.array(numbers).reshape(shape)


def matrix_product(a: Any, b: Any) -> Any:
    """Matrix product by loops over rows and columns, with broadcast batch axes."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    wide = "complex128" if np.iscomplexobj(a) or np.iscomplexobj(b) else "float64"
    left = np.broadcast_to(a, batch + a.shape[-2:]).astype(wide)
    right = np.broadcast_to(b, batch + b.shape[-2:]).astype(wide)
    add = sum if wide[0] == "c" else math.fsum
    out = np.zeros((*batch, a.shape[-2], b.shape[-1]), wide)
    for *at, i, j in np.ndindex(out.shape):
        pairs = zip(left[(*at, i)], right[(*at, slice(None), j)], strict=True)
        out[(*at, i, j)] = add(x * y for x, y in pairs)
    return out.astype(b.dtype if np.iscomplexobj(b) else a.dtype)


def solve_by_elimination(a: Any, b: Any, kind: Any = float) -> Any:
    """Solution of a @ x = b by elimination with partial pivoting."""
    rows = [[*map(kind, r), *map(kind, s)] for r, s in zip(a, b, strict=True)]
    side = len(rows)
    for i in range(side):
        best = max(range(i, side), key=lambda k: abs(rows[k][i]))
        rows[i], rows[best] = rows[best], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for k in range(side):
            if k != i:
                factor = rows[k][i]
                rows[k] = [
                    v - factor * w for v, w in zip(rows[k], rows[i], strict=True)
                ]
    return np.array([r[side:] for r in rows])


def identity_like(x: Any) -> Any:
    """The identity in the shape of square matrices."""
    return broadcast_like(eye(x.shape[-1], dtype=x.dtype), x)


def householder(x: Any) -> tuple[Any, Any]:
    """Full QR by Householder reflections, with a positive diagonal of R."""
    rows, columns = x.shape
    r, q = x.astype("float64").tolist(), np.eye(rows).tolist()
    for j in range(min(rows, columns)):
        v = [r[i][j] if i >= j else 0.0 for i in range(rows)]
        v[j] += math.copysign(math.hypot(*v), v[j])
        size = math.fsum(c * c for c in v)
        for target in (r, q):
            for k in range(len(target[0])):
                weight = 2 * math.fsum(v[i] * target[i][k] for i in range(rows)) / size
                for i in range(rows):
                    target[i][k] -= weight * v[i]
    for i in range(min(rows, columns)):
        if r[i][i] < 0:
            r[i], q[i] = [-v for v in r[i]], [-v for v in q[i]]
        r[i][:i] = [0.0] * i
    for i in range(columns, rows):
        r[i] = [0.0] * columns
    return np.array(q).T, np.array(r)


def jacobi(x: Any) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors of a symmetric matrix by Jacobi rotations."""
    side = len(x)
    a, vectors = x.astype("float64"), np.eye(side)
    for _ in range(20):
        for p in range(side):
            for q in range(p + 1, side):
                angle = math.atan2(2 * a[p, q], a[q, q] - a[p, p]) / 2
                c, s = math.cos(angle), math.sin(angle)
                turn = np.eye(side)
                turn[p, p], turn[q, q], turn[p, q], turn[q, p] = c, c, s, -s
                a = matrix_product(matrix_product(turn.T, a), turn)
                vectors = matrix_product(vectors, turn)
    order = sorted(range(side), key=lambda i: a[i, i])
    result, _signs = normalize_signs(vectors[:, order])
    return np.array([a[i, i] for i in order]), result


def normalize_signs(vectors: Any) -> tuple[Any, Any]:
    """Columns with normalized signs or phases, and the factor of each."""
    rows, columns = vectors.shape
    totals = [
        sum(vectors[i, j].item() / (i + math.sqrt(2)) for i in range(rows))
        for j in range(columns)
    ]
    signs = [v.conjugate() / abs(v) for v in totals]
    return vectors * np.array(signs), np.array(signs)


def matmul_by_loops(a: Any, b: Any) -> Any:
    """Matrix product by a loop over rows, columns and the contracted axis."""
    left = a[None, :] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = np.broadcast_to(left, batch + left.shape[-2:])
    right = np.broadcast_to(right, batch + right.shape[-2:])
    out = np.zeros((*batch, left.shape[-2], right.shape[-1]), a.dtype)
    for *at, i, j in np.ndindex(out.shape):
        pairs = zip(left[(*at, i)], right[(*at, slice(None), j)], strict=True)
        out[(*at, i, j)] = math.fsum(float(x) * float(y) for x, y in pairs)
    if a.ndim == 1:
        out = out[..., 0, :]
    return out[..., 0] if b.ndim == 1 else out
