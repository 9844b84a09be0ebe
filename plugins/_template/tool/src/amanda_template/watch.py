"""The tool: values of chosen ops become results, in a graph of any namespace.

watched = watch(graph, "Relu")
results = amanda.run(graph, feeds)
{name: results[name].mean() for name in watched}
"""

from __future__ import annotations

from amanda.graph import Graph

__all__ = ["watch"]


def watch(graph: Graph, op_type: str) -> list[str]:
    """Adds the values of all ops of a type to the results; returns the new names.

    The ops in bodies are left out: they may run any number of times.
    """
    names = []
    taken = {port.name for port in graph.outputs}
    for op in [op for op in graph if op.type == op_type]:
        for port in op.outputs:
            name = f"{op.name or op.type}:{port.index}"
            while name in taken:
                name += "_"
            taken.add(name)
            graph.result(port, name)
            names.append(name)
    return names
