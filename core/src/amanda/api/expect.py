"""Checks that a plug-in returned a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amanda.errors import PluginBrokenError

if TYPE_CHECKING:
    from amanda.host import PluginEntry

__all__ = ["expect_graph_from"]


def expect_graph_from(graph: object, entry: PluginEntry, doing: str) -> None:
    from amanda.graph import Graph

    if not isinstance(graph, Graph):
        raise PluginBrokenError(
            f"{entry.what} returned no graph from {doing}", got=type(graph).__name__
        )
