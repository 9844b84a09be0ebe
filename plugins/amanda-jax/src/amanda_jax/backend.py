"""The backend: what it takes, on which devices, and what it can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from amanda.errors import BackendError
from amanda.graph import Graph, Op
from amanda.types import TensorType

if TYPE_CHECKING:
    from amanda_jax.devices import State
    from amanda_jax.executable import Executable

__all__ = ["JaxBackend"]

DECLINED: Final = {
    "nonzero": "the shape of its result depends on data, which XLA cannot compile",
}
"""Ops that are not taken, with the reason."""

_LACKING: Final = ("string", "bytes", "quantized")
"""Kinds of element types that XLA has not."""


class JaxBackend:
    """Entry `jax` of `amanda.backends`."""

    name = "jax"
    namespace = "amanda/std/1"

    def devices(self) -> Sequence[str]:
        """The devices that can be used here, the default one first."""
        from amanda_jax.devices import usable

        return list(usable())

    def states(self) -> Sequence[State]:
        """Every kind of device, those that cannot be used with the reason."""
        from amanda_jax.devices import states

        return states()

    def takes(self, op: Op) -> Literal[True] | str:
        from amanda_jax.kernels import JAX
        from amanda_std.operation import check_kernels
        from amanda_std.reading import operation_of, why_unreadable

        reason = why_unreadable(op)
        if reason is not None or isinstance(op, Graph):
            return reason or True
        reason = DECLINED.get(op.type or "") or _strange(op)
        return reason or check_kernels(operation_of(op), JAX) or True

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        from amanda_jax.devices import chosen
        from amanda_jax.executable import Executable
        from amanda_jax.settings import Settings

        known = Settings.__annotations__
        if unknown := sorted(set(options) - set(known)):
            raise BackendError(
                f"backend {self.name!r} knows no option {unknown[0]!r}",
                expected=f"one of {', '.join(known)}",
            )
        return Executable(graph, chosen(device), Settings(**options).checked())


def _strange(op: Op) -> str | None:
    """An element type that XLA has not, if one is known to be there."""
    for port in (*(v for v in op.inputs if v is not None), *op.outputs):
        found = port.type
        if isinstance(found, TensorType) and found.dtype.kind in _LACKING:
            return f"XLA has no element type {found.dtype}"
    return None
