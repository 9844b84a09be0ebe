"""Tensors that share memory: a storage with its value, and views of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from amanda.graph import Graph, Op, OutputPort
from amanda_torch.mapping.functionalization.views import apply_view, write_view

__all__ = ["Storages"]


@dataclass(eq=False)
class Storage:
    """Memory that one op allocates: what it holds now."""

    origin: OutputPort
    value: OutputPort
    version: int = 0


@dataclass(eq=False)
class View:
    """A tensor: a storage, seen through view ops."""

    storage: Storage
    steps: tuple[tuple[Op, int], ...]
    """View ops, and the outputs of them that lead here."""
    value: OutputPort
    version: int = 0


@dataclass(eq=False)
class Storages:
    """The storages of one graph, and the tensors that are views of them."""

    graph: Graph
    views: dict[OutputPort, View] = field(default_factory=dict)

    def view_of(self, port: OutputPort) -> View:
        """The view that a value is; of a storage of its own if it is no view."""
        found = self.views.get(port)
        if found is None:
            found = self.views[port] = View(Storage(port, port), (), port)
        return found

    def add_view(self, port: OutputPort, op: Op, index: int, base: OutputPort) -> None:
        """Record that an output of a view op shares the memory of a value."""
        view = self.view_of(base)
        steps = (*view.steps, (op, index))
        self.views[port] = View(view.storage, steps, port, view.version)

    def add_view_of_memory(
        self, port: OutputPort, base: OutputPort, steps: Sequence[Op]
    ) -> None:
        """Record that ops see the storage of a value, however the value sees it."""
        storage = self.view_of(base).storage
        path = tuple((op, 0) for op in steps)
        self.views[port] = View(storage, path, port, storage.version)

    def current(self, port: OutputPort, before: Op | None) -> OutputPort:
        """The value of a tensor now; views of a base that was written are repeated."""
        view = self.views.get(port)
        if view is None or view.version == view.storage.version:
            return port if view is None else view.value
        value = view.storage.value
        for op, index in view.steps:
            value = apply_view(self.graph, before, op, index, value)
        view.value, view.version = value, view.storage.version
        return value

    def write(self, port: OutputPort, new: OutputPort, before: Op | None) -> None:
        """Record that a tensor has a new value, which its base gets, too."""
        view = self.view_of(port)
        bases = [view.storage.value]
        for op, index in view.steps[:-1]:
            bases.append(apply_view(self.graph, before, op, index, bases[-1]))
        value = new
        for (op, index), base in zip(
            reversed(view.steps), reversed(bases[: len(view.steps)]), strict=True
        ):
            value = write_view(self.graph, before, op, index, base, value)
            value.type = base.type or value.type
        view.storage.value = value
        view.storage.version += 1
        view.value, view.version = new, view.storage.version

    def written_storages(self) -> list[Storage]:
        """The storages whose values have changed, each once."""
        found = dict.fromkeys(view.storage for view in self.views.values())
        return [storage for storage in found if storage.version]
