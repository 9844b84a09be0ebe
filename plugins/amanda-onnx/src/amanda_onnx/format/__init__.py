"""The ONNX format: `.onnx` files, their text form, and `onnx.ModelProto` objects."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amanda.errors import FormatError
from amanda.formatkit import file_errors
from amanda.graph import Graph, Op, ScopeTable
from amanda_onnx.format.onnx_text import SUFFIXES, parse_text_model, write_text_model

if TYPE_CHECKING:
    from amanda_onnx.format.model_file import ModelFile

__all__ = ["Format"]

_TRIES = 100
"""How often a model is read again that was replaced meanwhile."""


class Format:
    """Reads and writes ONNX models; only text files need the onnx package.

    The weights of a model that is read stay in its file, which is mapped.
    """

    def read(
        self, source: Path | bytes | Any, *, folder: str | Path | None = None
    ) -> Graph:
        """The graph of a file, of its bytes, or of a ModelProto.

        `folder` is where the external data of an object or of bytes is.
        """
        from amanda_onnx.format.model_file import MissingDataError
        from amanda_onnx.format.reader import read_model

        with file_errors(source):
            for _ in range(_TRIES):
                opened = _open(source, folder)
                try:
                    return read_model(opened)
                except MissingDataError:
                    if opened.file is None or not opened.file.is_replaced:
                        raise  # else a new model, whose writer deleted the old data
            raise FormatError("it is replaced again and again")

    def write(
        self,
        graph: Graph,
        path: Path,
        *,
        external: bool | None = None,
        threshold: int = 1024,
        split: int | None = None,
        alignment: int = 4096,
        ir_version: int | None = None,
        subgraphs: str = "functions",
    ) -> None:
        """Write a file, and its weights as external data beside it.

        These are `NAME.DIGEST.data`.
        The old model stays complete until the new one is: a data file is named by its
        content, and those of the old model are deleted last.

        - `external`: True stores every tensor of at least `threshold` bytes there,
          False none. None, the default: those that came from such a file, or all large
          ones where the model would exceed the 2 GB limit of protobuf
        - `split`: the maximum bytes of one such file; a larger weight has its own
        - `alignment`: of each weight in such a file, in bytes
        - `ir_version`: written instead of the model's own
        - `subgraphs`: what nested graphs become: local "functions", or "inline"
        """
        from amanda_onnx.format.external_data import ExternalDataOptions
        from amanda_onnx.format.subgraphs import without_subgraphs
        from amanda_onnx.format.writer import write_model

        path = Path(path)
        with file_errors(path):
            if path.suffix.lower() in SUFFIXES:
                raw = self.dumps(graph, ir_version=ir_version, subgraphs=subgraphs)
                write_text_model(raw, path)
                return
            options = ExternalDataOptions(path.name, threshold, alignment, split)
            graph = without_subgraphs(graph, subgraphs)
            write_model(graph, path, external, options, ir_version)

    def dumps(
        self,
        graph: Graph,
        *,
        ir_version: int | None = None,
        subgraphs: str = "functions",
    ) -> bytes:
        """The bytes of a file with all weights inside."""
        from amanda_onnx.format.subgraphs import without_subgraphs
        from amanda_onnx.format.writer import check_size, model_chunks

        chunks = model_chunks(without_subgraphs(graph, subgraphs), None, ir_version)
        check_size(chunks)
        out = io.BytesIO()
        chunks.write(out)
        return out.getvalue()

    def domain(self, op: Op) -> tuple[str, int]:
        """The ONNX domain of an op, and its version; "" is ONNX itself."""
        from amanda_onnx.domains import domain_of

        found = domain_of(op.namespace or "")
        if found is None:
            raise FormatError("an op whose namespace is not of ONNX", who=op.label)
        return found

    def scopes(self, graph: Graph) -> ScopeTable:
        """The modules and source lines that nodes have as properties."""
        from amanda_onnx.format.scope_metadata import scopes_of_nodes

        return scopes_of_nodes(graph)

    def bounds_fault(self, op: Op) -> str | None:
        """Which attribute of an op is out of the bounds that its dictionary states."""
        from amanda_onnx.mapping.op_checks import bounds_fault

        return bounds_fault(op)

    def called_function(self, op: Op) -> Graph | None:
        """The local function that an op calls, if it calls one."""
        from amanda_onnx.domains import called_function

        return called_function(op)


def _open(source: Any, folder: str | Path | None) -> ModelFile:
    from amanda_onnx.format.model_file import ModelFile

    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if path.suffix.lower() in SUFFIXES:
            return ModelFile(memoryview(parse_text_model(path)), folder=path.parent)
    return ModelFile.open(source, folder=None if folder is None else Path(folder))
