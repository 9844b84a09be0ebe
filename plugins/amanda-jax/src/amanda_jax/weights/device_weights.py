"""Weights on the device: transferred once, for all programs of an executable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from amanda.files import MappedFile
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda_jax.cpu_tuning.steps import CPU_ONLY, enabled_steps
from amanda_jax.weights.layout import is_in_mapped_file
from amanda_jax.weights.memory import release_pages

if TYPE_CHECKING:
    from amanda_std.backends import StepRunner as StepProgram

__all__ = [
    "LITERAL",
    "DeviceTensor",
    "DeviceWeights",
    "ProgramConstants",
    "is_weight",
]

LITERAL: Final = 16
"""Elements up to which a constant is a number in the program, and no weight."""
BATCH: Final = 16 << 20
"""Bytes that are transferred at once."""


def is_weight(op: Op) -> bool:
    """Whether an op is a constant that is fed to programs, not a number in them."""
    return op.is_constant and bool(op.attrs["value"].size > LITERAL)


class DeviceTensor(NamedTuple):
    """A tensor in the layout of a device, and how kernels are given it."""

    tensor: Tensor
    wrap: Callable[[Any], Any] | None = None
    """What kernels are given for the array, if not the array itself."""


class DeviceWeights:
    """Arrays on one device, by the tensor that they are a copy of."""

    def __init__(self, device: Any, without: Collection[str] = CPU_ONLY) -> None:
        self.device = device
        self._layout_steps = [
            step for step in enabled_steps(without) if step.device_layout is not None
        ]
        self._relaid: dict[tuple[int, str], tuple[Tensor, Tensor]] = {}
        self._arrays: dict[int, tuple[Tensor, Any]] = {}
        self._pending: dict[int, Tensor] = {}
        self.mapped_files: set[MappedFile] = set()
        """Mapped files whose memory the device reads in place."""
        self._lock = Lock()

    def transfer(self, tensors: Iterable[Tensor]) -> list[Any]:
        """Each tensor as an array on the device; new ones are transferred together."""
        import jax

        wanted = list(tensors)
        with self._lock, jax.enable_x64(True):
            new = {id(t): t for t in wanted if id(t) not in self._arrays}
            for batch in _batches(new.values()):
                arrays = [tensor.numpy() for tensor in batch]
                moved = self._transfer_batch(batch, arrays)
                for copy in moved:
                    copy.block_until_ready()
                for tensor, array, copy in zip(batch, arrays, moved, strict=True):
                    self._arrays[id(tensor)] = (tensor, copy)
                    self._pending.pop(id(tensor), None)
                    if not _is_shared(array, copy):
                        release_pages(array)
                    elif (file := MappedFile.of(array)) is not None:
                        self.mapped_files.add(file)
            return [self._arrays[id(tensor)][1] for tensor in wanted]

    def announce(self, tensors: Iterable[Tensor]) -> None:
        """Announce weights: those in a file are transferred when they are needed,
        others now.

        Until then they take no memory, which XLA needs to compile."""
        now = []
        for tensor in tensors:
            if not tensor.is_lazy and not is_in_mapped_file(tensor):
                now.append(tensor)
                continue
            with self._lock:
                if id(tensor) not in self._arrays:
                    self._pending[id(tensor)] = tensor
        self.transfer(now)

    def abstract_value(self, tensor: Tensor) -> Any:
        """The abstract value of a weight, which is all that compiling needs."""
        import jax

        with jax.enable_x64(True):
            return jax.ShapeDtypeStruct(tensor.shape, tensor.dtype.numpy)

    @property
    def has_layouts(self) -> bool:
        """Whether weights may have another layout on the device."""
        return bool(self._layout_steps)

    def device_tensor(
        self, op: Op, *, symbolic: bool = False, portable: bool = False
    ) -> DeviceTensor:
        """The tensor of a constant in the device layout that its readers need.

        `portable`: a layout that programs have on every machine."""
        tensor: Tensor = op.attrs["value"]
        if not self._layout_steps or not is_weight(op):
            return DeviceTensor(tensor)
        found = (
            step.device_layout(op, symbolic=symbolic)
            for step in self._layout_steps
            if step.device_layout is not None and (step.is_portable or not portable)
        )
        layout = next((each for each in found if each is not None), None)
        if layout is None:
            return DeviceTensor(tensor)
        with self._lock:
            key = id(tensor), layout.key
            if key not in self._relaid:  # in one form, whichever piece reads it
                self._relaid[key] = tensor, layout.convert()
            return DeviceTensor(self._relaid[key][1], layout.wrap)

    def _transfer_batch(
        self, tensors: Sequence[Tensor], arrays: Sequence[Any]
    ) -> list[Any]:
        """Transfer arrays; `tensors` are what they are copies of."""
        import jax

        del tensors
        copies: list[Any] = jax.device_put(arrays, self.device)
        return copies

    # -- overridden for a mesh, see `mesh.arrays.MeshWeights` -------------------------

    prepare_arguments: Callable[[Sequence[Any]], list[Any]] | None = None
    """Converts arguments to what a program accepts; None where it accepts all."""

    def shardings(self, count: int) -> dict[str, Any]:
        """Arguments of `jax.jit` for where a program with `count` arguments runs."""
        from jax.sharding import SingleDeviceSharding

        del count
        place = SingleDeviceSharding(self.device)
        return {"in_shardings": place, "out_shardings": place}

    def put(self, array: Any) -> Any:
        """Transfer a value that Python computed."""
        import jax

        with jax.enable_x64(True):  # a copy: the original may be written to later
            return jax.device_put(np.array(array), self.device)

    def read(self, value: Any) -> Any:
        """A value as a NumPy array."""
        return np.asarray(value)

    def to_local(self, values: Sequence[Any]) -> Sequence[Any]:
        """Values as Python ops read them."""
        return values

    @property
    def nbytes(self) -> int:
        with self._lock:
            sizes = [array.nbytes for _, array in self._arrays.values()]
            sizes += [t.size * t.dtype.numpy.itemsize for t in self._pending.values()]
            return sum(sizes)


def _batches(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """A few tensors at a time: while one is transferred, it is in memory twice."""
    batch: list[Tensor] = []
    for tensor in tensors:
        batch.append(tensor)
        if sum(each.nbytes for each in batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _is_shared(array: Any, moved: Any) -> bool:
    """Whether the device reads the memory of the array itself."""
    begin = array.ctypes.data
    return any(
        part.device.platform == "cpu"
        and begin <= part.data.unsafe_buffer_pointer() < begin + array.nbytes
        for part in moved.addressable_shards
    )


class ProgramConstants:
    """The constants of one graph: numbers of its program, and weights on the device.

    `symbolic`: dims stay symbolic while it is traced. `portable`: it is traced for
    other machines."""

    def __init__(
        self,
        graph: Graph,
        steps: StepProgram,
        weights: DeviceWeights,
        static: Collection[OutputPort] = (),
        *,
        symbolic: bool = False,
        portable: bool = False,
    ) -> None:
        ops = [op for op in graph if op.is_constant]
        found = [
            DeviceTensor(op.attrs["value"])
            if op.output in static
            else weights.device_tensor(op, symbolic=symbolic, portable=portable)
            for op in ops
        ]
        tensors = [each.tensor for each in found]
        self._wraps = {
            key: each.wrap for key, each in zip(steps.weights, found, strict=True)
        }
        self._literals = {
            key: None if is_weight(op) and op.output not in static else tensor.numpy()
            for key, op, tensor in zip(steps.weights, ops, tensors, strict=True)
        }
        files = map(MappedFile.of, self._literals.values())
        weights.mapped_files.update(file for file in files if file is not None)
        rows = zip(tensors, self._literals.values(), strict=True)
        self._tensors = [tensor for tensor, literal in rows if literal is None]
        self._weights = weights
        weights.announce(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    @cached_property
    def arrays(self) -> list[Any]:
        """The weights on the device, where they stay from now on."""
        return self._weights.transfer(self._tensors)

    @property
    def abstract_values(self) -> list[Any]:
        """The abstract values of the weights, which is all that compiling needs."""
        return [self._weights.abstract_value(tensor) for tensor in self._tensors]

    def with_arrays(self, arrays: Sequence[Any]) -> Mapping[Any, Any]:
        """All constants by key, with these arrays as the weights."""
        remaining = iter(arrays)
        values: dict[Any, Any] = {}
        for key, literal in self._literals.items():
            wrap = self._wraps[key]
            value = next(remaining) if literal is None else literal
            values[key] = value if wrap is None else wrap(value)
        return values
