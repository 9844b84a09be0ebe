"""A hub backend with kernels of PyTorch for 36 primitives.

Composites never arrive here: the core replaces them by their definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from amanda.errors import BackendError
from amanda.graph import CONSTANT, Graph, Op, OutputPort

__all__ = ["Backend", "Executable"]

SUPPORTED: dict[str, Any] = {"layout": "NC*", "kernel_layout": "OI*", "ceil": False,
                             "mode": "constant"}  # fmt: skip


class Backend:
    name = "example-torch"
    namespace = "amanda/std/1"

    def devices(self) -> Sequence[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Literal[True] | str:
        from amanda_example_torch.kernels import KERNELS  # imports torch

        if op.type not in KERNELS:
            return f"there is no kernel for {op.type}"
        for name, value in SUPPORTED.items():
            if op.attrs.get(name, value) != value:
                return f"{name}={op.attrs[name]!r}; only {value!r} is supported"
        if isinstance(op.attrs.get("padding"), str):
            return "padding by name is not supported"
        return True

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        if device not in (None, "cpu") or options:
            raise BackendError(f"{self.name} has one device, cpu, and no options")
        return Executable(graph)


class Executable:
    """Steps over numbered slots, prepared once."""

    def __init__(self, graph: Graph) -> None:
        import torch

        from amanda_example_torch.kernels import KERNELS
        from amanda_std.backends import bind_kernel

        slots: dict[OutputPort, int] = {}
        self.weights: dict[int, Any] = {}
        self.steps: list[tuple[Callable[..., Any], list[int], int]] = []
        for value in graph.parameters:
            slots[value] = len(slots)
        for op in graph:
            slots[op.output] = slot = len(slots)
            if op.type == CONSTANT:
                self.weights[slot] = torch.tensor(op.attrs["value"].numpy())
            else:
                call, inputs = bind_kernel(op, KERNELS[str(op.type)])
                self.steps.append((call, [slots[value] for value in inputs], slot))
        self.results = [slots[value] for value in graph.results if value is not None]

    def __call__(
        self, feeds: Mapping[str | int, Any], out: Mapping[str | int, Any] | None = None
    ) -> Sequence[Any]:
        """Feeds come checked, in order of inputs. `out` may be ignored."""
        import torch

        del out
        values = dict(enumerate(map(torch.as_tensor, feeds.values()))) | self.weights
        with torch.no_grad():
            for call, inputs, slot in self.steps:
                values[slot] = call(*(values[i] for i in inputs))
        return [values[slot].clone().numpy() for slot in self.results]
