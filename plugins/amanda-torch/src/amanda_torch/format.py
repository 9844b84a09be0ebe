"""The PyTorch format: exported programs, and what PyTorch exports.

x.pt2                                  exported program
x.pt, x.pth, with args                 TorchScript, which an installed PyTorch reads
ExportedProgram, module with args      live objects
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import amanda
from amanda.errors import FormatError, UsageError
from amanda.files import replace_file
from amanda.formatkit import MessageFile, file_errors
from amanda.graph import Graph, ScopeTable

__all__ = ["Format"]

_EXECUTORCH: Final = b"ET"
_PICKLE: Final = b"\x80"
_HINT: Final = "torch.export.save(torch.export.export(model, inputs), path)"


class Format:
    """Reads exported programs of PyTorch (`.pt2`), without PyTorch, and writes them.

    Weights stay in the file, which is mapped. Pickles are never opened.
    """

    def read(
        self,
        source: Path | bytes | Any,
        *,
        model: str | None = None,
        version: str | None = None,
        weights: Path | str | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        dynamic_shapes: Any = None,
    ) -> Graph:
        """The graph of a file, of its bytes, or of a live object.

        `model` is the name of one of several programs in an archive. `version` is the
        PyTorch whose ops the graph has; that of the file without. `weights` is a file
        `.safetensors` with weights in the place of those of the archive. `args`,
        `kwargs` and `dynamic_shapes` are what modules are exported with, and
        TorchScript is converted with.

        The weights of a live object share its memory, so training it changes those of
        the graph. Buffers are copied where the program writes to its arguments.
        """
        from amanda_torch.archives import (
            DEFAULT_MODEL,
            ProgramParts,
            read_archive,
            read_parts,
        )
        from amanda_torch.live_objects import (
            LiveArguments,
            export_live_object,
            export_script,
        )

        live = LiveArguments(args, kwargs, dynamic_shapes)
        plain = (str, os.PathLike, bytes, bytearray, memoryview)
        if not isinstance(source, plain):
            if model not in (None, DEFAULT_MODEL):
                raise UsageError("a live object is one program", who="load", got=model)
            source = export_live_object(source, live)
        elif live.are_given and isinstance(source, str | os.PathLike):
            with file_errors(source):
                source = export_script(source, live)
        if isinstance(source, ProgramParts):
            return read_parts(source, version, _read_weights(weights))
        with file_errors(source):
            file = MessageFile.open(source)
            _refuse_others(bytes(file.data[:8]))
            return read_archive(file, model, version, _read_weights(weights))

    def scopes(self, graph: Graph) -> ScopeTable:
        """The modules and source lines of the ops of a program."""
        from amanda_torch.scopes import scopes_of_program

        return scopes_of_program(graph)

    def write(self, graph: Graph, path: Path) -> None:
        """Write a `.pt2` file, which `torch.export.load` takes."""
        from amanda_torch.archive_writer import write_archive

        path = Path(path)
        with file_errors(path):
            dictionary: Any = amanda.namespace(graph.namespace or "torch", assume=True)
            with replace_file(path) as file:
                write_archive(graph, file, dictionary)


def _read_weights(path: Path | str | None) -> Mapping[str, Any]:
    from amanda.files import read_safetensors

    if path is None:
        return {}
    with file_errors(path):
        return read_safetensors(path)


def _refuse_others(head: bytes) -> None:
    """Refuse files of PyTorch that are no archives."""
    if head[4:6] == _EXECUTORCH:
        raise FormatError(
            "this is a program of ExecuTorch, for its runtime only",
            expected="an exported program", hint=f"save it before to_edge: {_HINT}",
        )  # fmt: skip
    if head[:1] == _PICKLE:
        raise FormatError(
            "this is a pickle of PyTorch, which is never opened",
            expected="an exported program", hint=_HINT,
        )  # fmt: skip
