"""The format `stablehlo`: text, bytecode and portable artifacts, as graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from amanda.errors import FormatError
from amanda.graph import Graph
from amanda_jax.formats.stablehlo.mlir_types import context, unreadable
from amanda_jax.formats.stablehlo.reading import graph_of, version
from amanda_jax.formats.stablehlo.writing import text_of

__all__ = ["Format", "artifact", "parsed", "program"]

_BINARY: Final = b"ML\xefR"
"""With this bytecode begins, that of portable artifacts too."""
_VHLO: Final = b"vhlo"
"""The dialect of portable artifacts."""
_TEXTS: Final = (".mlir",)


class Format:
    """Reads programs of StableHLO from files, and from modules of MLIR.

    `.mlir` is written as text, and `.stablehlo` as a portable artifact, which other
    versions of StableHLO read as well."""

    def read(self, source: Any) -> Graph:
        from jaxlib.mlir import ir

        with context(), ir.Location.unknown():
            if isinstance(source, Path):
                return graph_of(parsed(source.read_bytes(), source.name))
            return graph_of(parsed(_content(source), "the program"))

    def write(self, graph: Graph, path: Path) -> None:
        text = program(graph)
        if path.suffix.lower() in _TEXTS:
            path.write_text(text, encoding="utf-8")
        else:
            path.write_bytes(artifact(text))


def program(graph: Graph) -> str:
    """The text of a graph as MLIR prints it, once it was checked."""
    from jaxlib.mlir import ir

    with context(), ir.Location.unknown():
        module = parsed(text_of(graph).encode(), graph.name or "the graph")
        return str(module.operation.get_asm(enable_debug_info=True))


def _content(source: Any) -> bytes:
    """Of a module, of what `jax.export` made, or of what was lowered."""
    if hasattr(source, "mlir_module"):
        source = source.mlir_module()
    elif hasattr(source, "as_text"):
        source = source.as_text("stablehlo")
    elif hasattr(source, "operation"):
        source = source.operation.get_asm(enable_debug_info=True)
    if isinstance(source, bytes):
        return source
    if not isinstance(source, str):
        raise FormatError(
            "only programs of StableHLO can be read",
            expected="a file, a module of MLIR, or what jax.export gives",
            got=type(source).__name__,
        )
    return source.encode()


def parsed(content: bytes, name: str) -> Any:
    """The module that is in a file; in a context that is entered."""
    from jax.errors import JaxRuntimeError
    from jax.extend import mlir
    from jaxlib.mlir import ir

    try:
        if content.startswith(_BINARY) and _VHLO in content:
            return mlir.deserialize_portable_artifact(content, ir.Context.current)
        return ir.Module.parse(content)
    except (ir.MLIRError, JaxRuntimeError, ValueError) as error:
        raise unreadable(error, name) from error


def artifact(text: str) -> bytes:
    """A module as a portable artifact of the version that is installed."""
    from jax.extend import mlir

    return bytes(mlir.serialize_portable_artifact(text, version(), True))
