"""Devices by name, such as `cpu` or `gpu:0`, and why others are not available."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from amanda.errors import BackendError

__all__ = ["DeviceState", "find_device", "device_states", "usable_devices"]

_MISSING: Final = {
    "gpu": 'no GPU that this jaxlib can use; pip install "jax[cuda13]" brings the '
    "plug-in for NVIDIA's",
    "tpu": 'no TPU that this jaxlib can use; pip install "jax[tpu]" on a TPU host',
}
"""What to do for the platforms that JAX documents, where they are not available."""

_VENDOR_NAMES: Final = {
    "cuda": _MISSING["gpu"],
    "rocm": 'no GPU of AMD that this jaxlib can use; pip install "jax[rocm7-local]" '
    "brings the plug-in for them",
}
"""JAX's names for GPUs by vendor, and what to do where they are not available."""

PLATFORMS: Final = "JAX_PLATFORMS"
"""The variable that restricts JAX to some platforms."""


class DeviceState(NamedTuple):
    """A device, or a kind of device that is not available."""

    name: str
    state: str
    reason: str = ""

    def __str__(self) -> str:
        return f"jax:{self.name}: {self.state}" + (self.reason and f", {self.reason}")


def usable_devices() -> dict[str, Any]:
    """The devices of this process by name, the default one first."""
    devices_by_name: dict[str, Any] = {}
    for platform in dict.fromkeys([*_platforms(), "cpu"]):
        devices = _devices(platform)
        for i, device in enumerate(devices):
            if any(device is other for other in devices_by_name.values()):
                continue  # JAX lists it under two names, `gpu` and `cuda`
            is_only = device.platform == "cpu" and len(devices) == 1
            name = device.platform
            devices_by_name[name if is_only else f"{name}:{i}"] = device
    return devices_by_name


def _platforms() -> list[str]:
    """The platforms of JAX, PJRT plug-ins included, the default one first."""
    import jax
    from jax.extend.backend import backends

    try:
        return [jax.default_backend(), *backends()]
    except RuntimeError as error:
        configured = os.environ.get(PLATFORMS)
        raise BackendError(
            "JAX cannot start here",
            got=" ".join(str(error).split()),
            hint=f"{PLATFORMS} is {configured!r} in the environment: unset it, or name "
            "platforms that are here"
            if configured
            else "`python -c 'import jax; jax.devices()'` shows more",
        ) from error


def _devices(platform: str) -> list[Any]:
    """The devices of this process; none where JAX does not have the platform."""
    import jax

    try:
        return list(jax.local_devices(backend=platform))
    except RuntimeError:
        return []


def device_states() -> list[DeviceState]:
    """Every device here, and the platforms that are absent, with the reason."""
    here = usable_devices()
    rows = [
        DeviceState(name, "usable", str(getattr(device, "device_kind", "")))
        for name, device in here.items()
    ]
    platforms = {name.partition(":")[0] for name in here}
    return rows + [
        DeviceState(name, "absent", _why_absent(name, why))
        for name, why in _MISSING.items()
        if name not in platforms
    ]


def _why_absent(platform: str, why: str) -> str:
    """Why a platform is absent: maybe because JAX is configured not to look for it."""
    configured = os.environ.get(PLATFORMS, "")
    known = [name.strip() for name in configured.split(",") if name.strip()]
    if known and platform not in known:
        left_out = (
            f"{PLATFORMS}={configured} in the environment leaves it out: unset it"
        )
        return f"{left_out}; if it is still not here: {why}"
    return why


def find_device(name: str | None) -> Any:
    """The device of this name, or the default one."""
    here = usable_devices()
    if name is None:
        return next(iter(here.values()))
    wanted = name.removesuffix(":0") if name not in here else name
    for candidate in (wanted, f"{wanted}:0"):
        if candidate in here:
            return here[candidate]
    platform, _, index = name.partition(":")
    if platform in _VENDOR_NAMES and (index or "0").isdecimal():
        named = _devices(platform)[int(index or 0) :]
        if named:
            return named[0]
    raise BackendError(
        f"backend 'jax' has no device {name!r} here",
        expected=f"one of {', '.join(here)}",
        hint=_hint(platform, list(here)),
    )


def _hint(platform: str, here: list[str]) -> str:
    known = {**_MISSING, **_VENDOR_NAMES}.get(platform)
    platforms = {name.partition(":")[0] for name in here}
    if known is not None and platform not in platforms:
        return _why_absent(platform, known)
    if platform == "cpu":
        return (
            "name one that is here; XLA_FLAGS=--xla_force_host_platform_device_count=8 "
            "splits the CPU into eight, before JAX is first used"
        )
    if platform in platforms:
        return "name one that is here"
    if platform.isdecimal():
        return "a number alone names no platform: write it before, with a colon"
    similar = get_close_matches(platform.lower(), [*platforms, *_MISSING], n=1)
    if similar:
        return f"did you mean {similar[0]!r}?"
    return (
        f"JAX has platforms by plug-ins of PJRT: install the one for {platform!r}, or "
        "name a device that is here"
    )
