"""Loading of models for verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amanda.cli.output.terminal import show_progress

if TYPE_CHECKING:
    from amanda.graph import Graph

__all__ = ["open_model"]


def open_model(file: str, form: str | None) -> tuple[Graph, str]:
    """Load a file; returns the graph and the name of its format."""
    from amanda.api.files import load
    from amanda.host import default_host

    entry = default_host().format_to_read(file, form)
    with show_progress(f"reading {file}"):
        return load(file, format=entry.choice), entry.name
