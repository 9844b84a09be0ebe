"""Weights, moved to the device once, for all programs of an executable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from amanda.graph import Graph, OutputPort
from amanda.tensors import Tensor
from amanda_jax.preparing import is_weight
from amanda_std.reading import is_constant

if TYPE_CHECKING:
    from amanda_std.execute import Program as Steps

__all__ = ["Held", "Weights"]


class Weights:
    """Arrays on one device, by the tensor that they hold."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self._held: dict[int, tuple[Tensor, Any]] = {}
        self._lock = Lock()

    def moved(self, tensors: Iterable[Tensor]) -> list[Any]:
        """Each of them on the device; those that are not yet there go in one move."""
        import jax

        wanted = list(tensors)
        with self._lock, jax.enable_x64(True):
            new = {id(t): t for t in wanted if id(t) not in self._held}
            arrays = [tensor.numpy() for tensor in new.values()]
            moved = jax.device_put(arrays, self.device)
            for tensor, array in zip(new.values(), moved, strict=True):
                self._held[id(tensor)] = (tensor, array)
            return [self._held[id(tensor)][1] for tensor in wanted]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for _, array in self._held.values())


class Held:
    """The constants of one graph: numbers of the program, and weights on the device."""

    def __init__(
        self,
        graph: Graph,
        steps: Steps,
        weights: Weights,
        on_host: Collection[OutputPort] = (),
    ) -> None:
        ops = [op for op in graph if is_constant(op)]
        tensors = [op.attrs["value"] for op in ops]
        self._fixed = {
            key: None if is_weight(op) and op.output not in on_host else tensor.numpy()
            for key, op, tensor in zip(steps.weights, ops, tensors, strict=True)
        }
        rows = zip(tensors, self._fixed.values(), strict=True)
        self.moved = weights.moved(t for t, fixed in rows if fixed is None)

    def among(self, moved: Sequence[Any]) -> Mapping[Any, Any]:
        """All of them by key, with these as those on the device."""
        rest = iter(moved)
        return {
            key: next(rest) if fixed is None else fixed
            for key, fixed in self._fixed.items()
        }
