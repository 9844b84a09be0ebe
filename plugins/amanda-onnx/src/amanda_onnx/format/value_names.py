"""Names of values in a file: those that the ports have, as far as these can be.

A name is unique in its graph, and none that a graph around has given already. What has
no name, or one that is taken, gets a new one that is used nowhere in the model. Inputs
and outputs of a graph keep theirs before anything inside.
"""

from __future__ import annotations

from collections.abc import Callable

from amanda.graph import Graph, OutputPort

__all__ = ["ModelNames", "NameScope"]


class ModelNames:
    """The names of one model. `renamed` has every value that is called otherwise."""

    def __init__(self, root: Graph) -> None:
        self._root = root
        self.renamed: dict[OutputPort, str] = {}
        self._used: set[str] | None = None
        self._counts: dict[str, int] = {}

    def of(self, value: OutputPort) -> str:
        return self.renamed.get(value) or value.name or ""

    def fresh(self, stem: str) -> str:
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
    """The names given in one graph so far, on top of those in the graphs around."""

    def __init__(
        self, names: ModelNames, graph: Graph, around: NameScope | None
    ) -> None:
        self.names = names
        self.around = around
        self.graph = graph
        self.taken: set[str] = set()
        self.reserved: dict[str, OutputPort] = {}

    def free(self, word: str, port: OutputPort) -> bool:
        """May this value have this name?"""
        holder = self.reserved.get(word)
        if holder is not None and holder is not port:
            return False
        space: NameScope | None = self
        while space is not None:
            if word in space.taken:
                return False
            space = space.around
        return True

    def reserve(self) -> None:
        """The results' names are for them: nothing else inside gets one."""
        for outside, value in zip(self.graph.outputs, self.graph.results, strict=True):
            word = outside.name or (value.name if value is not None else None)
            if value is not None and value.graph is self.graph and word:
                self.reserved.setdefault(word, value)
        chosen: dict[OutputPort, str] = {}
        for word, value in self.reserved.items():
            if value.name == word or value not in chosen:
                chosen[value] = word
        for value, word in chosen.items():
            if value.name != word and value.op is not self.graph:
                self.names.renamed[value] = word

    def give(self, port: OutputPort, stem: Callable[[], str]) -> str:
        """The name of a value that is made here."""
        word = self.names.renamed.get(port) or port.name
        if not word or not self.free(word, port):
            word = self.names.fresh(stem())
        if word != port.name:
            self.names.renamed[port] = word
        self.taken.add(word)
        return word
