"""Weights, moved to the device once, for all programs of an executable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda_jax.cpu_tuning.winograd import PAIRS
from amanda_jax.weights.layout import (
    form_along_rows,
    layout_in_tiles,
    lies_in_file,
    turned,
)
from amanda_jax.weights.memory import let_go

if TYPE_CHECKING:
    from amanda_std.backends import StepRunner as Steps

__all__ = ["LITERAL", "Held", "Weights", "is_weight"]

LITERAL: Final = 16
"""Elements up to which a constant is a number in the program, and no weight."""
BATCH: Final = 16 << 20
"""Bytes that are moved at once."""


def is_weight(op: Op) -> bool:
    return op.is_constant and bool(op.attrs["value"].size > LITERAL)


class Weights:
    """Arrays on one device, by the tensor that they hold."""

    def __init__(
        self, device: Any, in_tiles: bool = False, along_rows: bool = False
    ) -> None:
        self.device = device
        self.in_tiles = in_tiles
        """Whether kernels of convolutions may lie as tiles want them: see `lying`."""
        self.along_rows = along_rows
        """Whether these tiles are along rows alone: see `kernels.tiles`."""
        self._turned: dict[tuple[int, str], tuple[Tensor, Tensor]] = {}
        self._held: dict[int, tuple[Tensor, Any]] = {}
        self._waiting: dict[int, Tensor] = {}
        self._lock = Lock()

    def moved(self, tensors: Iterable[Tensor]) -> list[Any]:
        """Each of them on the device; those that are not yet there go in one move."""
        import jax

        wanted = list(tensors)
        with self._lock, jax.enable_x64(True):
            new = {id(t): t for t in wanted if id(t) not in self._held}
            for batch in _batches(new.values()):
                arrays = [tensor.numpy() for tensor in batch]
                moved = self._there(batch, arrays)
                for there in moved:
                    there.block_until_ready()
                for tensor, array, there in zip(batch, arrays, moved, strict=True):
                    self._held[id(tensor)] = (tensor, there)
                    self._waiting.pop(id(tensor), None)
                    if not _is_shared(array, there):
                        let_go(array)
            return [self._held[id(tensor)][1] for tensor in wanted]

    def expected(self, tensors: Iterable[Tensor]) -> None:
        """They are going to be moved: what lies in a file, when they are needed.

        Until then it takes no memory, which XLA has for compiling. The rest moves now,
        so that nobody has to care any more what becomes of it."""
        now = []
        for tensor in tensors:
            if not tensor.is_lazy and not lies_in_file(tensor):
                now.append(tensor)
                continue
            with self._lock:
                if id(tensor) not in self._held:
                    self._waiting[id(tensor)] = tensor
        self.moved(now)

    def form(self, tensor: Tensor) -> Any:
        """What XLA has to know of it to compile."""
        import jax

        with jax.enable_x64(True):
            return jax.ShapeDtypeStruct(tensor.shape, tensor.dtype.numpy)

    def lying(self, op: Op, *, symbolic: bool = False) -> Tensor:
        """A constant as what reads it wants it to lie on the device."""
        tensor: Tensor = op.attrs["value"]
        if not self.in_tiles or not is_weight(op):
            return tensor
        layout = layout_in_tiles(op, symbolic=symbolic)
        if layout is None:
            return tensor
        with self._lock:
            key = id(tensor), layout
            if key not in self._turned:  # in one form, whichever piece reads it
                form = form_along_rows(op) if self.along_rows else PAIRS
                self._turned[key] = tensor, turned(tensor, layout, form)
            return self._turned[key][1]

    def _there(self, tensors: Sequence[Tensor], arrays: Sequence[Any]) -> list[Any]:
        """Arrays on the device; `tensors` are what they are of."""
        import jax

        del tensors
        there: list[Any] = jax.device_put(arrays, self.device)
        return there

    # -- what a mesh does in another way, see `mesh.OnMesh` --------------------------

    settled: Callable[[Sequence[Any]], list[Any]] | None = None
    """What makes arguments of a program such as it takes; None where any will do."""

    def shardings(self, count: int) -> dict[str, Any]:
        """What `jax.jit` is told of where a program runs. It has `count` arguments."""
        from jax.sharding import SingleDeviceSharding

        del count
        place = SingleDeviceSharding(self.device)
        return {"in_shardings": place, "out_shardings": place}

    def put(self, array: Any) -> Any:
        """A value that the host has made."""
        import jax

        with jax.enable_x64(True):  # a copy: the host may go on writing to its own
            return jax.device_put(np.array(array), self.device)

    def read(self, value: Any) -> Any:
        """A value as an array of numpy."""
        return np.asarray(value)

    def near(self, values: Sequence[Any]) -> Sequence[Any]:
        """What the host is to work with."""
        return values

    @property
    def nbytes(self) -> int:
        with self._lock:
            sizes = [array.nbytes for _, array in self._held.values()]
            sizes += [t.size * t.dtype.numpy.itemsize for t in self._waiting.values()]
            return sum(sizes)


def _batches(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """A few at a time: while one is moved, it is held twice."""
    batch: list[Tensor] = []
    for tensor in tensors:
        batch.append(tensor)
        if sum(each.nbytes for each in batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _is_shared(array: Any, moved: Any) -> bool:
    """Whether the device reads the very memory of an array."""
    begin = array.ctypes.data
    return any(
        part.device.platform == "cpu"
        and begin <= part.data.unsafe_buffer_pointer() < begin + array.nbytes
        for part in moved.addressable_shards
    )


class Held:
    """The constants of one graph: numbers of the program, and weights on the device.

    `symbolic`: sizes stay open while it is traced."""

    def __init__(
        self,
        graph: Graph,
        steps: Steps,
        weights: Weights,
        on_host: Collection[OutputPort] = (),
        *,
        symbolic: bool = False,
    ) -> None:
        ops = [op for op in graph if op.is_constant]
        tensors = [
            op.attrs["value"]
            if op.output in on_host
            else weights.lying(op, symbolic=symbolic)
            for op in ops
        ]
        self._fixed = {
            key: None if is_weight(op) and op.output not in on_host else tensor.numpy()
            for key, op, tensor in zip(steps.weights, ops, tensors, strict=True)
        }
        rows = zip(tensors, self._fixed.values(), strict=True)
        self._tensors = [tensor for tensor, fixed in rows if fixed is None]
        self._weights = weights
        weights.expected(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    @cached_property
    def moved(self) -> list[Any]:
        """The weights on the device, where they are from now on."""
        return self._weights.moved(self._tensors)

    @property
    def forms(self) -> list[Any]:
        """What XLA has to know of the weights to compile."""
        return [self._weights.form(tensor) for tensor in self._tensors]

    def among(self, moved: Sequence[Any]) -> Mapping[Any, Any]:
        """All of them by key, with these as those on the device."""
        rest = iter(moved)
        return {
            key: next(rest) if fixed is None else fixed
            for key, fixed in self._fixed.items()
        }
