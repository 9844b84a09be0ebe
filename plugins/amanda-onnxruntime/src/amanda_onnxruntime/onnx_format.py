"""The format `onnx`, found through the host: plug-ins do not import each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from amanda.graph import Graph, Op
from amanda.host import host_in_use

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["OnnxFormat", "onnx_format"]


class OnnxFormat(Protocol):
    """What this backend needs of the format `onnx`."""

    def dumps(self, graph: Graph, *, ir_version: int | None = None) -> bytes: ...
    def write(self, graph: Graph, path: Path, *, external: bool | None) -> None: ...
    def domain(self, op: Op) -> tuple[str, int]: ...
    def bounds_fault(self, op: Op) -> str | None: ...
    def called_function(self, op: Op) -> Graph | None: ...


def onnx_format() -> OnnxFormat:
    """The format `onnx` of the host in use."""
    found: OnnxFormat = host_in_use().get("formats", "onnx")
    return found
