"""What an executable can be told when it is compiled."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from amanda.errors import BackendError

_ALLOWED: Final = {
    "precision": ("highest", "high", "default"),
    "results": ("numpy", "jax"),
}


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
    """How many programs are kept that were made for values of one feed or another."""

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
        return self
