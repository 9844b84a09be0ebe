"""Decompositions in float32 for narrower floats."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from amanda.types import DType
from amanda_std.ops._late import late as ops

__all__ = ["in_float32"]


def in_float32(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition that computes narrow floats in float32, as kernels do."""

    @wraps(rule)
    def wide(*xs: Any, **attrs: Any) -> Any:
        narrow = [x.dtype for x in xs if _is_narrow(x.dtype)]
        if not narrow:
            return rule(*xs, **attrs)
        cast = [
            ops.astype(x, dtype="float32") if _is_narrow(x.dtype) else x for x in xs
        ]
        return ops.astype(rule(*cast, **attrs), dtype=narrow[0])

    return wide


def _is_narrow(dtype: Any) -> bool:
    return isinstance(dtype, DType) and dtype.kind == "float" and dtype.bits < 32
