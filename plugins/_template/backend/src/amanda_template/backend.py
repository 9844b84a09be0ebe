"""The backend: kernels for ops of the hub, and the compiler of graphs of them.

Amanda converts a model to the hub, infers its types, and lowers ops that `takes`
refuses to the ops of their definitions: softmax to exp, sum and divide, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from amanda.errors import BackendError
from amanda.graph import CONSTANT, Graph, Op, OutputPort

# One row for each op: the function of numpy that computes it. `amanda ops std` lists
# the ops with their arguments.
KERNELS = {
    "add": "add",
    "divide": "divide",
    "exp": "exp",
    "matmul": "matmul",
    "max": "max",
    "maximum": "maximum",
    "multiply": "multiply",
    "negative": "negative",
    "sqrt": "sqrt",
    "subtract": "subtract",
    "sum": "sum",
    "tanh": "tanh",
    "transpose": "transpose",
}
NAMES = {"axes": "axis", "perm": "axes"}  # attributes that numpy names otherwise
ATTRIBUTES = {"axis", "axes", "keepdims"}  # those that kernels support


class Backend:
    name = "template"
    namespace = "amanda/std/1"

    def devices(self) -> Sequence[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Literal[True] | str:
        """True, or the reason why the op cannot run here."""
        if op.type not in KERNELS:
            return f"there is no kernel for {op.type}"
        if None in op.inputs or op.control_inputs:
            return "omitted inputs and control edges are not supported"
        unknown = {NAMES.get(name, name) for name in op.attrs} - ATTRIBUTES
        if unknown:
            return f"the kernel of {op.type} has no {min(unknown)}"
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
            raise BackendError(f"backend {self.name!r} has no option {min(options)!r}")
        return Executable(graph)


class Executable:
    """The graph as a list of steps over numbered slots, built once."""

    def __init__(self, graph: Graph) -> None:
        slots: dict[OutputPort | None, int] = {}
        slots.update((value, i) for i, value in enumerate(graph.parameters))
        self.weights: list[tuple[int, Any]] = []
        self.steps: list[tuple[Callable[..., Any], list[int], int]] = []
        for op in graph:
            inputs = [slots[value] for value in op.inputs]
            slots[op.output] = slot = len(slots)
            if op.type == CONSTANT:
                self.weights.append((slot, op.attrs["value"].numpy()))
            else:
                self.steps.append((kernel(op), inputs, slot))
        self.size = len(slots)
        self.results = [slots[value] for value in graph.results]

    def __call__(
        self, feeds: Mapping[str | int, Any], out: Mapping[str | int, Any] | None = None
    ) -> Sequence[Any]:
        """Feeds are checked and in the order of the inputs; so are the results."""
        del out  # arrays for the results, which a backend may ignore
        values: list[Any] = [*feeds.values(), *[None] * (self.size - len(feeds))]
        for slot, weight in self.weights:
            values[slot] = weight
        for run, inputs, slot in self.steps:
            values[slot] = run(*(values[i] for i in inputs))
        return [values[i] for i in self.results]


def kernel(op: Op) -> Callable[..., Any]:
    """The function that computes an op, with its attributes."""
    import numpy as np  # here, so that choosing the backend is fast

    attrs = {NAMES.get(name, name): _hashable(v) for name, v in op.attrs.items()}
    return partial(getattr(np, KERNELS[str(op.type)]), **attrs)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
