"""The backend `jax`: the ops and devices that it supports, and its options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from amanda.backend import DynamicSize, Implementation
from amanda.errors import BackendError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import ElementType, MapType, TensorType, Type

if TYPE_CHECKING:
    from amanda.dictionary import OpDef
    from amanda_jax.devices import DeviceState
    from amanda_jax.executable import Executable

__all__ = ["JaxBackend"]

_UNSUPPORTED_KINDS: Final = ("string", "bytes", "quantized")
"""Kinds of element types that XLA does not have."""
_UNSUPPORTED_DTYPES: Final = ("int1", "uint1", "complex32", "bcomplex32")
"""Others that it does not have."""


class JaxBackend:
    """Entry `jax` of `amanda.backends`."""

    name = "jax"
    profiles = True
    namespace = "amanda/std/1"

    def devices(self) -> Sequence[str]:
        """The names of the devices that can be used, the default one first."""
        from amanda_jax.devices import usable_devices

        return list(usable_devices())

    def states(self) -> Sequence[DeviceState]:
        """Every kind of device; for those that cannot be used, the reason."""
        from amanda_jax.devices import device_states

        return device_states()

    def takes(self, op: Op) -> Literal[True] | str:
        from amanda_jax.compile.python_ops import KERNELS
        from amanda_jax.kernels import UNSUPPORTED
        from amanda_std.backends import operation_of, why_invalid, why_no_kernel

        reason = why_invalid(op)
        if reason is not None or isinstance(op, Graph):
            return reason or True
        reason = UNSUPPORTED.get(op.type or "") or _unsupported_type(
            (*op.inputs, *op.outputs)
        )
        return reason or why_no_kernel(operation_of(op), KERNELS) or True

    def dynamic_sizes(self, graph: Graph) -> Iterator[DynamicSize]:
        """Dims, values and results whose sizes are known only when it runs."""
        from amanda_jax.shapes.dynamic_sizes import find_dynamic_sizes

        return find_dynamic_sizes(graph)

    def implementations(self, definition: OpDef) -> Iterator[Implementation]:
        """The kernels of an op by dtype, or its definition."""
        from amanda_jax.kernels import JAX
        from amanda_std.backends import implementations_in_table

        return implementations_in_table(definition.name, JAX)

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        from amanda_jax.settings import Settings

        known = Settings.__annotations__
        if unknown := sorted(set(options) - set(known)):
            raise BackendError(
                f"backend {self.name!r} has no option {unknown[0]!r}",
                expected=f"one of {', '.join(known)}",
            )
        self._expect_supported("input", graph.parameters)
        self._expect_supported("result", (v for g in graph.graphs() for v in g.results))
        settings = Settings(**options).validate()
        if settings.is_distributed:
            from amanda_jax.mesh.distributed import join

            join(settings.distributed)  # before JAX is used for anything else
            from amanda_jax.mesh.arrays import create_mesh
            from amanda_jax.mesh.executable import MeshExecutable

            return MeshExecutable(graph, create_mesh(settings.mesh, device), settings)
        from amanda_jax.devices import find_device
        from amanda_jax.executable import Executable

        return Executable(graph, find_device(device), settings)

    def _expect_supported(self, what: str, ports: Iterable[OutputPort | None]) -> None:
        """Raise BackendError for values of other types: `takes` checks those of ops,
        not inputs that no op reads, nor constants that are results."""
        unsupported = _unsupported_type(ports)
        if unsupported is not None:
            raise BackendError(
                f"backend {self.name!r} does not support {what}s of the graph: "
                f"{unsupported}",
                expected="tensors of numbers, or containers of them",
                hint="choose another backend",
            )


def _unsupported_type(ports: Iterable[OutputPort | None]) -> str | None:
    """The first type that XLA does not support, if one is known."""
    for port in ports:
        own = port.type if port is not None else None
        for part in _nested_types(own):
            if isinstance(part, TensorType) and _is_unsupported(part.dtype):
                return f"XLA has no element type {part.dtype}"
            if isinstance(part, MapType):
                return f"XLA does not support maps such as {own}"
    return None


def _is_unsupported(dtype: ElementType) -> bool:
    return dtype.kind in _UNSUPPORTED_KINDS or dtype.name in _UNSUPPORTED_DTYPES


def _nested_types(own: Type | None) -> Iterator[Type]:
    """A type, and all types in it."""
    if own is not None:
        yield own
        for part in own.parts:
            yield from _nested_types(part)
