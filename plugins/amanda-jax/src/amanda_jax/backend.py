"""The backend: what it takes, on which devices, and what it can be told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from amanda.errors import BackendError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import MapType, TensorType, Type

if TYPE_CHECKING:
    from amanda_jax.devices import State
    from amanda_jax.executable import Executable

__all__ = ["JaxBackend"]

_LACKS: Final = ("j0", "j1", "y0", "y1", "k0", "k0e", "k1", "k1e", "dawsn",
                 "fresnel_cos", "fresnel_sin")  # fmt: skip
"""Special functions that JAX has not."""

DECLINED: Final = {
    **{name: f"JAX has no special function {name}" for name in _LACKS},
    "decode_image": "XLA computes with numbers, and reads no files of images",
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
        from amanda_jax.compile.python_ops import KERNELS
        from amanda_std.backends import operation_of, why_invalid, why_no_kernel

        reason = why_invalid(op)
        if reason is not None or isinstance(op, Graph):
            return reason or True
        reason = DECLINED.get(op.type or "") or _strange((*op.inputs, *op.outputs))
        return reason or why_no_kernel(operation_of(op), KERNELS) or True

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        from amanda_jax.settings import Settings

        known = Settings.__annotations__
        if unknown := sorted(set(options) - set(known)):
            raise BackendError(
                f"backend {self.name!r} knows no option {unknown[0]!r}",
                expected=f"one of {', '.join(known)}",
            )
        strange = _strange(graph.parameters)
        if strange is not None:  # no op need read it, so that none was asked about
            raise BackendError(
                f"backend {self.name!r} cannot be fed this: {strange}",
                expected="numbers, in tensors, sequences, optionals or tuples",
                hint="choose another backend",
            )
        settings = Settings(**options).checked()
        if settings.is_spread:
            from amanda_jax.mesh.distributed import join

            join(settings.distributed)  # before anything else is asked of JAX
            from amanda_jax.mesh.arrays import mesh_of
            from amanda_jax.mesh.executable import Spread

            return Spread(graph, mesh_of(settings.mesh, device), settings)
        from amanda_jax.devices import chosen
        from amanda_jax.executable import Executable

        return Executable(graph, chosen(device), settings)


def _strange(ports: Iterable[OutputPort | None]) -> str | None:
    """A type that XLA has not, if one is known to be there."""
    for port in ports:
        found = port.type if port is not None else None
        for part in _parts(found):
            if isinstance(part, TensorType) and part.dtype.kind in _LACKING:
                return f"XLA has no element type {part.dtype}"
            if isinstance(part, MapType):
                return f"XLA has nothing to look keys up in: {found} is a map"
    return None


def _parts(found: Type | None) -> Iterator[Type]:
    """A type, and all that it holds."""
    if found is not None:
        yield found
        for part in found.parts:
            yield from _parts(part)
