"""Devices by name: `cpu`, `gpu:0`; what is not here is told with the reason."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from amanda.errors import BackendError

__all__ = ["State", "chosen", "states", "usable"]

_MISSING: Final = {
    "gpu": 'no GPU that this jaxlib can use; pip install "jax[cuda13]" brings the '
    "plug-in for NVIDIA's",
    "tpu": 'no TPU that this jaxlib can use; pip install "jax[tpu]" on a TPU host',
}
"""What to do for the platforms that JAX is known for."""


class State(NamedTuple):
    """A device, or a kind of device that is not here."""

    name: str
    state: str
    reason: str = ""

    def __str__(self) -> str:
        return f"jax:{self.name}: {self.state}" + (self.reason and f", {self.reason}")


def usable() -> dict[str, Any]:
    """The devices of this process by name, the default one first."""
    import jax

    found: dict[str, Any] = {}
    for platform in dict.fromkeys([*_platforms(), "cpu"]):
        try:
            devices = jax.local_devices(backend=platform)
        except RuntimeError:
            continue
        alone = platform == "cpu" and len(devices) == 1
        for i, device in enumerate(devices):
            found[platform if alone else f"{platform}:{i}"] = device
    return found


def _platforms() -> list[str]:
    """The platforms that JAX has here, plug-ins of PJRT too, the default one first."""
    import jax
    from jax.extend.backend import backends

    return [jax.default_backend(), *backends()]


def states() -> list[State]:
    """Every device here as usable, and the platforms that are absent, with why."""
    here = usable()
    rows = [
        State(name, "usable", str(getattr(device, "device_kind", "")))
        for name, device in here.items()
    ]
    platforms = {name.partition(":")[0] for name in here}
    return rows + [
        State(name, "absent", why)
        for name, why in _MISSING.items()
        if name not in platforms
    ]


def chosen(name: str | None) -> Any:
    """The device of this name, or the default one."""
    here = usable()
    if name is None:
        return next(iter(here.values()))
    wanted = name.removesuffix(":0") if name not in here else name
    for candidate in (wanted, f"{wanted}:0"):
        if candidate in here:
            return here[candidate]
    platform = name.partition(":")[0]
    raise BackendError(
        f"backend 'jax' has no device {name!r} here",
        expected=f"one of {', '.join(here)}",
        hint=_MISSING.get(platform),
    )
