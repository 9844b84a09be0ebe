"""The hub op set `amanda/std/1`: one definition per op, read in several ways.

from amanda_std import ops, tracing, trace

ops.softmax(array)                   computes
ops.softmax(parse_type("f32[n, 3]")) infers
with tracing(graph):
    ops.softmax(value)               adds an op
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amanda_std import ops
    from amanda_std.gradients import grad
    from amanda_std.lowering import expand, lower
    from amanda_std.operation import Operation
    from amanda_std.values import Value, trace, tracing

__all__ = [
    "Operation",
    "Value",
    "expand",
    "grad",
    "lower",
    "ops",
    "trace",
    "tracing",
]

NAMESPACE = "amanda/std/1"

_HOMES = {
    "Operation": "operation",
    "Value": "values",
    "expand": "lowering",
    "grad": "gradients",
    "lower": "lowering",
    "trace": "values",
    "tracing": "values",
}


def __getattr__(name: str) -> Any:
    """Importing the package loads neither ops nor numpy."""
    if name in _HOMES:
        return getattr(import_module(f"amanda_std.{_HOMES[name]}"), name)
    if name == "ops":
        return import_module("amanda_std.ops")
    raise AttributeError(f"module 'amanda_std' has no attribute {name!r}")
