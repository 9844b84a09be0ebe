"""PyTorch for Amanda: graphs as modules. Other parts are entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amanda.argument_checks import check_member

if TYPE_CHECKING:
    from amanda_torch.modules import to_exported_program, to_module

__all__ = ["to_exported_program", "to_module"]


def __getattr__(name: str) -> Any:
    """Import public names on first use: entry points are in modules of their own."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from amanda_torch import modules

    value = check_member(getattr(modules, name))
    globals()[name] = value  # found without this function the next time
    return value
