"""Ops of the hub as others that PyTorch has, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.mapping import Decline
from amanda_std import ops
from amanda_std.mappings import (
    COMPUTED_ARGUMENTS,
    INT64_DEFINITIONS,
    float32_definition,
    loop_as_while,
    philox_by_arithmetic,
    scan_as_while,
    threefry_by_arithmetic,
)

__all__ = ["DEFINITIONS"]

_WITHOUT_NARROW_KERNELS = (
    "cholesky", "det", "digamma", "eig", "eigh", "eigvals", "erfcx", "erfinv",
    "gammainc", "gammaincc", "i0", "i0e", "i1", "i1e", "inverse", "j0", "j1", "k0",
    "k0e", "k1", "k1e", "ldl_factor", "lgamma", "log_ndtr", "lu", "ndtri", "polygamma",
    "qr", "slogdet", "solve", "svd", "triangular_solve", "y0", "y1", "zeta",
)  # fmt: skip
"""Ops that PyTorch computes in float32 and float64, but not in narrower floats."""


def _complex_pad(x: Any, pads: Any, value: Any = None, *more: Any, **attrs: Any) -> Any:
    """Padding of complex numbers, which PyTorch lacks, by that of their parts."""
    if x.dtype.kind != "complex":
        raise Decline("the target has the op")
    values = (None, None) if value is None else (ops.real(value), ops.imag(value))
    parts = zip((ops.real(x), ops.imag(x)), values, strict=True)
    return ops.complex(*(ops.pad(y, pads, v, *more, **attrs) for y, v in parts))


_TABLES: tuple[dict[str, Callable[..., Any]], ...] = (
    {name: float32_definition(name) for name in _WITHOUT_NARROW_KERNELS},
    INT64_DEFINITIONS,
    {"pad": _complex_pad},
    COMPUTED_ARGUMENTS,
    {
        "loop": loop_as_while,
        "philox4x32": philox_by_arithmetic,
        "scan": scan_as_while,
        "threefry2x32": threefry_by_arithmetic,
    },
)


def _first_that_fits(definitions: list[Callable[..., Any]]) -> Callable[..., Any]:
    """The first of several definitions that does not decline."""

    def define(*xs: Any, **attrs: Any) -> Any:
        *others, last = definitions
        for each in others:
            try:
                return each(*xs, **attrs)
            except Decline:
                continue
        return last(*xs, **attrs)

    return definitions[0] if len(definitions) == 1 else define


DEFINITIONS: dict[str, Callable[..., Any]] = {
    name: _first_that_fits([table[name] for table in _TABLES if name in table])
    for name in sorted({name for table in _TABLES for name in table})
}
