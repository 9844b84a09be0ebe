"""Kernels of PyTorch: a row for each op that is not run by its definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amanda.graph import Op
from amanda_std.backends import Kernels
from amanda_std.ops import OPS
from amanda_torch.backend.definitions import by_definition, kernels_of_arrays
from amanda_torch.backend.kernels import (
    control_flow,
    elementwise,
    indexing,
    layers,
    linear_algebra,
    random_bits,
    reductions,
    shapes,
    windows,
)

__all__ = ["ARRAYS", "BY_NUMPY", "ROWS", "TORCH", "stays_whole"]

_PRIMITIVES: Final[dict[str, Callable[..., Any]]] = {
    **elementwise.KERNELS,
    **shapes.KERNELS,
    **indexing.KERNELS,
    **reductions.KERNELS,
    **windows.KERNELS,
    **linear_algebra.KERNELS,
    **random_bits.KERNELS,
    **control_flow.KERNELS,
}
_COMPOSITES: Final[dict[str, Callable[..., Any]]] = {
    **elementwise.FUSED,
    **reductions.FUSED,
    **layers.KERNELS,
}
"""Composites that PyTorch computes faster than by their definitions."""

ROWS: Final = {**_PRIMITIVES, **_COMPOSITES}
"""The kernels that are not definitions."""

BY_NUMPY: Final = frozenset(
    name
    for name, operation in OPS.items()
    if name not in ROWS and not operation.is_composite
)
"""Primitives that PyTorch does not have: NumPy runs them in host memory."""

_DEFINITIONS: Final = {
    name: by_definition(operation)
    for name, operation in OPS.items()
    if name not in ROWS and operation.is_composite
}

TORCH: Final = Kernels("torch", {**_DEFINITIONS, **ROWS})
"""The kernels for tensors, and definitions of composites for those without one."""

ARRAYS: Final = kernels_of_arrays(ROWS, _DEFINITIONS)
"""The same for `TorchArray`, with which definitions are run."""


def stays_whole(op: Op) -> bool:
    """Whether PyTorch computes a composite, with these arguments, as one op."""
    if op.type not in _COMPOSITES:
        return False
    condition = layers.CONDITIONS.get(op.type)
    return condition is None or condition(op)
