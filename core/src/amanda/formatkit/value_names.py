"""Unique names for the values of a model that is written, with nested scopes.

A value keeps the name of its port where that name is free in its graph and in the
graphs around it; otherwise it gets one that no value of the model has. Inputs and
results of a graph come before what is inside.
"""

from __future__ import annotations

from collections.abc import Callable

from amanda.graph import Graph, OutputPort

__all__ = ["ModelNames", "NameScope"]


class ModelNames:
    """Names in one model. `renamed` has every value whose name is not its port's."""

    def __init__(self, root: Graph) -> None:
        self._root = root
        self.renamed: dict[OutputPort, str] = {}
        self._used: set[str] | None = None
        self._counts: dict[str, int] = {}

    def name_of(self, value: OutputPort) -> str:
        return self.renamed.get(value) or value.name or ""

    def new_name(self, stem: str) -> str:
        """A name that no value of the model has."""
        used = self._used
        if used is None:
            used = self._used = _all_names(self._root)
        count = self._counts.get(stem, 0)
        name = stem if count == 0 else f"{stem}_{count}"
        while name in used:
            count += 1
            name = f"{stem}_{count}"
        self._counts[stem] = count + 1
        used.add(name)
        return name


def _all_names(root: Graph) -> set[str]:
    used: set[str] = set()
    for graph in root.graphs():
        used.update(port.name for port in graph.parameters if port.name)
        used.update(port.name for port in graph.outputs if port.name)
        for op in graph:
            used.update(port.name for port in op.outputs if port.name)
    return used


class NameScope:
    """The names assigned in one graph so far, on top of those of the graphs around."""

    def __init__(
        self, names: ModelNames, graph: Graph, outer: NameScope | None
    ) -> None:
        self.names = names
        self.outer = outer
        self.graph = graph
        self.taken: set[str] = set()
        self.reserved: dict[str, OutputPort] = {}

    def is_free(self, name: str, port: OutputPort) -> bool:
        """Whether this value may have this name."""
        holder = self.reserved.get(name)
        if holder is not None and holder is not port:
            return False
        scope: NameScope | None = self
        while scope is not None:
            if name in scope.taken:
                return False
            scope = scope.outer
        return True

    def reserve_results(self) -> None:
        """Reserve the names of the graph's results for the values they return."""
        for result, value in zip(self.graph.outputs, self.graph.results, strict=True):
            name = result.name or (value.name if value is not None else None)
            if value is not None and value.graph is self.graph and name:
                self.reserved.setdefault(name, value)
        chosen: dict[OutputPort, str] = {}
        for name, value in self.reserved.items():
            if value.name == name or value not in chosen:
                chosen[value] = name
        for value, name in chosen.items():
            if value.name != name and value.op is not self.graph:
                self.names.renamed[value] = name

    def assign(self, port: OutputPort, stem: Callable[[], str]) -> str:
        """The name of a value that is defined here; `stem` begins a new one."""
        name = self.names.renamed.get(port) or port.name
        if not name or not self.is_free(name, port):
            name = self.names.new_name(stem())
        if name != port.name:
            self.names.renamed[port] = name
        self.taken.add(name)
        return name
