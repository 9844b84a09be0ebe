"""Arrays on a mesh of devices: put there in parts, and brought back.

Each device gets only its own part of what is divided. How the parts of a program work
together is left to XLA's partitioner, which goes by where its arguments lie.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import prod
from threading import RLock
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from amanda.errors import BackendError, UsageError
from amanda.tensors import Tensor
from amanda_jax.mesh.plan import Placed, Plan
from amanda_jax.mesh.specs import Spec, axes_of, misfit, shares
from amanda_jax.weights.device_weights import Weights

__all__ = ["TURN", "OnMesh", "mesh_of"]

TURN: Final = RLock()
"""Programs that talk to each other must begin in one order on every device."""
_LINE: Final = 256
"""Bytes of what a process tells the others of one feed."""


def mesh_of(given: Any, platform: str | None) -> Mesh:
    """The mesh that is meant, over the devices of all processes. None: all along
    an axis `data`."""
    if isinstance(given, Mesh):
        free = (AxisType.Auto,) * len(given.axis_names)
        return Mesh(given.devices, given.axis_names, axis_types=free)
    here = _devices(platform)
    sizes = {"data": len(here)} if given is None else axes_of(given)
    count = prod(sizes.values())
    if len(here) < count:
        raise _too_few(sizes, count, here)
    mesh = jax.make_mesh(
        tuple(sizes.values()),
        tuple(sizes),
        (AxisType.Auto,) * len(sizes),
        devices=here[:count],
    )
    if jax.process_index() not in {d.process_index for d in mesh.devices.flat}:
        raise BackendError(
            f"the mesh {_text(sizes)} has no device of process {jax.process_index()}",
            expected=f"one over the {len(here)} devices of all processes",
            hint="take a larger mesh, or start fewer processes",
        )
    return mesh


def _devices(platform: str | None) -> list[Any]:
    from amanda_jax.devices import chosen

    if platform is None:
        return jax.devices()
    if ":" in platform:
        raise BackendError(
            "a mesh is made of all devices of a platform",
            expected=f"backend 'jax:{platform.partition(':')[0]}'",
            got=f"jax:{platform}",
        )
    return jax.devices(chosen(platform).platform)


def _too_few(sizes: Mapping[str, int], count: int, here: Sequence[Any]) -> BackendError:
    kinds = sorted({device.platform for device in here})
    one = len(here) == 1
    return BackendError(
        f"the mesh {_text(sizes)} has more devices than there are",
        expected=f"{count} devices",
        got=f"{len(here)} of {' and '.join(kinds)}: {', '.join(map(str, here[:8]))}",
        hint=f"take a smaller mesh, start more processes, or split the CPU into "
        f"virtual devices before JAX is first used: "
        f"XLA_FLAGS=--xla_force_host_platform_device_count={count} in the environment, "
        f"or jax.config.update('jax_num_cpu_devices', {count})"
        if "cpu" in kinds
        else f"take a smaller mesh, or start a process on each machine; 'jax:cpu' with "
        f"XLA_FLAGS=--xla_force_host_platform_device_count={count} is {count} virtual "
        f"devices{'' if one else ', to try it'}",
    )


def _text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{axis}={size}" for axis, size in sizes.items())


class Forms(NamedTuple):
    """Arrays of the last call: their shape, element type, bytes, and how divided."""

    given: Sequence[Any] = ()
    made: Sequence[Any] = ()

    @classmethod
    def of(cls, *sides: Sequence[Any]) -> Forms:
        return cls(*([_form(value) for value in side] for side in sides))


def _form(value: Any) -> Any:
    if not isinstance(value, jax.Array):
        return None
    place = value.sharding
    spec = tuple(place.spec) if isinstance(place, NamedSharding) else ()
    return value.shape, value.dtype, value.nbytes, spec


class OnMesh(Weights):
    """Weights on a mesh, as a plan tells; feeds go there too, and results come back."""

    def __init__(self, mesh: Mesh, plan: Plan, *, parts: bool = False) -> None:
        process = jax.process_index()
        local = [d for d in mesh.devices.flat if d.process_index == process]
        super().__init__(local[0])  # what is not divided, the host works with there
        self.mesh = mesh
        self.plan = plan
        self.forms = Forms()
        self._whole = NamedSharding(mesh, PartitionSpec())
        self._alone = len(local) == mesh.devices.size
        self._parts = parts and not self._alone

    def __str__(self) -> str:
        kinds = " and ".join(sorted({d.platform for d in self.mesh.devices.flat}))
        count = self.mesh.devices.size
        return f"a mesh {_text(self.plan.sizes)} of {count} devices ({kinds})"

    def sharding(self, spec: Spec) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec(*spec))

    def aside(self) -> AbstractContextManager[None]:
        """Around calls: what talks to other processes may say so."""
        talks = not self._alone and self.device.platform == "cpu"
        return _aside() if talks else nullcontext()

    # -- there ---------------------------------------------------------------------

    def _there(self, tensors: Sequence[Tensor], arrays: Sequence[Any]) -> list[Any]:
        """A device is given its own part of each, and no more."""
        places = [self.sharding(self.plan.weight(tensor).spec) for tensor in tensors]
        return [
            jax.make_array_from_callback(array.shape, place, array.__getitem__)
            for array, place in zip(arrays, places, strict=True)
        ]

    def shardings(self, count: int) -> dict[str, Any]:
        """Arguments tell where they are; where there are none, it is said here."""
        return {} if count else {"out_shardings": self._whole}

    def fed(self, values: Sequence[Any]) -> list[Any]:
        """Feeds on the mesh. Memory that others may write to is copied."""
        with jax.enable_x64(True):
            if self._parts:
                self._expect_alike(values)
            rows = zip(values, self.plan.inputs, strict=True)
            given = [self._fed(value, placed) for value, placed in rows]
        for placed, shape in self.plan.made_of(getattr(x, "shape", ()) for x in given):
            self._expect_fit(placed, shape)  # before anything runs, and changes state
        return given

    def _fed(self, value: Any, placed: Placed) -> Any:
        if value is None or isinstance(value, list | tuple):
            return jax.tree.map(self.put, value)
        place = self.sharding(placed.spec)
        if isinstance(value, jax.Array):
            if value.is_fully_addressable and not self._alone:
                value = np.asarray(value)
            else:
                self._expect_fit(placed, value.shape)
                return jax.device_put(value, place)
        if self._parts and any(map(shares, placed.spec)):
            return self._joined(value, place, placed)
        self._expect_fit(placed, value.shape)
        return jax.make_array_from_callback(
            value.shape, place, lambda index: np.array(value[index])
        )

    def _joined(self, value: Any, place: NamedSharding, placed: Placed) -> Any:
        """An array of which every process was fed its part."""
        try:
            return jax.make_array_from_process_local_data(place, np.array(value))
        except ValueError as error:
            raise self._unfit(
                placed, value.shape, f"as a part, {' '.join(str(error).split())}"
            ) from error

    def _expect_alike(self, values: Sequence[Any]) -> None:
        """Parts are of one form. Processes ask each other in every call: one that went
        on with a form that it knows would leave others waiting whose form is new."""
        rows = [
            (placed, _told(value))
            for value, placed in zip(values, self.plan.inputs, strict=True)
            if any(map(shares, placed.spec))
        ]
        if not rows:  # in every process, since they all have this plan
            return
        everywhere = self._gathered([told for _, told in rows])
        for i, (placed, _) in enumerate(rows):
            told = {process: lines[i] for process, lines in everywhere.items()}
            if len(set(told.values())) > 1:
                raise UsageError(
                    f"the parts of {placed} differ in shape",
                    expected="the same shape in every process",
                    got=", ".join(f"{what} in process {n}" for n, what in told.items()),
                    hint="feed parts of equal size, or the whole to all with "
                    "fed='same'",
                )

    def _gathered(self, lines: Sequence[str]) -> dict[int, list[str]]:
        """Lines that each process of the mesh tells, as many as the others do."""
        own = np.zeros((1, len(lines), _LINE), "uint8")
        for row, line in zip(own[0], lines, strict=True):
            text = np.frombuffer(line.encode()[:_LINE], "uint8")
            row[: len(text)] = text
        devices = [*self.mesh.devices.flat]
        place = self.sharding((self.mesh.axis_names,))
        told = jax.make_array_from_callback(
            (len(devices), *own.shape[1:]), place, lambda _: own
        )
        return {
            device.process_index: [bytes(row).rstrip(b"\0").decode() for row in rows]
            for device, rows in zip(devices, self.read(told), strict=True)
        }

    def _expect_fit(self, placed: Placed, shape: Sequence[int]) -> None:
        wrong = misfit(placed.spec, shape, self.plan.sizes)
        if wrong:
            raise self._unfit(placed, shape, wrong)

    def _unfit(self, placed: Placed, shape: Sequence[int], wrong: str) -> UsageError:
        is_fed = placed.kind == "input"
        what = "a multiple" if is_fed else "what makes it a multiple"
        return UsageError(
            f"{placed} cannot be divided over the mesh {_text(self.plan.sizes)}",
            where=f"shardings: {placed.spec}",
            got=f"shape {[*shape]}: {wrong}",
            hint=f"feed {what}, or leave this axis whole with None in `shardings`",
        )

    def put(self, array: Any) -> Any:
        """A value that the host has made, on every device of the mesh."""
        array = np.array(array)
        with jax.enable_x64(True):
            return jax.make_array_from_callback(
                array.shape, self._whole, lambda index: np.asarray(array[index])
            )

    def settled(self, args: Sequence[Any]) -> list[Any]:
        """Arguments of a program: those that are on no mesh go to this one."""
        return [jax.tree.map(self._settled, value) for value in args]

    def _settled(self, value: Any) -> Any:
        if isinstance(value, jax.Array) and isinstance(value.sharding, NamedSharding):
            return value
        return self.put(value)

    # -- and back ------------------------------------------------------------------

    def read(self, value: Any) -> Any:
        """An array of numpy, in every process the same."""
        if not isinstance(value, jax.Array) or value.is_fully_addressable:
            return np.asarray(value)
        if value.is_fully_replicated:
            return np.asarray(value.addressable_data(0))
        with jax.enable_x64(True):  # every process has asked for it, in one order
            gathered = jax.device_put(value, self._whole)
        return np.asarray(gathered.block_until_ready().addressable_data(0))

    def near(self, values: Sequence[Any]) -> Sequence[Any]:
        """What the host is to work with: parts of other processes are fetched."""
        if self._alone:
            return values
        return [jax.tree.map(self._near, value) for value in values]

    def _near(self, value: Any) -> Any:
        return self.read(value) if isinstance(value, jax.Array) else value

    def delivered(self, results: Sequence[Any], *, as_numpy: bool) -> list[Any]:
        """Results as they were asked for. What data decided is looked at only here."""
        rows = [*zip(results, self.plan.results, strict=True)]
        for result, told in rows:
            if told is not None:
                for each in jax.tree.leaves(result):
                    self._expect_fit(told, np.shape(each))
        if as_numpy:
            return [jax.tree.map(self.read, result) for result in results]
        with jax.enable_x64(True):
            made = [
                r if told is None else jax.device_put(r, self.sharding(told.spec))
                for r, told in rows
            ]
        if self.device.platform == "cpu":  # where what waits for others holds threads
            jax.block_until_ready(made)
        return made


def _told(value: Any) -> str:
    """What processes have to agree on, of a feed that is divided."""
    if not hasattr(value, "shape"):
        return "no tensor"
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        return "an array of several processes"
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


@contextmanager
def _aside() -> Iterator[None]:
    """What Gloo says on standard output, where others read results, goes to the other.

    It is not of Python, so that only the descriptor can be turned."""
    try:
        sys.stdout.flush()
        kept = os.dup(1)
    except (AttributeError, OSError, ValueError):  # there is none
        yield
        return
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
