"""The options of `torch.compile` for Amanda."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from amanda.errors import UsageError

__all__ = ["CompilerOptions"]


class CompilerOptions(NamedTuple):
    """What `torch.compile(..., options=)` may have."""

    backend: str
    """The backend, as `name` or `name:device`."""
    freeze: bool
    """Whether parameters are constants of graphs that need no gradient."""
    others: Mapping[str, Any]
    """The options of that backend, and `fallback`."""

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> CompilerOptions:
        others = dict(given or {})
        backend, freeze = others.pop("backend", "torch"), others.pop("freeze", False)
        if not isinstance(backend, str):
            raise UsageError(
                "option 'backend' is the name of a backend of Amanda", got=repr(backend)
            )
        if not isinstance(freeze, bool):
            raise UsageError("option 'freeze' is true or false", got=repr(freeze))
        return cls(backend, freeze, others)
