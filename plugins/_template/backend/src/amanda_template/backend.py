"""The backend: kernels for ops of the hub, and the compiler of graphs of them.

Amanda converts a model to the hub, infers its types, and lowers ops that `takes`
refuses to the ops of their definitions: softmax to exp, sum and divide, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from amanda.errors import BackendError
from amanda.graph import CONSTANT, Graph, Op, OutputPort

# The ops that have a kernel. `amanda ops std --tag primitive` lists those that need one
# here to run, `amanda ops std sum` what the arguments of an op are.
SAME_NAME = (
    "add", "divide", "exp", "matmul", "maximum", "multiply", "negative", "sqrt",
    "subtract", "tanh",
)  # fmt: skip
KERNELS = (*SAME_NAME, "max", "reshape", "sum", "transpose")


@cache
def kernels() -> dict[str, Callable[..., Any]]:
    """A function for each op: tensors are arrays, shape arguments tuples of integers,
    omitted ones None; attributes are given by name, with their defaults."""
    import numpy as np  # here, so that choosing the backend is fast

    def reshape(x: Any, shape: Any, *, copy_zero: bool) -> Any:
        if copy_zero:
            shape = [size or x.shape[i] for i, size in enumerate(shape)]
        return np.reshape(x, shape)

    return {name: getattr(np, name) for name in SAME_NAME} | {
        "max": lambda x, axes=None, *, keepdims: np.max(x, axes, keepdims=keepdims),
        "sum": lambda x, axes=None, *, keepdims: np.sum(
            x, axes, dtype=x.dtype, keepdims=keepdims
        ),
        "reshape": reshape,
        "transpose": lambda x, *, perm: np.transpose(x, perm),
    }


class Backend:
    name = "template"
    namespace = "amanda/std/1"

    def devices(self) -> Sequence[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Literal[True] | str:
        """True, or the reason why the op cannot run here."""
        if op.type not in KERNELS:
            return f"there is no kernel for {op.type}"
        if op.control_inputs:
            return "control edges are not supported"
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
        from amanda_std.backends import bind_kernel

        slots: dict[OutputPort | None, int] = {}
        slots.update((value, i) for i, value in enumerate(graph.parameters))
        self.weights: list[tuple[int, Any]] = []
        self.steps: list[tuple[Callable[..., Any], list[int], int]] = []
        for op in graph:
            slots[op.output] = slot = len(slots)
            if op.type == CONSTANT:
                self.weights.append((slot, op.attrs["value"].numpy()))
            else:
                call, inputs = bind_kernel(op, kernels()[str(op.type)])
                self.steps.append((call, [slots[value] for value in inputs], slot))
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
        for call, inputs, slot in self.steps:
            values[slot] = call(*(values[i] for i in inputs))
        return [values[i] for i in self.results]
