"""Checks that a caller or a plug-in passed a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amanda.errors import PluginBrokenError, UsageError

if TYPE_CHECKING:
    from amanda.host import PluginEntry

__all__ = ["expect_graph", "expect_graph_from"]


def expect_graph(graph: object, verb: str) -> None:
    """Raise UsageError unless the argument of `verb` is a graph."""
    from amanda.graph import Graph

    if not isinstance(graph, Graph):
        raise UsageError(
            f"{verb} needs a graph",
            got=type(graph).__name__,
            hint="amanda.load reads a graph from a file or a live object",
        )


def expect_graph_from(graph: object, entry: PluginEntry, doing: str) -> None:
    from amanda.graph import Graph

    if not isinstance(graph, Graph):
        raise PluginBrokenError(
            f"{entry.what} returned no graph from {doing}", got=type(graph).__name__
        )
