"""Weights, moved to the device once, for all programs of an executable."""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda_std.reading import is_constant

if TYPE_CHECKING:
    from amanda_std.execute import Program as Steps

__all__ = ["LITERAL", "Held", "Weights", "aligned", "is_weight", "let_go"]

LITERAL: Final = 16
"""Elements up to which a constant is a number in the program, and no weight."""
BATCH: Final = 16 << 20
"""Bytes that are moved at once."""
ALIGNMENT: Final = 64
_LET_GO: Final = getattr(mmap, "MADV_DONTNEED", None)


def is_weight(op: Op) -> bool:
    return is_constant(op) and bool(op.attrs["value"].size > LITERAL)


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
            for batch in _batches(new.values()):
                arrays = [tensor.numpy() for tensor in batch]
                moved = jax.device_put(arrays, self.device)
                for there in moved:
                    there.block_until_ready()
                for tensor, array, there in zip(batch, arrays, moved, strict=True):
                    self._held[id(tensor)] = (tensor, there)
                    if not _is_shared(array, there):
                        let_go(array)
            return [self._held[id(tensor)][1] for tensor in wanted]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for _, array in self._held.values())


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
    if moved.device.platform != "cpu":
        return False
    return bool(moved.unsafe_buffer_pointer() == array.ctypes.data)


def let_go(array: Any) -> None:
    """The pages of a file that an array lies in need not stay in memory.

    Who reads it later finds it as before; so only where nobody can write to it."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    held = base.obj if isinstance(base, memoryview) and base.readonly else None
    if _LET_GO is None or not isinstance(held, mmap.mmap):
        return
    page = mmap.PAGESIZE
    first = array.ctypes.data - np.frombuffer(held, "uint8").ctypes.data
    begin = -(-first // page) * page
    end = (first + array.nbytes) // page * page
    if begin < end:
        with suppress(OSError, ValueError):
            held.madvise(_LET_GO, begin, end - begin)


def aligned(array: Any) -> Any:
    """A row-major copy where devices of the CPU can read it without another one."""
    room = np.empty(array.nbytes + ALIGNMENT, "uint8")
    skip = -room.ctypes.data % ALIGNMENT
    made = room[skip : skip + array.nbytes].view(array.dtype).reshape(array.shape)
    np.copyto(made, array)
    return made


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
