"""A hub backend with kernels of PyTorch for 36 primitives.

A kernel has the signature of its op in `amanda/std/1`: tensors first, then shape
arguments, which are integers in tuples, attributes by name. Composites never arrive
here: the core replaces them by their definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from amanda.errors import BackendError
from amanda.graph import CONSTANT, Graph, Op, OutputPort

__all__ = ["Backend", "Executable"]

SAME_NAME = (
    "abs add cos erf exp greater isnan less log logical_and logical_not "
    "matmul maximum minimum multiply negative sin sqrt subtract tanh where"
)
SUPPORTED: dict[str, Any] = {
    "ceil": False,
    "kernel_layout": "OI*",
    "layout": "NC*",
    "mode": "constant",
}


@cache
def kernels() -> dict[str, Callable[..., Any]]:
    """The kernels by op type."""
    import torch  # here, so that choosing a backend stays quick

    def conv(x: Any, w: Any, b: Any = None, **attrs: Any) -> Any:
        steps = attrs["strides"] or 1, 0, attrs["dilations"] or 1
        x = add_padding(x, attrs["padding"], 0.0)
        return getattr(torch, f"conv{x.ndim - 2}d")(x, w, b, *steps, attrs["groups"])

    def max_pool(x: Any, **attrs: Any) -> Any:
        steps = attrs["strides"] or 1, 0, attrs["dilations"] or 1
        x = add_padding(x, attrs["padding"], -torch.inf)
        return getattr(torch, f"max_pool{x.ndim - 2}d")(x, attrs["window"], *steps)

    def add_padding(x: Any, pairs: Any, value: float) -> Any:
        widths = [n for pair in reversed(pairs or ()) for n in pair]
        return torch.nn.functional.pad(x, widths, value=value)

    def pad(x: Any, pads: Any, value: Any = None, axes: Any = None, **_: Any) -> Any:
        given = dict(zip(every(axes, x.ndim), pads, strict=True))
        pairs = [given.get(axis, (0, 0)) for axis in range(x.ndim)]
        return add_padding(x, pairs, 0 if value is None else value.item())

    def every(axes: Any, rank: int) -> list[int]:
        return [*range(rank)] if axes is None else [axis % rank for axis in axes]

    def slice_(
        x: Any, starts: Any, stops: Any, axes: Any = None, steps: Any = None
    ) -> Any:
        for i, axis in enumerate(range(len(starts)) if axes is None else axes):
            step = 1 if steps is None else steps[i]
            rows = range(x.shape[axis])[starts[i] : stops[i] : step]
            x = x.index_select(axis, torch.tensor(rows, dtype=torch.int64))
        return x

    def reshape(x: Any, shape: Any, copy_zero: bool) -> Any:
        if copy_zero:
            shape = [n or x.shape[i] for i, n in enumerate(shape)]
        return x.reshape(shape)

    def expand_dims(x: Any, axes: Any) -> Any:
        for axis in sorted(every(axes, x.ndim + len(axes))):
            x = x.unsqueeze(axis)
        return x

    def gather(x: Any, indices: Any, axis: Any = 0) -> Any:
        size, axis = x.shape[axis], axis % x.ndim
        found = x.index_select(axis, (indices % size).flatten())
        return found.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])

    return {name: getattr(torch, name) for name in SAME_NAME.split()} | {
        "divide": lambda a, b: torch.div(
            a, b, rounding_mode=None if a.dtype.is_floating_point else "trunc"
        ),
        "equal": torch.eq,
        "sum": lambda x, axes=None, *, keepdims: (
            x if axes == () else x.sum(axes, keepdims, dtype=x.dtype)
        ),
        "max": lambda x, axes=None, *, keepdims: (
            x if axes == () else x.amax(axes or (), keepdims)
        ),
        "reshape": reshape,
        "broadcast_to": lambda x, shape: x.broadcast_to(
            torch.broadcast_shapes(x.shape, shape)
        ),
        "squeeze": lambda x, axes=None: x.squeeze(*() if axes is None else (axes,)),
        "expand_dims": expand_dims,
        "concat": lambda *xs, axis: torch.cat(xs, axis),
        "slice": slice_,
        "pad": pad,
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
                call, inputs = bind_kernel(op, kernels()[str(op.type)])
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
