"""Sequences, optionals and tuples: what Python holds while a program is traced.

How many tensors there are and which of them is meant is known then, so XLA sees
tensors only. A place that data decides is one of the values that programs are made for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax.numpy as jnp
import numpy as np
from jax import lax

from amanda.errors import UsageError
from amanda_std.ops import OPS

__all__ = ["ROWS"]

_AS_DEFINED: Final = (
    "optional", "sequence_at", "sequence_construct", "sequence_empty",
    "sequence_erase", "sequence_insert", "sequence_length", "sequence_map",
    "tuple_get", "tuple_make", "tuple_push",
)  # fmt: skip
"""Ops that only hold or hand on what there is: their definitions do for any array."""


def split_to_sequence(x: Any, sizes: Any = None, *, axis: int, keepdims: bool) -> Any:
    """The parts that the definition finds, as slices."""
    axis %= x.ndim
    places = np.arange(x.shape[axis])
    parts = OPS["split_to_sequence"].function(places, sizes, axis=0)
    ends = np.cumsum([part.size for part in parts], dtype="int64").tolist()
    found = [
        lax.slice_in_dim(x, end - part.size, end, axis=axis)
        for part, end in zip(parts, ends, strict=True)
    ]
    if keepdims or sizes is not None:
        return found
    return [lax.squeeze(part, (axis,)) for part in found]


def concat_from_sequence(xs: Any, *, axis: int, new_axis: bool) -> Any:
    if not xs:
        raise UsageError("cannot concatenate an empty sequence")
    return (jnp.stack if new_axis else jnp.concatenate)(xs, axis)


ROWS: Final[dict[str, Callable[..., Any]]] = {
    **{name: OPS[name].function for name in _AS_DEFINED},
    "split_to_sequence": split_to_sequence,
    "concat_from_sequence": concat_from_sequence,
}
