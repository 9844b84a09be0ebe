"""The files of a SavedModel: `saved_model.pb`, variables, assets."""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amanda.errors import FormatError
from amanda.files import map_file, replace_file, replace_folder
from amanda.formatkit import (
    MessageChunks,
    MessageFile,
    file_errors,
    parse_text_format,
    print_text_format,
)
from amanda.graph import Graph, OutputPort
from amanda.tensors import Tensor
from amanda_tf.checkpoints import INDEX, Bundle, write_bundle
from amanda_tf.messages import SAVED_RECORDS
from amanda_tf.saved_messages import SAVED
from amanda_tf.saved_models.assets import contents_of_assets
from amanda_tf.saved_models.meta_graphs import (
    choose_meta_graph,
    meta_graph_chunks,
    read_meta_graph,
    tags_of,
)
from amanda_tf.saved_models.saver import with_saver
from amanda_tf.saved_models.variable_values import VARIABLES, add_values, keyed_tensors

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = [
    "read_meta_graph_file",
    "read_saved_model",
    "write_meta_graph_file",
    "write_saved_model",
]

MODEL: Final = "saved_model.pb"
TEXT_MODEL: Final = "saved_model.pbtxt"
_VARIABLES: Final = "variables/variables"
_CHUNKED_MODEL: Final = "saved_model.cpb"  # of TensorFlow 2.14 and newer
_OTHER_FILES: Final = (
    "assets", "assets.extra", "fingerprint.pb", "keras_metadata.pb"
)  # fmt: skip
_PARTS: Final = (TEXT_MODEL, _CHUNKED_MODEL, MODEL, "variables", *_OTHER_FILES)
"""What a SavedModel consists of, first the files that its readers begin with."""
_TEXT: Final = ".pbtxt"
_TRIES: Final = 5


def read_saved_model(
    folder: Path, dictionary: Dictionary, tags: Sequence[str] | None
) -> Graph:
    """The graph with these tags of a SavedModel, with the values of its variables.

    It is read again if another one takes its place meanwhile, so that no graph has the
    variables of another one.
    """
    for _ in range(_TRIES):
        before = _identity(folder)
        try:
            root = _read_saved_model(folder, dictionary, tags)
        except FormatError:
            if _identity(folder) == before:
                raise
        else:
            if _identity(folder) == before:
                return root
    raise FormatError(
        "the SavedModel was replaced while it was read", who=os.fspath(folder),
        hint="load it when no program writes it",
    )  # fmt: skip


def _identity(folder: Path) -> tuple[int, ...] | None:
    """What differs after a SavedModel was replaced; None where there is none."""
    try:
        found = os.stat(_model_path(folder))
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _model_path(folder: Path) -> Path:
    path = folder / MODEL
    if not path.exists() and (folder / TEXT_MODEL).exists():
        return folder / TEXT_MODEL
    return path


def _read_saved_model(
    folder: Path, dictionary: Dictionary, tags: Sequence[str] | None
) -> Graph:
    path = _model_path(folder)
    with file_errors(path):
        if not path.exists():
            raise FormatError(
                f"this folder is no SavedModel: it has no {MODEL}",
                hint="name the folder that has this file",
            )
        file = _open(path, "SavedModel")
        whole = (0, len(file.data))
        spans = SAVED.read("SavedModel", file.data).get("meta_graphs", [])
        known = [tags_of(file.data, span) for span in spans]
    at = choose_meta_graph(known, tags, str(path))
    with file_errors(path):
        root = read_meta_graph(file, spans[at], dictionary)
        others = [bytes(file.data[start:end]) for start, end in spans]
        rest = SAVED.raw_fields("SavedModel", file.data, whole, without=["meta_graphs"])
    SAVED_RECORDS.add(
        root, rest=rest, before=others[:at], after=others[at + 1 :],
        files=dict(_other_files(folder)),
    )  # fmt: skip
    with file_errors(path):
        assets = contents_of_assets(root)
        if assets:
            from amanda_tf.mapping.tables.table_content import note_table_contents

            note_table_contents(root, assets)
    prefix = folder / _VARIABLES
    if prefix.with_name(prefix.name + INDEX).exists():
        _add_bundle(root, Bundle(prefix), assets)
    elif any(op.type in VARIABLES for op in root):
        raise FormatError(
            "the graph has variables, and there is no file with their values",
            who=str(prefix) + INDEX,
        )
    return root


def _open(path: Path, message: str) -> MessageFile:
    if path.suffix.lower() == _TEXT:
        text = bytes(map_file(path)).decode("utf-8", "replace")
        return MessageFile(memoryview(parse_text_format(SAVED, message, text)))
    return MessageFile.open(path)


def _add_bundle(
    root: Graph, bundle: Bundle, assets: Collection[OutputPort] = ()
) -> None:
    """Note the values of variables, and record the other tensors of a checkpoint."""
    with file_errors(bundle.index):
        used = add_values(root, bundle, bundle.index, assets)
        rest = {k: bundle[k] for k in bundle if k not in used and bundle.is_readable(k)}
        SAVED_RECORDS.add(root, variables=rest)


def _other_files(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Files of the folder that are copied, by their paths in it."""
    for name in _OTHER_FILES:
        path = folder / name
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if each.is_file():
                data = map_file(each)
                key = each.relative_to(folder).as_posix()
                yield key, Tensor.from_buffer(data, "uint8", (len(data),))


def write_saved_model(folder: Path, root: Graph, dictionary: Dictionary) -> None:
    """Write a graph as a SavedModel; the values of variables stand in a checkpoint.

    An old SavedModel in the folder is replaced as a whole; other files in it stay. A
    process that is killed leaves one of the two, or a folder without `saved_model.pb`,
    which no reader accepts; see `amanda.files.replace_folder`.
    """
    root = with_saver(root, dictionary)
    facts = SAVED_RECORDS.of(root)
    with file_errors(folder):
        out = MessageChunks(facts.get("rest") or _schema_version())
        tag = SAVED.tag("SavedModel", "meta_graphs")
        for raw in facts.get("before", ()):
            out.append_message(tag, MessageChunks(raw))
        out.append_message(tag, meta_graph_chunks(root, dictionary))
        for raw in facts.get("after", ()):
            out.append_message(tag, MessageChunks(raw))
        tensors = keyed_tensors(root, facts.get("variables", {}))
        with replace_folder(folder, _PARTS) as new_folder:
            new = Path(new_folder)
            (new / "variables").mkdir()
            if tensors:
                write_bundle(new / _VARIABLES, tensors)
            for name, content in facts.get("files", {}).items():
                _write_file(new, name, content)
            with replace_file(new / MODEL) as file:
                out.write(file)


def _schema_version() -> bytes:
    return SAVED.writer("SavedModel").put("saved_model_schema_version", 1).done()


def _write_file(folder: Path, name: str, content: Tensor) -> None:
    """Write a file below the folder; its name may come from anywhere."""
    parts = Path(name).parts
    if not parts or parts[0] not in _OTHER_FILES or ".." in parts:
        raise FormatError("this is no name of a file of a SavedModel", got=repr(name))
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as file:
        file.writelines(content.chunks())


def read_meta_graph_file(path: Path, dictionary: Dictionary) -> Graph:
    """The graph of a `.meta` file; with the values of the checkpoint beside it."""
    with file_errors(path):
        file = _open(path, "MetaGraphDef")
        root = read_meta_graph(file, (0, len(file.data)), dictionary)
    index = path.with_suffix(INDEX)
    if index.exists():
        _add_bundle(root, Bundle(path.with_suffix("")))
    return root


def write_meta_graph_file(path: Path, root: Graph, dictionary: Dictionary) -> None:
    """Write a `.meta` file, and a checkpoint beside it where there are variables."""
    root = with_saver(root, dictionary)
    with file_errors(path):
        tensors = keyed_tensors(root, SAVED_RECORDS.of(root).get("variables", {}))
        if tensors:
            write_bundle(path.with_suffix(""), tensors)
        out = meta_graph_chunks(root, dictionary)
        with replace_file(path) as file:
            if path.suffix.lower() == _TEXT:
                raw = io.BytesIO()
                out.write(raw)
                text = print_text_format(SAVED, "MetaGraphDef", raw.getvalue())
                file.write(text.encode())
            else:
                out.write(file)
