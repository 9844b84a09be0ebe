"""Functions of a graph, by name."""

from __future__ import annotations

from amanda.errors import NamespaceError
from amanda.graph import Graph
from amanda.tensors import FunctionRef


def find_function(graph: Graph | None, name: str | FunctionRef) -> Graph:
    """The function of this name in the root of a graph."""
    found = {} if graph is None else graph.root.functions
    key = name.name if isinstance(name, FunctionRef) else name
    if key not in found:
        raise NamespaceError(
            f"there is no function {key!r}",
            expected=f"one of {', '.join(found)}"
            if found
            else "functions in the graph",
            hint="graph.add_function(name, body)",
        )
    return found[key]
