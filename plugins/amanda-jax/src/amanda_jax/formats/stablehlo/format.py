"""The format `stablehlo`: text, bytecode and portable artifacts, as graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from amanda.errors import FormatError
from amanda.files import map_file, replace_file
from amanda.formatkit import file_errors
from amanda.graph import Graph
from amanda_jax.formats.stablehlo.isolated_parser import parse_text, read_program
from amanda_jax.formats.stablehlo.mlir_types import context, parse_error
from amanda_jax.formats.stablehlo.reading import read_module, version
from amanda_jax.formats.stablehlo.writing import write_module

__all__ = ["Format", "module_text", "parse_module", "portable_artifact"]

_BINARY: Final = b"ML\xefR"
"""The first bytes of bytecode, including that of portable artifacts."""
_VHLO: Final = b"vhlo"
"""The dialect of portable artifacts."""
_TEXT_SUFFIXES: Final = (".mlir",)


class Format:
    """Reads programs of StableHLO from files, and from modules of MLIR.

    MLIR parses files and bytes in a process of its own, which they may end.

    `.mlir` is written as text, and `.stablehlo` as a portable artifact, which other
    versions of StableHLO read as well."""

    def read(self, source: Any) -> Graph:
        if isinstance(source, Path):
            with file_errors(source):
                return read_program(bytes(map_file(source)), source.name)
        content = _module_content(source)
        if isinstance(source, bytes | str):
            return read_program(content, "the program")
        return _read_own(content)

    def write(self, graph: Graph, path: Path) -> None:
        text = module_text(graph)
        is_text = path.suffix.lower() in _TEXT_SUFFIXES
        content = text.encode() if is_text else portable_artifact(text)
        with replace_file(path) as file:
            file.write(content)


def module_text(graph: Graph) -> str:
    """The text of a graph as MLIR prints it, after verification."""
    from jaxlib.mlir import ir

    with context(), ir.Location.unknown():
        text = write_module(graph)
    return parse_text(text, graph.name or "the graph")


def _read_own(content: bytes) -> Graph:
    """The graph of a program that this process made."""
    from jaxlib.mlir import ir

    with context(), ir.Location.unknown():
        return read_module(parse_module(content, "the program"))


def _module_content(source: Any) -> bytes:
    """The text of a module, of a `jax.export` result, or of a lowered function."""
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
            expected="a file, a module of MLIR, or a result of jax.export",
            got=type(source).__name__,
        )
    return source.encode()


def parse_module(content: bytes, name: str) -> Any:
    """Parse the module in a file, in the current MLIR context."""
    from jax.errors import JaxRuntimeError
    from jax.extend import mlir
    from jaxlib.mlir import ir

    try:
        if content.startswith(_BINARY) and _VHLO in content:
            return mlir.deserialize_portable_artifact(content, ir.Context.current)
        return ir.Module.parse(content)
    except (ir.MLIRError, JaxRuntimeError, ValueError) as error:
        raise parse_error(error, name) from error


def portable_artifact(text: str) -> bytes:
    """A module as a portable artifact of the installed version."""
    from jax.extend import mlir

    return bytes(mlir.serialize_portable_artifact(text, version(), True))
