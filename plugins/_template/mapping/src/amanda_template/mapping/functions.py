"""Conversions that need code: where data decides what is built.

A read function gets values and attributes of the matched op and calls ops of the hub. A
write function gets a builder of the framework's ops, and the arguments of the hub's op.
"""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline, constant_of
from amanda_std import ops

__all__ = ["READ", "WRITE"]


def read_clamp(x: Any, *, low: float, high: float) -> Any:
    return ops.clip(x, low, high)


def write_clip(o: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    """Clamp holds its range as attributes, so it must be constant."""
    bounds = [None if v is None else constant_of(v) for v in (low, high)]
    if None in bounds:
        raise Decline("Clamp needs a constant range")
    first, last = (float(bound.numpy()) for bound in bounds if bound is not None)
    return o.Clamp(x, low=first, high=last)


READ = {"Clamp": read_clamp}
WRITE = {"clip": write_clip}
