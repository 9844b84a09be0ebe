"""Shapes with symbols as values."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.types import Sym, TensorType
from amanda_std import ops

__all__ = ["dims_as_vector"]


def dims_as_vector(dims: tuple[Any, ...], xs: tuple[Any, ...]) -> Any:
    """Dims as a vector, symbols among them taken from values that have them."""
    if all(isinstance(d, int) for d in dims):
        return np.array(dims, "int64")
    return ops.stack(*(_dim_value(d, xs) for d in dims))


def _dim_value(dim: Any, xs: tuple[Any, ...]) -> Any:
    if isinstance(dim, int):
        return np.int64(dim)
    for x in xs:
        if isinstance(x.type, TensorType) and x.type.shape.has_rank:
            for axis, own in enumerate(x.type.shape.dims):
                if isinstance(own, Sym) and own.key == dim.key:
                    return ops.dim(x, axis=axis)
    raise Decline(f"the shape of an array's elements: no input has the size {dim}")
