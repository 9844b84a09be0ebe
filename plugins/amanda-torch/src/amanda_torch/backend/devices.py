"""Devices of PyTorch by name: `cpu`, `cuda:0`, `mps`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch

from amanda.errors import BackendError

__all__ = ["DeviceState", "device_states", "find_device", "usable_devices"]

_ABSENT: Final = {
    "cuda": "this PyTorch has no CUDA device; pytorch.org/get-started has the builds "
    "with CUDA",
    "mps": "this PyTorch has no GPU of Apple",
}
"""What to do for the kinds of devices that are not available."""


class DeviceState(NamedTuple):
    """A device, or a kind of device that is not available."""

    name: str
    state: str
    reason: str = ""

    def __str__(self) -> str:
        return f"torch:{self.name}: {self.state}" + (self.reason and f", {self.reason}")


def usable_devices() -> list[str]:
    """The names of the devices, the default one first."""
    found = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return [*found, "cpu"]


def device_states() -> list[DeviceState]:
    """Every device here, and the kinds that are absent, with the reason."""
    here = usable_devices()
    rows = [DeviceState(name, "usable", _description(name)) for name in here]
    kinds = {name.partition(":")[0] for name in here}
    absent = [row for row in _ABSENT.items() if row[0] not in kinds]
    return rows + [DeviceState(name, "absent", why) for name, why in absent]


def _description(name: str) -> str:
    return torch.cuda.get_device_name(name) if name.startswith("cuda") else ""


def find_device(name: str | None) -> Any:
    """The device of this name, or the default one; `gpu` is another name of `cuda`."""
    here = usable_devices()
    if name is None:
        return torch.device(here[0])
    kind, _, index = name.partition(":")
    kind = "cuda" if kind == "gpu" else kind
    for candidate in (f"{kind}:{index}" if index else kind, f"{kind}:{index or 0}"):
        if candidate in here:
            return torch.device(candidate)
    raise BackendError(
        f"backend 'torch' has no device {name!r} here",
        expected=f"one of {', '.join(here)}",
        hint=_ABSENT.get(kind, "name one that is here"),
    )
