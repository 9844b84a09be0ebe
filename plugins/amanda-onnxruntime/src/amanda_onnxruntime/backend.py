"""The backend: what it takes, on which devices, and what it can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

from amanda.errors import BackendError
from amanda.graph import Graph, Op

if TYPE_CHECKING:
    from pathlib import Path

    from amanda_onnxruntime.executable import Executable

__all__ = ["Backend", "OnnxFormat", "onnx_format"]

_SUFFIX = "ExecutionProvider"
_LAST = ("azure",)  # a device far away, which nobody has who did not ask for it
_OLDEST = 7
_OPTIONS = ("providers", "provider_options", "session_options")


class OnnxFormat(Protocol):
    """What is asked of the format `onnx`."""

    def dumps(self, graph: Graph, *, ir_version: int | None = None) -> bytes: ...
    def write(self, graph: Graph, path: Path, *, external: bool | None) -> None: ...
    def domain(self, op: Op) -> tuple[str, int]: ...
    def called(self, op: Op) -> Graph | None: ...


def onnx_format() -> OnnxFormat:
    """The format, from whoever has it."""
    from amanda.host import host_in_use

    found: OnnxFormat = host_in_use().get("formats", "onnx")
    return found


class Backend:
    """onnxruntime, as it is installed here."""

    name = "onnxruntime"

    @property
    def namespace(self) -> str:
        """Every opset that the installed runtime knows; it has kernels from 7 on."""
        from amanda_onnxruntime.sessions import newest_opset

        return f"amanda/onnx/{_OLDEST}..{newest_opset()}"

    def devices(self) -> Sequence[str]:
        """The providers by their short names, the one that it prefers first."""
        return list(_providers())

    def takes(self, op: Op) -> Literal[True] | str:
        codec = onnx_format()
        domain, _ = codec.domain(op)
        if (domain, op.type) in _known() or codec.called(op) is not None:
            return True
        if _is_mapped(op):
            return True  # the runtime has what it is made of
        place = f" in the domain {domain!r}" if domain else ""
        return f"onnxruntime {_version()} has no {op.type}{place}"

    def compile(
        self, graph: Graph, device: str | None, options: Mapping[str, Any]
    ) -> Executable:
        from amanda_onnxruntime.executable import Executable
        from amanda_onnxruntime.sessions import Maker

        if unknown := sorted(set(options) - set(_OPTIONS)):
            raise BackendError(
                f"backend {self.name!r} knows no option {unknown[0]!r}",
                expected=f"one of {', '.join(_OPTIONS)}",
            )
        providers = list(options.get("providers") or _chosen(device))
        maker = Maker(
            providers=providers,
            provider_options=options.get("provider_options"),
            session_options=options.get("session_options"),
        )
        return Executable(graph, maker)


def _chosen(device: str | None) -> list[str]:
    """The provider of a device, and the processor for what it does not take."""
    known = _providers()
    if device is None:
        device = next(iter(known))
    if device not in known:
        raise BackendError(
            f"onnxruntime {_version()} has no device {device!r} here",
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


@cache
def _known() -> frozenset[tuple[str, str]]:
    """Domain and name of every op that the runtime has a schema of."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return frozenset((op.domain, op.name) for op in state.get_all_operator_schema())


def _is_mapped(op: Op) -> bool:
    """Can the op be brought to other ones, by way of the hub set?"""
    from amanda.host import host_in_use

    host = host_in_use()
    if op.graph is None or not host.has("mappings", "onnx-std"):
        return False
    return host.get("mappings", "onnx-std").takes(op, "amanda/std/1") is True


def _version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)
