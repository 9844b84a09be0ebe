"""Weights, moved to the device once, for all programs of an executable."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any

from amanda.tensors import Tensor


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
