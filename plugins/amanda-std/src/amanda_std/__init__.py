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

from amanda.argument_checks import check_member
from amanda_std.engine import links
from amanda_std.engine.links import NAMESPACE

if TYPE_CHECKING:
    from amanda_std import ops, passes
    from amanda_std.autodiff.gradients import grad
    from amanda_std.engine.operation import Operation
    from amanda_std.engine.values import Value, trace, tracing
    from amanda_std.frontend import named_axes as named
    from amanda_std.hub.expansion import expand
    from amanda_std.hub.lowering import lower

__all__ = [
    "NAMESPACE",
    "Operation",
    "Value",
    "expand",
    "grad",
    "lower",
    "named",
    "ops",
    "passes",
    "trace",
    "tracing",
]

_HOMES = {
    "Operation": "engine.operation",
    "Value": "engine.values",
    "expand": "hub.expansion",
    "grad": "autodiff.gradients",
    "lower": "hub.lowering",
    "trace": "engine.values",
    "tracing": "engine.values",
}

_MODULES = {
    "named": "amanda_std.frontend.named_axes",
    "ops": "amanda_std.ops",
    "passes": "amanda_std.passes",
}

links.load = lambda name: import_module(f"amanda_std.{name}")


def __getattr__(name: str) -> Any:
    """Importing the package loads neither ops nor numpy."""
    if name in _HOMES:
        module = import_module(f"amanda_std.{_HOMES[name]}")
        value = check_member(getattr(module, name))
        globals()[name] = value  # found without this function the next time
        return value
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'amanda_std' has no attribute {name!r}")
