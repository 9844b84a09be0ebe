"""The TensorFlow format: GraphDef, binary (`.pb`) and in text format (`.pbtxt`)."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from warnings import warn

import amanda
from amanda.errors import AmandaWarning
from amanda.files import map_file, replace_file
from amanda.formatkit import (
    MessageFile,
    file_errors,
    parse_text_format,
    print_text_format,
)
from amanda.graph import Graph
from amanda_tf.notes import VALUE

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["Format"]

_TEXT: Final = (".pbtxt",)


class Format:
    """Reads and writes GraphDef, without TensorFlow.

    The tensors of a graph that is read stay in its file, which is mapped.
    """

    def read(
        self,
        source: Path | bytes | Any,
        *,
        version: str | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Graph:
        """The graph of a file, of its bytes, of a GraphDef message, or a live object.

        `version` is the TensorFlow version whose ops the graph has; the newest known
        without, since a GraphDef does not say. `args` and `kwargs` are what a function
        or a module is traced with.
        """
        from amanda_tf.graphdef import read_graph

        name = "tensorflow" if version is None else f"tensorflow@{version}"
        if _is_live(source):
            from amanda_tf.live_objects import LiveArguments, read_live_object

            given = LiveArguments(args, kwargs)
            return read_live_object(source, _dictionary(name), given)
        with file_errors(source):
            return read_graph(_open(source), _dictionary(name))

    def write(self, graph: Graph, path: Path) -> None:
        """Write a file; the data of tensors is copied in blocks."""
        from amanda_tf.graphdef import graph_chunks
        from amanda_tf.messages import SCHEMA

        path = Path(path)
        _warn_of_variables(graph)
        with file_errors(path):
            chunks = graph_chunks(graph, _dictionary(graph.namespace or "tensorflow"))
            if path.suffix.lower() in _TEXT:
                out = io.BytesIO()
                chunks.write(out)
                text = print_text_format(SCHEMA, "GraphDef", out.getvalue())
                with replace_file(path) as file:
                    file.write(text.encode())
                return
            with replace_file(path) as file:
                chunks.write(file)


def _warn_of_variables(graph: Graph) -> None:
    """Warn of values of variables, which a GraphDef does not hold."""
    lost = [op.label for op in graph if op.has_attrs and VALUE in op.attrs]
    if lost:
        warn(
            f"a GraphDef has no values of variables: those of {', '.join(lost[:5])}"
            f"{' ...' if len(lost) > 5 else ''} are not written",
            AmandaWarning, stacklevel=2,
        )  # fmt: skip


def _is_live(source: Any) -> bool:
    """Whether a source is an object of TensorFlow other than a message."""
    is_data = isinstance(source, str | os.PathLike | bytes | bytearray | memoryview)
    return not is_data and not hasattr(source, "SerializeToString")


def _dictionary(name: str) -> Dictionary:
    found: Any = amanda.namespace(name)
    return found  # type: ignore[no-any-return]


def _open(source: Any) -> MessageFile:
    from amanda_tf.messages import SCHEMA

    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() in _TEXT:
        text = bytes(map_file(source)).decode("utf-8", "replace")
        return MessageFile(memoryview(parse_text_format(SCHEMA, "GraphDef", text)))
    return MessageFile.open(source)
