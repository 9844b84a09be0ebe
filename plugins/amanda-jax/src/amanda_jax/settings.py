"""What an executable can be told when it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from amanda.errors import BackendError

_ALLOWED: Final = {
    "precision": ("highest", "high", "default"),
    "results": ("numpy", "jax"),
}

STEPS: Final = {
    "algebra": "the same in fewer ops; what is constant or computed twice, once",
    "norms": "norms and factors of channels put into the weights before them",
    "layout": "convolutions with channels behind, on the CPU; their kernels as well",
    "pointwise": "convolutions with kernels of one element as products of matrices",
    "weights": "large weights with uneven rows turned, on the CPU",
    "blocks": "what is repeated compiled once, and called once for each layer",
}
"""What is done for speed before XLA sees a graph; `without` leaves some out."""


class Settings(NamedTuple):
    """The options of `amanda.compile(graph, "jax", ...)`.

    >>> Settings(results="jax").checked().precision
    'highest'
    """

    precision: str = "highest"
    """Of products and convolutions. Others are faster on some devices, and rounder."""
    results: str = "numpy"
    """What a call returns: arrays of numpy, or those of JAX, which may still be on
    their way where such are fed."""
    programs: int = 32
    """How many programs are kept that were made for shapes or values that were fed."""
    without: tuple[str, ...] = ()
    """Steps towards speed that are left out: see `STEPS`. A text of one or more, with
    commas, will do."""
    xla: Mapping[str, Any] | str = ""
    """XLA's own switches for this executable alone: a mapping, or
    `name=value, name=value`. See the README for those that were measured."""
    deterministic: bool = False
    """The same bits for the same feeds, also where XLA knows a faster way."""
    donate: tuple[str, ...] = ()
    """Inputs whose arrays of JAX may be written over, and are gone after a call."""
    cache: str | None = None
    """A folder where JAX keeps what it compiles, for the next process."""
    observe: Callable[[str, Any], object] | None = None
    """Called with the label and the value of every probe."""
    callbacks: Mapping[str, Callable[..., Any]] | None = None
    """Functions that `host_callback` may call, by name."""

    def checked(self) -> Settings:
        given: dict[str, Any] = self._asdict()
        for key, allowed in _ALLOWED.items():
            if given[key] not in allowed:
                raise BackendError(
                    f"the option {key!r} of backend 'jax' cannot be {given[key]!r}",
                    expected=f"one of {', '.join(allowed)}",
                )
        if type(self.programs) is not int or self.programs < 1:
            raise BackendError(
                "the option 'programs' of backend 'jax' is a number of programs",
                expected="1 or more",
                got=self.programs,
            )
        told = _names(self.without)
        for name in told:
            if name not in STEPS:
                raise BackendError(
                    f"backend 'jax' takes no step {name!r} that could be left out",
                    expected=f"some of {', '.join(STEPS)}",
                )
        return self._replace(
            without=told, donate=_names(self.donate), xla=_switches(self.xla)
        )

    @property
    def switches(self) -> dict[str, Any]:
        """What XLA is told for this executable alone."""
        fixed = {"xla_gpu_deterministic_ops": True} if self.deterministic else {}
        return {**fixed, **_switches(self.xla)}


def _names(given: tuple[str, ...] | str) -> tuple[str, ...]:
    """Names, told one by one or as a text with commas."""
    return tuple(given.replace(",", " ").split() if isinstance(given, str) else given)


def _switches(given: Mapping[str, Any] | str) -> dict[str, Any]:
    """XLA's switches by name; texts that say a number or a truth value as these."""
    if not isinstance(given, str):
        return dict(given)
    pairs = [pair.partition("=") for pair in given.split(",") if pair.strip()]
    for name, equals, value in pairs:
        if not (name.strip() and equals and value.strip()):
            raise BackendError(
                "the option 'xla' of backend 'jax' cannot be read",
                expected="name=value, name=value",
                got=given,
            )
    return {name.strip().lstrip("-"): _value(v.strip()) for name, _, v in pairs}


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.lstrip("-").isdigit() else text
