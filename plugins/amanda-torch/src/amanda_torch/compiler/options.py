"""The options of `torch.compile` for Amanda."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from amanda.errors import UsageError
from amanda.host import host_in_use

__all__ = ["CompilerOptions"]


class CompilerOptions(NamedTuple):
    """What `torch.compile(..., options=)` may have."""

    backend: str | None
    """The backend, as `name` or `name:device`; None: the fastest one."""
    freeze: bool
    """Whether parameters are constants of graphs that need no gradient."""
    others: Mapping[str, Any]
    """The options of that backend, and `fallback`."""

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> CompilerOptions:
        others = dict(given or {})
        backend, freeze = others.pop("backend", None), others.pop("freeze", False)
        if not isinstance(backend, str | None):
            raise UsageError(
                "option 'backend' is the name of a backend of Amanda", got=repr(backend)
            )
        if not isinstance(freeze, bool):
            raise UsageError("option 'freeze' is true or false", got=repr(freeze))
        return cls(backend, freeze, others)

    def backends(self, is_frozen: bool) -> Sequence[str]:
        """The backends to try for a graph, in order: see `benchmarks/torch_compile.py`.

        onnxruntime is fast where weights are constants, and slow where not."""
        if self.backend is not None:
            return [self.backend]
        known = host_in_use().names("backends")
        fast = ["onnxruntime"] if is_frozen and "onnxruntime" in known else []
        return [*fast, "torch"]
