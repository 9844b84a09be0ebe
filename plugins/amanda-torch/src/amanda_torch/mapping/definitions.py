"""Ops of the hub as others that PyTorch has, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda_std.mappings import (
    float32_definition,
    loop_as_while,
    philox_by_arithmetic,
    scan_as_while,
    threefry_by_arithmetic,
)

__all__ = ["DEFINITIONS"]

_WITHOUT_NARROW_KERNELS = (
    "cholesky", "det", "digamma", "eigh", "erfinv", "gammainc", "gammaincc", "i0",
    "i0e", "i1", "i1e", "inverse", "j0", "j1", "k0", "k0e", "k1", "k1e", "lgamma",
    "log_ndtr", "lu", "ndtri", "polygamma", "qr", "slogdet", "solve", "svd",
    "triangular_solve", "y0", "y1", "zeta",
)  # fmt: skip
"""Ops that PyTorch computes in float32 and float64, but not in narrower floats."""

DEFINITIONS: dict[str, Callable[..., Any]] = {
    **{name: float32_definition(name) for name in _WITHOUT_NARROW_KERNELS},
    "loop": loop_as_while,
    "philox4x32": philox_by_arithmetic,
    "scan": scan_as_while,
    "threefry2x32": threefry_by_arithmetic,
}
