"""The backend `onnxruntime`: supported ops, devices and options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from amanda.backend import DynamicSize, Implementation
from amanda.errors import BackendError, FormatError
from amanda.graph import Graph, Op
from amanda_onnxruntime.onnx_format import onnx_format

if TYPE_CHECKING:
    from amanda.dictionary import OpDef
    from amanda_onnxruntime.executable import OnnxRuntimeExecutable

__all__ = ["Backend"]

_SUFFIX = "ExecutionProvider"
_LAST = ("azure",)  # a remote device, never the default
_OLDEST_OPSET = 7
_OPTIONS = ("providers", "provider_options", "session_options", "seed", "profile")


class Backend:
    """onnxruntime as installed."""

    name = "onnxruntime"
    compiles_seed = True
    profiles = True

    @property
    def namespace(self) -> str:
        """All opsets that the installed version supports; it has kernels from 7 on."""
        from amanda_onnxruntime.sessions import newest_opset

        return f"amanda/onnx/{_OLDEST_OPSET}..{newest_opset()}"

    def devices(self) -> Sequence[str]:
        """The execution providers by their short names, the preferred one first."""
        return list(_providers())

    def dynamic_sizes(self, graph: Graph) -> Sequence[DynamicSize]:
        """None: a session serves feeds of all sizes."""
        del graph
        return ()

    def takes(self, op: Op) -> Literal[True] | str:
        """True, or why the op is not supported."""
        from amanda_onnxruntime.runtime_info import op_schemas, version

        if isinstance(op, Graph):
            return (
                "onnxruntime has no nested graphs as ops; one without control edges "
                "is inlined"
            )
        codec = onnx_format()
        try:
            domain, _ = codec.domain(op)
        except FormatError as error:
            return f"{error.message}: {op.namespace}"
        if op.has_attrs and (fault := codec.bounds_fault(op)):
            return fault
        if (domain, op.type) in op_schemas() or codec.called_function(op) is not None:
            return True
        if _is_mapped(op):
            return True  # compiled as other ops, through the hub
        where = f" in the domain {domain!r}" if domain else ""
        return f"onnxruntime {version()} has no {op.type}{where}"

    def implementations(self, definition: OpDef) -> Iterator[Implementation]:
        """The op of onnxruntime for the opset of a definition."""
        from amanda_onnxruntime.implementations import implementation_name
        from amanda_onnxruntime.runtime_info import op_schemas

        opset = int(definition.since or 1)
        if ("", definition.name) in op_schemas():
            name = implementation_name("", definition.name, opset)
            yield Implementation("", definition.name, (), name)

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> OnnxRuntimeExecutable:
        from amanda.mapping import expect_bounded_calls
        from amanda_onnxruntime.executable import OnnxRuntimeExecutable
        from amanda_onnxruntime.random_seeds import random_ops
        from amanda_onnxruntime.sessions import SessionFactory

        if unknown := sorted(set(options) - set(_OPTIONS)):
            raise BackendError(
                f"backend {self.name!r} has no option {unknown[0]!r}",
                expected=f"one of {', '.join(_OPTIONS)}",
            )
        # onnxruntime expands functions without a bound
        called = onnx_format().called_function
        expect_bounded_calls(graph, lambda op: filter(None, [called(op)]))
        factory = SessionFactory(
            providers=list(options.get("providers") or _providers_of(device)),
            provider_options=options.get("provider_options"),
            session_options=options.get("session_options"),
            seed=options.get("seed"),
            profile=bool(options.get("profile")),
        )
        return OnnxRuntimeExecutable(graph, factory, draws=bool(random_ops(graph)))


def _providers_of(device: str | None) -> list[str]:
    """The provider of a device, then CPU for ops that it does not support."""
    from amanda_onnxruntime.runtime_info import version

    known = _providers()
    if device is None:
        device = next(iter(known))
    if device not in known:
        raise BackendError(
            f"onnxruntime {version()} has no device {device!r} here",
            expected=f"one of {', '.join(known)}",
            hint="the build of onnxruntime decides: onnxruntime-gpu has cuda",
        )
    return list(dict.fromkeys([known[device], f"CPU{_SUFFIX}"]))


@cache
def _providers() -> dict[str, str]:
    import onnxruntime

    found = {
        name.removesuffix(_SUFFIX).lower(): name
        for name in onnxruntime.get_available_providers()
    }
    return dict(sorted(found.items(), key=lambda item: item[0] in _LAST))


def _is_mapped(op: Op) -> bool:
    """Whether the op can be converted to other ops through the hub."""
    from amanda.host import host_in_use

    host = host_in_use()
    if op.graph is None or not host.has("mappings", "onnx-std"):
        return False
    return host.get("mappings", "onnx-std").takes(op, "amanda/std/1") is True
