"""Optional methods of namespaces: see `amanda.frontend.FrontendNamespace`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amanda.errors import NamespaceError

if TYPE_CHECKING:
    from amanda.graph import Graph
    from amanda.host import Host

__all__ = ["find_capability"]


def find_capability(graph: Graph, name: str, host: Host) -> Any:
    """A method of the namespace of a graph, or None where there is none."""
    if graph.namespace is None:
        return None
    try:
        space = host.namespace(graph.namespace, assume=True)
    except NamespaceError:
        return None
    return getattr(space, name, None)
