"""Ops of the hub as others that TensorFlow has, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.mapping import Decline
from amanda_std.mappings import (
    float32_definition,
    loop_as_while,
    philox_by_arithmetic,
    scan_as_while,
    threefry_by_arithmetic,
)
from amanda_std.ops import OPS
from amanda_tf.mapping.elementwise.definitions import log_ndtr_by_erfc

__all__ = ["DEFINITIONS"]

_WITHOUT_NARROW_KERNELS = (
    "betainc", "cholesky", "dawsn", "det", "digamma", "eig", "eigh", "eigvals",
    "erfinv", "expi", "fresnel_cos", "fresnel_sin", "gammainc", "gammaincc", "i0",
    "i0e", "i1", "i1e", "inverse", "j0", "j1", "k0", "k0e", "k1", "k1e", "lgamma", "lu",
    "matrix_sqrt", "ndtri", "polygamma", "qr", "slogdet", "solve", "spence", "svd",
    "triangular_solve", "y0", "y1", "zeta",
)  # fmt: skip
"""Ops that TensorFlow computes in float32 and float64, but not in narrower floats."""


def lu_of_rectangles(x: Any) -> Any:
    """LU factors by elimination; the op Lu has those of square matrices only."""
    rows, columns = x.shape[-2:]
    elimination = OPS["lu"].definition
    if rows == columns or elimination is None:
        raise Decline("the target has the op")
    return elimination(x)


DEFINITIONS: dict[str, Callable[..., Any]] = {
    **{name: float32_definition(name) for name in _WITHOUT_NARROW_KERNELS},
    "log_ndtr": float32_definition("log_ndtr", log_ndtr_by_erfc),
    "lu": float32_definition("lu", lu_of_rectangles),
    "loop": loop_as_while,
    "philox4x32": philox_by_arithmetic,
    "scan": scan_as_while,
    "threefry2x32": threefry_by_arithmetic,
}
