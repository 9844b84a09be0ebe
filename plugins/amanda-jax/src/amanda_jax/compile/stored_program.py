"""Compiled programs as bytes, without pickle: what PJRT serializes, and a header.

The bytes are native code of XLA: they may be loaded only where their origin is known,
which `disk_cache` ensures by a keyed digest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import jax
import numpy as np

__all__ = ["load_program", "serialize_program"]


_CONSTANTS = attrgetter("_params.const_args")  # of JAX


def serialize_program(compiled: Any) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a `jax.stages.Compiled`, and the facts that loading it needs.

    ValueError for a program that calls back into this process."""
    unloaded = compiled._executable._unloaded_executable
    parts = ("host_callbacks", "keepalive", "ordered_effects", "unordered_effects")
    if any(getattr(unloaded, part) for part in parts):
        raise ValueError("a program with callbacks cannot be stored")
    if unloaded.mut is not None or _CONSTANTS(compiled):
        raise ValueError("a program with references or constants of its own")
    executable = compiled.runtime_executable()
    content = executable.client.serialize_executable(executable)
    return bytes(content), {"kept": sorted(unloaded.kept_var_idx)}


def load_program(
    content: bytes,
    facts: Mapping[str, Any],
    device: Any,
    shapes: Sequence[tuple[Sequence[int], str]],
    weights: int,
) -> Callable[..., Sequence[Any]]:
    """A function of arrays that runs a serialized program on a device.

    `shapes` has the shape and dtype of each; the first `weights` are on the device."""
    from jax.extend.backend import get_backend
    from jaxlib import _jax

    kept = [int(place) for place in facts["kept"]]
    if not all(0 <= place < len(shapes) for place in kept):
        raise ValueError("the program has other arguments")
    executable = get_backend(device.platform).deserialize_executable(
        content, executable_devices=_jax.DeviceList((device,))
    )
    execute = executable.execute_sharded
    forms = [(tuple(shape), np.dtype(dtype)) for shape, dtype in shapes[weights:]]
    devices = {device}

    def call(*args: Any) -> list[Any]:
        feeds = list(args[weights:])
        if not all(map(is_array, feeds)) or [*map(_FORM, feeds)] != forms:
            raise TypeError("the program is for arrays of other shapes or types")
        for i, value in enumerate(feeds):
            if not isinstance(value, jax.Array) or value.devices() != devices:
                feeds[i] = jax.device_put(value, device)
        values = (*args[:weights], *feeds)
        used = [values[place] for place in kept]
        parts = execute(used).disassemble_into_single_device_arrays()
        return [part for [part] in parts]

    return call


_FORM = attrgetter("shape", "dtype")


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | jax.Array)
