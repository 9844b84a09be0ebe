"""Contractions: matmul, einsum, and the fully connected layer."""

from __future__ import annotations

from typing import Any

import numpy as np


def accumulate_wide(function: Any, np_: Any, *xs: Any) -> Any:
    """Sums of products: of half precision and less added up in float32, where numpy
    does it, as it rounds every one of them, and of one byte everywhere."""
    kept = xs[0].dtype
    if kept.kind in "fV" and kept.itemsize <= (2 if np_ is np else 1):
        return function(*(x.astype("float32") for x in xs)).astype(kept)
    y = function(*xs)
    return y if y.dtype == kept else y.astype(kept)
