"""The TensorFlow format: GraphDef, SavedModel, MetaGraph and checkpoints.

What a path is follows from its name and content:

    folder with saved_model.pb           SavedModel
    saved_model.pb, saved_model.pbtxt    the SavedModel in its folder
    x.meta                               MetaGraph, with the checkpoint x if it exists
    x.index, or x beside x.index         checkpoint
    folder with a file `checkpoint`      the latest checkpoint in it
    a file that ends as a table does     checkpoint of version 1
    others                               GraphDef
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from warnings import warn

import amanda
from amanda.errors import AmandaError, AmandaWarning, FormatError, UsageError
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
_MODELS: Final = ("saved_model.pb", "saved_model.pbtxt")

Names = str | Sequence[str] | None
"""Several names: a list, or text with commas between them."""


class Format:
    """Reads and writes files of TensorFlow, without TensorFlow.

    Tensors stay in their files, which are mapped.
    """

    def read(
        self,
        source: Path | bytes | Any,
        *,
        version: str | None = None,
        tags: Names = None,
        signature: str | None = None,
        inputs: Names = None,
        outputs: Names = None,
        variables: Literal["keep", "freeze"] = "keep",
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> Graph:
        """The graph of a file or folder, of bytes, a GraphDef message or a live object.

        `version` is the TensorFlow version whose ops the graph has; the newest known
        without, since files do not say. `tags` choose one of several graphs of a
        SavedModel, and `signature` one of its signatures, of which only what it needs
        is kept. `inputs` and `outputs` are tensors by name, in place of a signature.
        `variables="freeze"` replaces variables by constants. `args` and `kwargs` are
        what a function or a module is traced with.
        """
        from amanda_tf.loading.choices import Choices, apply_choices

        name = "tensorflow" if version is None else f"tensorflow@{version}"
        choices = Choices.of(signature, inputs, outputs, variables)
        if _is_live(source):
            from amanda_tf.live_objects import LiveArguments, read_live_object

            given = LiveArguments(args, kwargs)
            graph = read_live_object(source, _dictionary(name), given)
        else:
            graph = _read(source, _dictionary(name), tags)
        try:
            return apply_choices(graph, choices)
        except AmandaError as error:
            if isinstance(source, str | os.PathLike):
                error.who = f"{source}, {error.who}" if error.who else str(source)
            raise

    def write(self, graph: Graph, path: Path) -> None:
        """Write a file or a folder; the data of tensors is copied in blocks."""
        path = Path(path)
        dictionary = _dictionary(graph.namespace or "tensorflow")
        suffix = path.suffix.lower()
        if path.is_dir() or not suffix or path.name in _MODELS:
            from amanda_tf.saved_models import write_saved_model

            folder = path.parent if path.name in _MODELS else path
            return write_saved_model(folder, graph, dictionary)
        if suffix == ".meta":
            from amanda_tf.saved_models import write_meta_graph_file

            return write_meta_graph_file(path, graph, dictionary)
        if suffix == ".index":
            from amanda_tf.checkpoints.graphs import write_checkpoint

            return write_checkpoint(path, graph)
        return _write_graph_def(graph, path, dictionary)


def _write_graph_def(graph: Graph, path: Path, dictionary: Dictionary) -> None:
    from amanda_tf.graphdef import graph_chunks
    from amanda_tf.messages import SCHEMA

    with file_errors(path):
        if graph.entries:
            raise FormatError(
                "a GraphDef has no entries (signatures)",
                got=", ".join(graph.entries),
                hint="save a folder, a SavedModel, or load one: signature=NAME",
            )
        _warn_of_variables(graph)
        chunks = graph_chunks(graph, dictionary)
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


def _read(source: Any, dictionary: Dictionary, tags: Names) -> Graph:
    from amanda_tf.loading.choices import text_list

    path = Path(source) if isinstance(source, str | os.PathLike) else None
    folder = None if path is None else _saved_model_folder(path)
    if folder is not None:
        from amanda_tf.saved_models import read_saved_model

        return read_saved_model(folder, dictionary, text_list("tags", tags))
    if tags is not None:
        raise UsageError("tags are for SavedModels, and this is none", got=tags)
    with file_errors(source):
        return _read_other(source, path, dictionary)


def _read_other(source: Any, path: Path | None, dictionary: Dictionary) -> Graph:
    """The graph of a MetaGraph, a checkpoint or a GraphDef."""
    from amanda_tf.loading.interface import expose_placeholders

    if path is not None and path.suffix == ".meta":
        from amanda_tf.saved_models import read_meta_graph_file

        return read_meta_graph_file(path, dictionary)
    if path is not None:
        from amanda_tf.checkpoints.graphs import read_checkpoint

        found = read_checkpoint(path, dictionary)
        if found is not None:
            return found
    from amanda_tf.graphdef import read_graph

    graph = read_graph(_open(source), dictionary)
    expose_placeholders(graph)
    return graph


def _saved_model_folder(path: Path) -> Path | None:
    """The folder of a SavedModel that a path names."""
    if path.name in _MODELS:
        return path.parent
    is_other = (path / "checkpoint").is_file() or not path.is_dir()
    return None if is_other and not (path / _MODELS[0]).exists() else path


def _open(source: Any) -> MessageFile:
    from amanda_tf.messages import SCHEMA

    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() in _TEXT:
        text = bytes(map_file(source)).decode("utf-8", "replace")
        return MessageFile(memoryview(parse_text_format(SCHEMA, "GraphDef", text)))
    return MessageFile.open(source)
