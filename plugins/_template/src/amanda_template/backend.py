"""The backend: it says which ops it takes, and compiles a graph of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from amanda.errors import BackendError
from amanda.graph import CONSTANT, Graph, Op, OutputPort

NAMESPACE = "amanda_template/arithmetic/1"

# One row for each op type: the function of numpy that computes it.
KERNELS = {"add": "add", "multiply": "multiply", "negate": "negative"}


class Backend:
    name = "template"
    namespace = NAMESPACE

    def devices(self) -> Sequence[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Literal[True] | str:
        if op.type not in KERNELS:
            return f"there is no kernel for {op.type}"
        if None in op.inputs or op.control_inputs:
            return "inputs that are left out, and control edges, are not supported"
        return True

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        if device not in (None, *self.devices()):
            raise BackendError(
                f"backend {self.name!r} has no device {device!r}",
                expected=f"one of {', '.join(self.devices())}",
            )
        if options:
            raise BackendError(
                f"backend {self.name!r} knows no option {min(options)!r}"
            )
        return Executable(graph)


class Executable:
    """The graph as a list of steps over numbered places, made once."""

    def __init__(self, graph: Graph) -> None:
        import numpy as np  # here, so that choosing a backend stays quick

        place: dict[OutputPort, int] = {}
        place.update((value, i) for i, value in enumerate(graph.parameters))
        self.weights: list[tuple[int, Any]] = []
        self.steps: list[tuple[Callable[..., Any], list[int], int]] = []
        for op in graph:
            inputs = [place[value] for value in op.inputs if value is not None]
            at = place[op.output] = len(place)
            if op.type == CONSTANT:
                self.weights.append((at, op.attrs["value"].numpy()))
            else:
                self.steps.append((getattr(np, KERNELS[str(op.type)]), inputs, at))
        self.size = len(place)
        self.results = [place[value] for value in graph.results if value is not None]

    def __call__(
        self, feeds: Mapping[str | int, Any], out: Mapping[str | int, Any] | None = None
    ) -> Sequence[Any]:
        """Feeds come checked, in the order of the inputs; results go in their order."""
        del out  # arrays to write to: an offer that need not be taken
        values: list[Any] = [*feeds.values(), *[None] * (self.size - len(feeds))]
        for at, weight in self.weights:
            values[at] = weight
        for function, inputs, at in self.steps:
            values[at] = function(*(values[i] for i in inputs))
        return [values[i] for i in self.results]
