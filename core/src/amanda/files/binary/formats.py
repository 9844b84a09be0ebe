"""The binary forms as formats, chosen by name or suffix."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from amanda.errors import FormatError, UsageError
from amanda.graph import Graph

__all__ = ["ArchiveFormat", "PbFormat"]


class PbFormat:
    """`.ampb`: one protobuf message with all data inside."""

    def read(self, source: Path, **options: Any) -> Graph:
        """The graph in a file."""
        from amanda.files.binary import codec

        _refuse_options(options, "read")
        return codec.load(_path(source))

    def write(self, graph: Graph, path: Path, **options: Any) -> None:
        """Write a graph to a file."""
        from amanda.files.binary import codec

        _refuse_options(options, "write")
        codec.save(graph, path)


class ArchiveFormat:
    """`.amanda`: the graph and its weights, which are mapped."""

    def read(self, source: Path, *, verify: bool = False, **options: Any) -> Graph:
        """The graph in a file; `verify` compares the checksums of everything in it."""
        from amanda.files.binary import archive

        _refuse_options(options, "read")
        return archive.load(_path(source), verify=verify)

    def write(self, graph: Graph, path: Path, **options: Any) -> None:
        """Write a graph to a file."""
        from amanda.files.binary import archive

        _refuse_options(options, "write")
        archive.save(graph, path)


def _path(source: object) -> Path:
    if not isinstance(source, str | os.PathLike):
        raise FormatError("this format reads files", got=type(source).__name__)
    return Path(source)


def _refuse_options(options: dict[str, Any], verb: str) -> None:
    if options:
        names = ", ".join(sorted(options))
        raise UsageError(f"unknown options to {verb} this format: {names}")
