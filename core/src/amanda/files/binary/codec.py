"""Graphs in protobuf form: complete files with the data of their tensors.

>>> from amanda.graph import Graph
>>> graph = Graph("amanda/std/1")
>>> x = graph.parameter(name="x")
>>> graph.result(graph.add("relu", [x]).output, "y").name
'y'
>>> loads(dumps(graph)).same_as(graph)
True
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from amanda.errors import AmandaError, LimitError
from amanda.files.atomic import Path, map_file, replace_file
from amanda.files.binary.decoder import decode
from amanda.files.binary.encoder import EncodedModel, encode
from amanda.graph import Graph

__all__ = ["dump", "dumps", "load", "loads", "save"]

_MOST: Final = (1 << 31) - 1  # the limit of protobuf libraries


def dumps(graph: Graph) -> bytes:
    """The graph as bytes."""
    return b"".join(_inline(encode(graph)))


def dump(graph: Graph, file: BinaryIO) -> None:
    """Write the graph to an open file, the data of its tensors in blocks."""
    file.writelines(_inline(encode(graph)))


def save(graph: Graph, path: Path) -> None:
    """Write the graph to a path; an old file is replaced at the end."""
    with replace_file(path) as file:
        dump(graph, file)


def loads(data: bytes | bytearray | memoryview, who: str = "<bytes>") -> Graph:
    """The graph in some bytes, which its tensors share. `who` names them in errors."""
    try:
        return decode(memoryview(data).cast("B").toreadonly())
    except AmandaError as error:
        error.who = error.who or who
        raise


def load(path: Path) -> Graph:
    """The graph in a file; its tensors are read when they are used."""
    return loads(map_file(path), str(path))


def _inline(encoded: EncodedModel) -> Iterator[bytes | bytearray | memoryview]:
    size = encoded.size()
    if size > _MOST:
        raise LimitError(
            "a graph too large for protobuf",
            expected=f"at most {_MOST} bytes",
            got=f"{size} bytes",
            hint="save it as .amanda, which keeps the weights in a file of their own",
        )
    return encoded.inline()
