"""Devices by name: `cpu`, `gpu:0`; what is not here is told with the reason."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from amanda.errors import BackendError

__all__ = ["State", "chosen", "states", "usable"]

_MISSING: Final = {
    "gpu": 'no GPU that this jaxlib can use; pip install "jax[cuda13]" brings the '
    "plug-in for NVIDIA's",
    "tpu": 'no TPU that this jaxlib can use; pip install "jax[tpu]" on a TPU host',
}
"""What to do for the platforms that JAX is known for."""

_ALSO_CALLED: Final = {
    "cuda": _MISSING["gpu"],
    "rocm": 'no GPU of AMD that this jaxlib can use; pip install "jax[rocm7-local]" '
    "brings the plug-in for them",
}
"""Names of JAX for GPUs by their makers, and what to do where these are not here."""

PLATFORMS: Final = "JAX_PLATFORMS"
"""The variable that tells JAX to have these platforms only."""


class State(NamedTuple):
    """A device, or a kind of device that is not here."""

    name: str
    state: str
    reason: str = ""

    def __str__(self) -> str:
        return f"jax:{self.name}: {self.state}" + (self.reason and f", {self.reason}")


def usable() -> dict[str, Any]:
    """The devices of this process by name, the default one first."""
    found: dict[str, Any] = {}
    for platform in dict.fromkeys([*_platforms(), "cpu"]):
        devices = _devices(platform)
        for i, device in enumerate(devices):
            if any(device is other for other in found.values()):
                continue  # JAX has two names for it, `gpu` and `cuda`
            alone = device.platform == "cpu" and len(devices) == 1
            name = device.platform
            found[name if alone else f"{name}:{i}"] = device
    return found


def _platforms() -> list[str]:
    """The platforms that JAX has here, plug-ins of PJRT too, the default one first."""
    import jax
    from jax.extend.backend import backends

    try:
        return [jax.default_backend(), *backends()]
    except RuntimeError as error:
        told = os.environ.get(PLATFORMS)
        raise BackendError(
            "JAX cannot begin here",
            got=" ".join(str(error).split()),
            hint=f"{PLATFORMS} is {told!r} in the environment: unset it, or name "
            "platforms that are here"
            if told
            else "`python -c 'import jax; jax.devices()'` tells more",
        ) from error


def _devices(platform: str) -> list[Any]:
    """Those of this process; none where JAX does not have the platform."""
    import jax

    try:
        return list(jax.local_devices(backend=platform))
    except RuntimeError:
        return []


def states() -> list[State]:
    """Every device here as usable, and the platforms that are absent, with why."""
    here = usable()
    rows = [
        State(name, "usable", str(getattr(device, "device_kind", "")))
        for name, device in here.items()
    ]
    platforms = {name.partition(":")[0] for name in here}
    return rows + [
        State(name, "absent", _why_absent(name, why))
        for name, why in _MISSING.items()
        if name not in platforms
    ]


def _why_absent(platform: str, why: str) -> str:
    """Why a platform is not here: maybe because JAX is told not to look for it."""
    told = os.environ.get(PLATFORMS, "")
    known = [name.strip() for name in told.split(",") if name.strip()]
    if known and platform not in known:
        left_out = f"{PLATFORMS}={told} in the environment leaves it out: unset it"
        return f"{left_out}; if it is still not here: {why}"
    return why


def chosen(name: str | None) -> Any:
    """The device of this name, or the default one."""
    here = usable()
    if name is None:
        return next(iter(here.values()))
    wanted = name.removesuffix(":0") if name not in here else name
    for candidate in (wanted, f"{wanted}:0"):
        if candidate in here:
            return here[candidate]
    platform, _, index = name.partition(":")
    if platform in _ALSO_CALLED and (index or "0").isdecimal():
        named = _devices(platform)[int(index or 0) :]
        if named:
            return named[0]
    raise BackendError(
        f"backend 'jax' has no device {name!r} here",
        expected=f"one of {', '.join(here)}",
        hint=_what_to_do(platform, list(here)),
    )


def _what_to_do(platform: str, here: list[str]) -> str:
    known = {**_MISSING, **_ALSO_CALLED}.get(platform)
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
    near = get_close_matches(platform.lower(), [*platforms, *_MISSING], n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return (
        f"JAX has platforms by plug-ins of PJRT: install the one for {platform!r}, or "
        "name a device that is here"
    )
