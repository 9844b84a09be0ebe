"""The PyTorch format: exported programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import amanda
from amanda.files import replace_file
from amanda.formatkit import MessageFile, file_errors
from amanda.graph import Graph

__all__ = ["Format"]


class Format:
    """Reads exported programs of PyTorch (`.pt2`), without PyTorch.

    Weights stay in the file, which is mapped. Pickles are never opened.
    """

    def read(
        self,
        source: Path | bytes | Any,
        *,
        model: str | None = None,
        version: str | None = None,
    ) -> Graph:
        """The graph of a file or of its bytes.

        `model` is the name of one of several programs in an archive. `version` is the
        PyTorch whose ops the graph has; that of the file without.
        """
        from amanda_torch.archives import read_archive

        with file_errors(source):
            return read_archive(MessageFile.open(source), model, version)

    def write(self, graph: Graph, path: Path) -> None:
        """Write a `.pt2` file, which `torch.export.load` takes."""
        from amanda_torch.archive_writer import write_archive

        path = Path(path)
        with file_errors(path):
            dictionary: Any = amanda.namespace(graph.namespace or "torch", assume=True)
            with replace_file(path) as file:
                write_archive(graph, file, dictionary)
