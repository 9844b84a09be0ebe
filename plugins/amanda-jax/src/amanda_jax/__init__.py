"""The XLA backend: graphs of `amanda/std/1`, compiled as a whole by JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amanda.argument_checks import check_member

if TYPE_CHECKING:
    from amanda_jax.cpu_tuning.kernel_library import XlaKernels
    from amanda_jax.export.saved_program import load_saved_program
    from amanda_jax.function import as_function

__all__ = ["XlaKernels", "as_function", "load_saved_program"]

_MODULES = {
    "XlaKernels": "amanda_jax.cpu_tuning.kernel_library",
    "as_function": "amanda_jax.function",
    "load_saved_program": "amanda_jax.export.saved_program",
}


_FORMER_NAMES = {"restored": "load_saved_program"}


def __getattr__(name: str) -> Any:
    """Import public names on first use, since importing JAX takes long."""
    name = _FORMER_NAMES.get(name, name)
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = check_member(getattr(import_module(_MODULES[name]), name))
    globals()[name] = value  # found without this function the next time
    return value
