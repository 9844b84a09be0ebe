"""Sequences, optionals and tuples: containers of Python while a program is traced.

The number of tensors and positions in a sequence are static, so that XLA sees tensors
only. A position that depends on data is one of the values that programs are specialized
on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import lax

from amanda.errors import UsageError
from amanda_std.backends import Trait
from amanda_std.ops import OPS

__all__ = ["KERNELS"]


def split_to_sequence(x: Any, sizes: Any = None, *, axis: int, keepdims: bool) -> Any:
    """The parts by the definition, as slices."""
    axis %= x.ndim
    indices = np.arange(x.shape[axis])
    parts = OPS["split_to_sequence"].function(indices, sizes, axis=0)
    ends = np.cumsum([part.size for part in parts], dtype="int64").tolist()
    slices = [
        lax.slice_in_dim(x, end - part.size, end, axis=axis)
        for part, end in zip(parts, ends, strict=True)
    ]
    if keepdims or sizes is not None:
        return slices
    return [lax.squeeze(part, (axis,)) for part in slices]


def concat_from_sequence(xs: Any, *, axis: int, new_axis: bool) -> Any:
    if not xs:
        raise UsageError("cannot concatenate an empty sequence")
    return (jnp.stack if new_axis else jnp.concatenate)(xs, axis)


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    **{
        name: operation.function
        for name, operation in OPS.items()
        if Trait.CONTAINER in operation.traits
    },
    "split_to_sequence": split_to_sequence,
    "concat_from_sequence": concat_from_sequence,
}
