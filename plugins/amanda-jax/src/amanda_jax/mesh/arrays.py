"""Arrays on a mesh of devices: sharded when they get there, and collected afterwards.

Each device receives only its own part of a sharded array. How devices exchange data in
a program is left to XLA's partitioner, which follows the sharding of its arguments."""

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
from amanda_jax.mesh.plan import PortSharding, ShardingPlan
from amanda_jax.mesh.specs import (
    Spec,
    mesh_axes_of,
    parse_mesh_axes,
    why_not_divisible,
)
from amanda_jax.weights.device_weights import DeviceWeights

__all__ = ["MESH_LOCK", "ArrayInfo", "MeshWeights", "array_infos", "create_mesh"]

MESH_LOCK: Final = RLock()
"""Programs that exchange data must start in one order on every device."""
_LINE_BYTES: Final = 256
"""Bytes that a process sends to the others for each feed."""


def create_mesh(feeds: Any, platform: str | None) -> Mesh:
    """The mesh for the option `mesh`; for None, all devices along an axis `data`."""
    if isinstance(feeds, Mesh):
        automatic = (AxisType.Auto,) * len(feeds.axis_names)
        return Mesh(feeds.devices, feeds.axis_names, axis_types=automatic)
    available = _devices(platform)
    sizes = {"data": len(available)} if feeds is None else parse_mesh_axes(feeds)
    count = prod(sizes.values())
    if len(available) < count:
        raise _too_few(sizes, count, available)
    mesh = jax.make_mesh(
        tuple(sizes.values()),
        tuple(sizes),
        (AxisType.Auto,) * len(sizes),
        devices=available[:count],
    )
    if jax.process_index() not in {d.process_index for d in mesh.devices.flat}:
        raise BackendError(
            f"the mesh {_text(sizes)} has no device of process {jax.process_index()}",
            expected=f"one over the {len(available)} devices of all processes",
            hint="take a larger mesh, or start fewer processes",
        )
    return mesh


def _devices(platform: str | None) -> list[Any]:
    from amanda_jax.devices import find_device

    if platform is None:
        return jax.devices()
    if ":" in platform:
        raise BackendError(
            "a mesh consists of all devices of a platform",
            expected=f"backend 'jax:{platform.partition(':')[0]}'",
            got=f"jax:{platform}",
        )
    return jax.devices(find_device(platform).platform)


def _too_few(
    sizes: Mapping[str, int], count: int, available: Sequence[Any]
) -> BackendError:
    kinds = sorted({device.platform for device in available})
    one = len(available) == 1
    names = ", ".join(map(str, available[:8]))
    return BackendError(
        f"the mesh {_text(sizes)} has more devices than there are",
        expected=f"{count} devices",
        got=f"{len(available)} of {' and '.join(kinds)}: {names}",
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


class ArrayInfo(NamedTuple):
    """Shape, dtype, bytes and sharding of an array."""

    shape: Sequence[Any]
    dtype: Any
    nbytes: int | None
    """None where the size is not known."""
    spec: Spec = ()


def array_infos(values: Sequence[Any]) -> list[ArrayInfo | None]:
    """What is known of each array of JAX; None for other values."""
    return [_array_info(value) for value in values]


def _array_info(value: Any) -> ArrayInfo | None:
    if not isinstance(value, jax.Array):
        return None
    own = value.sharding
    spec = tuple(own.spec) if isinstance(own, NamedSharding) else ()
    return ArrayInfo(value.shape, value.dtype, value.nbytes, spec)


class MeshWeights(DeviceWeights):
    """Weights on a mesh, sharded by a plan; also shards feeds, and collects results."""

    def __init__(self, mesh: Mesh, plan: ShardingPlan, *, parts: bool = False) -> None:
        process = jax.process_index()
        local = [d for d in mesh.devices.flat if d.process_index == process]
        super().__init__(local[0])  # Python works with whole arrays there
        self.mesh = mesh
        self.plan = plan
        self.last_call: tuple[Sequence[ArrayInfo | None], ...] = ((), ())
        """The feeds and the results of the last call."""
        self._replicated = NamedSharding(mesh, PartitionSpec())
        self._is_only_process = len(local) == mesh.devices.size
        self._fed_parts = parts and not self._is_only_process

    def __str__(self) -> str:
        kinds = " and ".join(sorted({d.platform for d in self.mesh.devices.flat}))
        count = self.mesh.devices.size
        return f"a mesh {_text(self.plan.sizes)} of {count} devices ({kinds})"

    def sharding(self, spec: Spec) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec(*spec))

    def redirect_messages(self) -> AbstractContextManager[None]:
        """A context for calls, with messages of other libraries on standard error."""
        exchanges = not self._is_only_process and self.device.platform == "cpu"
        return _redirect_stdout() if exchanges else nullcontext()

    # -- to the mesh ---------------------------------------------------------------

    def _transfer_batch(
        self, tensors: Sequence[Tensor], arrays: Sequence[Any]
    ) -> list[Any]:
        """A device is given its own part of each, and no more."""
        shardings = [self.sharding(self.plan.weight(tensor).spec) for tensor in tensors]
        return [
            jax.make_array_from_callback(array.shape, sharding, array.__getitem__)
            for array, sharding in zip(arrays, shardings, strict=True)
        ]

    def shardings(self, count: int) -> dict[str, Any]:
        """Arguments have shardings of their own; without any, results are whole."""
        return {} if count else {"out_shardings": self._replicated}

    def shard_feeds(self, values: Sequence[Any]) -> list[Any]:
        """Shard the feeds. Memory that the caller may write to is copied."""
        with jax.enable_x64(True):
            if self._fed_parts:
                self._expect_equal_parts(values)
            rows = zip(values, self.plan.inputs, strict=True)
            feeds = [self._shard_feed(value, port) for value, port in rows]
        for port, shape in self.plan.result_shapes(
            getattr(x, "shape", ()) for x in feeds
        ):
            self._expect_divisible(
                port, shape
            )  # before anything runs and changes state
        return feeds

    def _shard_feed(self, value: Any, port: PortSharding) -> Any:
        if value is None or isinstance(value, list | tuple):
            return jax.tree.map(self.put, value)
        sharding = self.sharding(port.spec)
        if isinstance(value, jax.Array):
            if value.is_fully_addressable and not self._is_only_process:
                value = np.asarray(value)
            else:
                self._expect_divisible(port, value.shape)
                return jax.device_put(value, sharding)
        if self._fed_parts and any(map(mesh_axes_of, port.spec)):
            return self._join_parts(value, sharding, port)
        self._expect_divisible(port, value.shape)
        return jax.make_array_from_callback(
            value.shape, sharding, lambda index: np.array(value[index])
        )

    def _join_parts(
        self, value: Any, sharding: NamedSharding, port: PortSharding
    ) -> Any:
        """An array of which every process is fed its part."""
        try:
            return jax.make_array_from_process_local_data(sharding, np.array(value))
        except ValueError as error:
            raise self._not_divisible_error(
                port, value.shape, f"as a part, {' '.join(str(error).split())}"
            ) from error

    def _expect_equal_parts(self, values: Sequence[Any]) -> None:
        """Check that parts have one shape and type in all processes. Processes compare
        them in every call: one that skipped this for a known shape would leave those
        waiting for which it is new."""
        rows = [
            (port, _describe_feed(value))
            for value, port in zip(values, self.plan.inputs, strict=True)
            if any(map(mesh_axes_of, port.spec))
        ]
        if not rows:  # in every process, since all have the same plan
            return
        everywhere = self._gather_lines([line for _, line in rows])
        for i, (port, _) in enumerate(rows):
            by_process = {process: lines[i] for process, lines in everywhere.items()}
            if len(set(by_process.values())) > 1:
                raise UsageError(
                    f"the parts of {port} differ in shape",
                    expected="the same shape in every process",
                    got=", ".join(
                        f"{what} in process {n}" for n, what in by_process.items()
                    ),
                    hint="feed parts of equal size, or the whole to all with "
                    "fed='same'",
                )

    def _gather_lines(self, lines: Sequence[str]) -> dict[int, list[str]]:
        """The lines that each process of the mesh sends, as many as the others do."""
        own = np.zeros((1, len(lines), _LINE_BYTES), "uint8")
        for row, line in zip(own[0], lines, strict=True):
            text = np.frombuffer(line.encode()[:_LINE_BYTES], "uint8")
            row[: len(text)] = text
        devices = [*self.mesh.devices.flat]
        sharding = self.sharding((self.mesh.axis_names,))
        gathered = jax.make_array_from_callback(
            (len(devices), *own.shape[1:]), sharding, lambda _: own
        )
        return {
            device.process_index: [bytes(row).rstrip(b"\0").decode() for row in rows]
            for device, rows in zip(devices, self.read(gathered), strict=True)
        }

    def _expect_divisible(self, port: PortSharding, shape: Sequence[int]) -> None:
        why = why_not_divisible(port.spec, shape, self.plan.sizes)
        if why:
            raise self._not_divisible_error(port, shape, why)

    def _not_divisible_error(
        self, port: PortSharding, shape: Sequence[int], why: str
    ) -> UsageError:
        is_fed = port.kind == "input"
        what = "a multiple" if is_fed else "what makes it a multiple"
        return UsageError(
            f"{port} cannot be sharded over the mesh {_text(self.plan.sizes)}",
            where=f"shardings: {port.spec}",
            got=f"shape {[*shape]}: {why}",
            hint=f"feed {what}, or leave this axis whole with None in `shardings`",
        )

    def put(self, array: Any) -> Any:
        """Transfer a value that Python computed to every device of the mesh."""
        array = np.array(array)
        with jax.enable_x64(True):
            return jax.make_array_from_callback(
                array.shape, self._replicated, lambda index: np.asarray(array[index])
            )

    def prepare_arguments(self, args: Sequence[Any]) -> list[Any]:
        """Arguments of a program: those that are on no mesh are put on this one."""
        return [jax.tree.map(self._on_mesh, value) for value in args]

    def _on_mesh(self, value: Any) -> Any:
        if isinstance(value, jax.Array) and isinstance(value.sharding, NamedSharding):
            return value
        return self.put(value)

    # -- from the mesh -------------------------------------------------------------

    def read(self, value: Any) -> Any:
        """A NumPy array, the same in every process."""
        if not isinstance(value, jax.Array) or value.is_fully_addressable:
            return np.asarray(value)
        if value.is_fully_replicated:
            return np.asarray(value.addressable_data(0))
        with jax.enable_x64(True):  # every process does this, in the same order
            gathered = jax.device_put(value, self._replicated)
        return np.asarray(gathered.block_until_ready().addressable_data(0))

    def to_local(self, values: Sequence[Any]) -> Sequence[Any]:
        """Values as Python ops read them: parts on other processes are fetched."""
        if self._is_only_process:
            return values
        return [jax.tree.map(self._read_arrays, value) for value in values]

    def _read_arrays(self, value: Any) -> Any:
        return self.read(value) if isinstance(value, jax.Array) else value

    def collect_results(self, results: Sequence[Any], *, as_numpy: bool) -> list[Any]:
        """Results as specified. Sizes that depend on data are checked only here."""
        rows = [*zip(results, self.plan.results, strict=True)]
        for result, port in rows:
            if port is not None:
                for each in jax.tree.leaves(result):
                    self._expect_divisible(port, np.shape(each))
        if as_numpy:
            return [jax.tree.map(self.read, result) for result in results]
        with jax.enable_x64(True):
            collected = [
                r if port is None else jax.device_put(r, self.sharding(port.spec))
                for r, port in rows
            ]
        if self.device.platform == "cpu":  # where waiting programs block threads
            jax.block_until_ready(collected)
        return collected


def _describe_feed(value: Any) -> str:
    """What processes have to agree on for a sharded feed."""
    if not hasattr(value, "shape"):
        return "no tensor"
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        return "an array of several processes"
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


@contextmanager
def _redirect_stdout() -> Iterator[None]:
    """Redirect what Gloo prints to standard output, where results may be, to standard
    error.

    It is not printed by Python, so that the file descriptor has to be redirected."""
    try:
        sys.stdout.flush()
        stdout = os.dup(1)
    except (AttributeError, OSError, ValueError):  # there is none
        yield
        return
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
