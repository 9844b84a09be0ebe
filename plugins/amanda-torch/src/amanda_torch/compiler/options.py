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
    freeze: bool | None
    """Whether parameters are constants of graphs that need no gradient; None: while
    they do not change, of graphs that the backend `torch` runs."""
    others: Mapping[str, Any]
    """The options of that backend, and `fallback`."""

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> CompilerOptions:
        others = dict(given or {})
        backend, freeze = others.pop("backend", None), others.pop("freeze", None)
        if not isinstance(backend, str | None):
            raise UsageError(
                "option 'backend' is the name of a backend of Amanda", got=repr(backend)
            )
        if not isinstance(freeze, bool | None):
            raise UsageError("option 'freeze' is true or false", got=repr(freeze))
        return cls(backend, freeze, others)

    @property
    def runs_on_torch(self) -> bool:
        """Whether PyTorch runs graphs that need gradients."""
        return self.backend is None or self.backend.partition(":")[0] == "torch"

    @property
    def may_freeze(self) -> bool:
        """Whether parameters may be constants of graphs that need no gradient."""
        return self.runs_on_torch if self.freeze is None else self.freeze

    def backends(self, is_frozen: bool) -> Sequence[str]:
        """The backends to try for a graph, in order: see `benchmarks/torch_compile.py`.

        onnxruntime is fast for weights that stay constants, and slow for others."""
        if self.backend is not None:
            return [self.backend]
        keeps = is_frozen and self.freeze is True
        known = host_in_use().names("backends") if keeps else []
        fast = ["onnxruntime"] if "onnxruntime" in known else []
        return [*fast, "torch"]
