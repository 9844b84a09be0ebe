"""Links from the engine to modules above it, loaded at the first call.

Ops are declared with the engine, and the engine adds ops to graphs: for operators of
values, for computed shape arguments, for numbers beside tensors. Imports only go
down, so the package sets `load` when it is imported."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

NAMESPACE: Final = "amanda/std/1"


def _not_set(name: str) -> Any:
    raise RuntimeError(f"the package amanda_std was not imported, so {name} is unknown")


load: Callable[[str], Any] = _not_set
"""Imports a module of the package, by its name inside."""


@cache
def _ops() -> Any:
    return load("ops")


def get_operation(name: str) -> Any:
    """The `Operation` of the hub with this name, or None."""
    return _ops().OPS.get(name)


def find_operation(name: str) -> Any:
    """The `Operation` of the hub with this name; NamespaceError if there is none."""
    return _ops().find(name)


def gradients_here(value: Any, wrt: Any) -> Any:
    """Gradients of a traced value; see `amanda_std.frontend.functions`."""
    return load("frontend.functions").gradients_here(value, wrt)
