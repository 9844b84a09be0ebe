"""Definitions for targets that have an op for wide floats only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.mapping import Decline
from amanda_std import ops

__all__ = ["float32_definition"]


def float32_definition(
    name: str, definition: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """A definition of an op of narrow floats by the one of float32.

    `definition` is that of wider floats, which otherwise have ops of the target.
    """

    def define(*xs: Any, **attrs: Any) -> Any:
        dtypes = {x.dtype for x in xs if hasattr(x, "dtype")}
        narrow = [d for d in dtypes if d.kind == "float" and d.bits < 32]
        if not narrow:
            if definition is None:
                raise Decline("the target has the op")
            return definition(*xs, **attrs)
        found = getattr(ops, name)(*(_cast(x, narrow, "float32") for x in xs), **attrs)
        if isinstance(found, list | tuple):
            return [_cast_back(y, narrow[0]) for y in found]
        return _cast_back(found, narrow[0])

    return define


def _cast_back(y: Any, dtype: Any) -> Any:
    return ops.astype(y, dtype=dtype) if str(y.dtype) == "float32" else y


def _cast(x: Any, dtypes: list[Any], to: str) -> Any:
    return ops.astype(x, dtype=to) if getattr(x, "dtype", None) in dtypes else x
