"""The bits of numbers read as other numbers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax


def bitcast(x: Any, *, dtype: Any) -> Any:
    return lax.bitcast_convert_type(jnp.asarray(x), dtype.numpy)
