"""Dictionaries and plug-ins that are installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amanda.argument_checks import check_arguments
from amanda.host import host_in_use

if TYPE_CHECKING:
    from amanda.dictionary import Namespace
    from amanda.host import Host, PluginInfo

__all__ = ["namespace", "plugins"]


def namespace(
    name: str, *, assume: bool = False, host: Host | None = None
) -> Namespace:
    """The dictionary of a namespace: `onnx@18`, `amanda/onnx/18`, `torch` (newest).

    With `assume`, an unknown version is replaced by the nearest lower one, which the
    dictionary records in `assumed`.
    """
    return (host or host_in_use()).namespace(name, assume=assume)


def plugins(*, host: Host | None = None) -> list[PluginInfo]:
    """Every plug-in that is installed, with its state. Imports none of them."""
    return (host or host_in_use()).plugins()


check_arguments(globals())
