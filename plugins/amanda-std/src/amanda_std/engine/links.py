"""What the engine asks of the rooms above it, imported at the first call.

Ops are declared with the engine, and the engine adds ops to graphs: for operators of
values, for computed shape arguments, for numbers beside tensors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amanda_std.engine.operation import Operation


def get_operation(name: str) -> Operation | None:
    """The op of the hub with this name, or None."""
    operation: Operation | None = import_module("amanda_std.ops").OPS.get(name)
    return operation


def find_operation(name: str) -> Operation:
    """The op of the hub with this name; NamespaceError if there is none."""
    operation: Operation = import_module("amanda_std.ops").find(name)
    return operation


def gradients_here(value: Any, wrt: Any) -> Any:
    """Gradients of a traced value; see `amanda_std.frontend.functions`."""
    return import_module("amanda_std.frontend.functions").gradients_here(value, wrt)
