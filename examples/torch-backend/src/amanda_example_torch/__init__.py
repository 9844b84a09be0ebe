"""A hub backend with twenty kernels of PyTorch.

A kernel has the signature of its op in `amanda/std/1`: tensors first, then shape
arguments (integers, or tensors where they are computed), attributes by name. Composites
never arrive here: the core replaces them by their definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from amanda.errors import BackendError
from amanda.graph import CONSTANT, Graph, Op, OutputPort

__all__ = ["Backend", "Executable"]

SAME_NAME = "add subtract multiply divide maximum matmul where exp sqrt tanh erf isnan"
SUPPORTED: dict[str, Any] = {"layout": "NC*", "kernel_layout": "OI*", "ceil": False}


@cache
def kernels() -> dict[str, Callable[..., Any]]:
    """The kernels by op type."""
    import torch  # here, so that choosing a backend stays quick

    def conv(x: Any, w: Any, b: Any = None, **attrs: Any) -> Any:
        steps = attrs["strides"] or 1, 0, attrs["dilations"] or 1
        x = pad(x, attrs["padding"], 0.0)
        return getattr(torch, f"conv{x.ndim - 2}d")(x, w, b, *steps, attrs["groups"])

    def max_pool(x: Any, **attrs: Any) -> Any:
        steps = attrs["strides"] or 1, 0, attrs["dilations"] or 1
        x = pad(x, attrs["padding"], -torch.inf)
        return getattr(torch, f"max_pool{x.ndim - 2}d")(x, attrs["window"], *steps)

    def pad(x: Any, pairs: Any, value: float) -> Any:
        widths = [int(n) for pair in reversed(pairs or ()) for n in pair]
        return torch.nn.functional.pad(x, widths, value=value)

    def gather(x: Any, indices: Any, axis: Any = 0) -> Any:
        size, axis = x.shape[int(axis)], int(axis) % x.ndim
        found = x.index_select(axis, (indices % size).flatten())
        return found.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])

    return {name: getattr(torch, name) for name in SAME_NAME.split()} | {
        "sum": lambda x, axes, keepdims: x.sum(axes, keepdims, dtype=x.dtype),
        "max": lambda x, axes, keepdims: x.amax(axes or (), keepdims),
        "reshape": lambda x, shape, **_: x.reshape([*map(int, shape)]),
        "broadcast_to": lambda x, shape: x.broadcast_to([*map(int, shape)]),
        "transpose": lambda x, perm: x.permute(perm or [*range(x.ndim)][::-1]),
        "gather": gather,
        "conv": conv,
        "max_pool": max_pool,
    }


class Backend:
    name = "example-torch"
    namespace = "amanda/std/1"

    def devices(self) -> Sequence[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Literal[True] | str:
        if op.type not in kernels():
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

        from amanda_std.backends import op_arguments

        slots: dict[OutputPort, int] = {}
        self.weights: dict[int, Any] = {}
        self.steps: list[tuple[Any, list[Any], dict[str, Any], int]] = []
        for value in graph.parameters:
            slots[value] = len(slots)
        for op in graph:
            slots[op.output] = slot = len(slots)
            if op.type == CONSTANT:
                self.weights[slot] = torch.tensor(op.attrs["value"].numpy())
            else:
                args, attrs = op_arguments(op, lambda port: port)
                args = [slots[a] if isinstance(a, OutputPort) else [a] for a in args]
                self.steps.append((kernels()[str(op.type)], args, attrs, slot))
        self.results = [slots[value] for value in graph.results if value is not None]

    def __call__(
        self, feeds: Mapping[str | int, Any], out: Mapping[str | int, Any] | None = None
    ) -> Sequence[Any]:
        """Feeds come checked, in order of inputs. `out` may be ignored."""
        import torch

        del out
        values = dict(enumerate(map(torch.as_tensor, feeds.values()))) | self.weights
        with torch.no_grad():
            for kernel, args, attrs, slot in self.steps:
                given = [values[a] if isinstance(a, int) else a[0] for a in args]
                values[slot] = kernel(*given, **attrs)
        return [values[slot].clone().numpy() for slot in self.results]
