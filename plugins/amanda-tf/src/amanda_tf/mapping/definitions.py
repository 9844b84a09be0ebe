"""Ops of the hub as others that TensorFlow has, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.mapping import Decline
from amanda_std import ops
from amanda_tf.mapping.control.loop_definitions import loop_as_while, scan_as_while
from amanda_tf.mapping.elementwise.definitions import log_ndtr_by_erfc
from amanda_tf.mapping.random.definitions import (
    philox_by_arithmetic,
    threefry_by_arithmetic,
)

__all__ = ["DEFINITIONS"]

_WITHOUT_NARROW_KERNELS = (
    "betainc", "cholesky", "dawsn", "det", "digamma", "eigh", "erfinv", "expi",
    "fresnel_cos", "fresnel_sin", "gammainc", "gammaincc", "i0", "i0e", "i1", "i1e",
    "inverse", "j0", "j1", "k0", "k0e", "k1", "k1e", "lgamma", "lu", "ndtri",
    "polygamma", "qr", "slogdet", "solve", "spence", "svd", "triangular_solve", "y0",
    "y1", "zeta",
)  # fmt: skip
"""Ops that TensorFlow computes in float32 and float64, but not in narrower floats."""


def float32_definition(
    name: str, definition: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """A definition of an op of narrow floats by the one of float32.

    `definition` is that of wider floats, which otherwise have ops of TensorFlow.
    """

    def define(*xs: Any, **attrs: Any) -> Any:
        dtypes = {x.dtype for x in xs if hasattr(x, "dtype")}
        narrow = [d for d in dtypes if d.kind == "float" and d.bits < 32]
        if not narrow:
            if definition is None:
                raise Decline("TensorFlow has the op")
            return definition(*xs, **attrs)
        found = getattr(ops, name)(*(_cast(x, narrow, "float32") for x in xs), **attrs)
        if not isinstance(found, list | tuple):
            return ops.astype(found, dtype=narrow[0])
        return [ops.astype(y, dtype=narrow[0]) if str(y.dtype) == "float32" else y
                for y in found]  # fmt: skip

    return define


def _cast(x: Any, dtypes: list[Any], to: str) -> Any:
    return ops.astype(x, dtype=to) if getattr(x, "dtype", None) in dtypes else x


DEFINITIONS: dict[str, Callable[..., Any]] = {
    **{name: float32_definition(name) for name in _WITHOUT_NARROW_KERNELS},
    "log_ndtr": float32_definition("log_ndtr", log_ndtr_by_erfc),
    "loop": loop_as_while,
    "philox4x32": philox_by_arithmetic,
    "scan": scan_as_while,
    "threefry2x32": threefry_by_arithmetic,
}
