"""Accumulation of products in a wider type."""

from __future__ import annotations

from typing import Any

import numpy as np


def accumulate_wide(function: Any, np_: Any, *xs: Any) -> Any:
    """Compute a sum of products in float32 where the element type is too narrow.

    numpy rounds every partial sum of half precision; 8-bit floats overflow in every
    library."""
    kept = xs[0].dtype
    if kept.kind in "fV" and kept.itemsize <= (2 if np_ is np else 1):
        return function(*(x.astype("float32") for x in xs)).astype(kept)
    y = function(*xs)
    return y if y.dtype == kept else y.astype(kept)
