"""Netron, a viewer of model files, where it is installed."""

from __future__ import annotations

from importlib import import_module

from amanda.errors import PluginMissingError

__all__ = ["open_in_netron"]


def open_in_netron(file: str) -> None:
    """Show a file in Netron until it is stopped (Control-C)."""
    try:
        netron = import_module("netron")
    except ModuleNotFoundError as error:
        raise PluginMissingError(
            "Netron is not installed",
            got=str(error),
            hint="pip install netron, or leave --netron out for a page by Amanda",
        ) from error
    netron.start(file)
    netron.wait()
