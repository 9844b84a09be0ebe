"""Lookup of ops at run time, for gradients of ops that others are composed of.

A gradient in a low module may need an op of a module above it, which cannot be imported
there without a circle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["late"]

from amanda_std.engine.links import find_operation

if TYPE_CHECKING:
    from amanda_std import ops as late
else:

    class _LateOps:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            return find_operation(name.removesuffix("_"))

    late = _LateOps()
"""`late.sum_to(g, x)` finds the op when it is called."""
