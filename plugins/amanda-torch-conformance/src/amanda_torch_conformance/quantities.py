"""What factorizations determine: vectors have any sign, their products have not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from amanda.graph import Graph

__all__ = ["ORDERS", "QUANTITIES", "order_quantities"]


def _adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def eigh_quantities(values: Any, vectors: Any) -> Sequence[Any]:
    """Eigenvalues, the matrix, and that the vectors are orthonormal."""
    matrix = (vectors * values[..., None, :]) @ _adjoint(vectors)
    return values, matrix, _adjoint(vectors) @ vectors


def eig_quantities(values: Any, vectors: Any) -> Sequence[Any]:
    """Eigenvalues in order, the lengths of vectors, and A V - V diag(values) = 0."""
    import numpy as np

    matrix = (vectors * values[..., None, :]) @ np.linalg.inv(vectors)
    return np.sort(values, -1), np.linalg.norm(vectors, axis=-2), matrix


def eigenvalues(values: Any) -> Sequence[Any]:
    """Eigenvalues in order."""
    import numpy as np

    return [np.sort(values, -1)]


def qr_quantities(q: Any, r: Any) -> Sequence[Any]:
    """The matrix, that Q is orthonormal, and R triangular."""
    import numpy as np

    if not q.size:  # mode="r"
        return [_adjoint(r) @ r, np.tril(r, -1)]
    return q @ r, _adjoint(q) @ q, np.tril(r, -1)


def svd_quantities(u: Any, s: Any, v: Any) -> Sequence[Any]:
    """Singular values, the matrix, and that the vectors are orthonormal."""
    return s, (u * s[..., None, :]) @ _adjoint(v), _adjoint(u) @ u, _adjoint(v) @ v


def order_quantities(graph: Graph, x: Any) -> Callable[..., Sequence[Any]] | None:
    """The elements in the order of the indices, each index once; not of equal elements.

    None where the sort of the graph is stable, which determines the indices.
    """
    import numpy as np

    [op] = graph
    axis = op.attrs.get("dim", -1)

    def quantities(*outputs: Any) -> Sequence[Any]:
        *values, order = outputs
        return *values, np.take_along_axis(x, order, axis), np.sort(order, axis)

    return None if str(op.type).endswith(".stable") else quantities


ORDERS: Final = ("sort", "argsort")
"""Entries of the op database whose last outputs are indices in a sorted order."""
QUANTITIES: Final[Mapping[str, Callable[..., Sequence[Any]]]] = {
    "linalg.eigh": eigh_quantities,
    "linalg.eig": eig_quantities,
    "linalg.eigvals": eigenvalues,
    "linalg.qr": qr_quantities,
    "qr": qr_quantities,
    "svd_lowrank": svd_quantities,
    "pca_lowrank": svd_quantities,
}
"""By the name of an entry of the op database: what its outputs determine."""
