"""Checkpoints alone, as graphs of constants: a result for each tensor, by its key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amanda.errors import FormatError
from amanda.formatkit import parse_text_format
from amanda.graph import Graph, bulk
from amanda.tensors import Tensor
from amanda_tf.checkpoints import (
    INDEX,
    Bundle,
    is_single_file,
    read_single_file,
    write_bundle,
)
from amanda_tf.saved_messages import SAVED

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["read_checkpoint", "write_checkpoint"]

_STATE = "checkpoint"
"""The file of a folder that names the latest of its checkpoints."""


def read_checkpoint(path: Path, dictionary: Dictionary) -> Graph | None:
    """The graph of a checkpoint; None if a path is not one."""
    tensors = _tensors(path)
    if tensors is None:
        return None
    graph = Graph(dictionary.name)
    with bulk():
        for key, tensor in tensors.items():
            op = graph.constant(tensor, key)
            op.output.type = tensor.type
            graph.result(op.output, key)
    return graph


def _tensors(path: Path) -> Mapping[str, Tensor] | None:
    if path.is_dir():
        path = _latest(path)
    if path.suffix == INDEX:
        path = path.with_suffix("")
    elif not path.with_name(path.name + INDEX).exists():
        is_table = path.is_file() and is_single_file(path)
        return read_single_file(path) if is_table else None
    bundle = Bundle(path)
    return {key: bundle[key] for key in bundle if bundle.is_readable(key)}


def _latest(folder: Path) -> Path:
    """The checkpoint that the state file of a folder names."""
    file = folder / _STATE
    raw = parse_text_format(SAVED, "CheckpointState", file.read_text("utf-8"))
    fields: Any = SAVED.read("CheckpointState", memoryview(raw))
    name = Path(fields.get("model_checkpoint_path", "")).name
    if not name:
        raise FormatError("it names no checkpoint", who=str(file))
    return folder / name


def write_checkpoint(path: Path, graph: Graph) -> None:
    """Write a graph of constants: the results of the graph, by their names."""
    tensors: dict[str, Tensor] = {}
    for port, value in zip(graph.outputs, graph.results, strict=True):
        tensor = None if value is None else value.op.attrs.get("value")
        if not isinstance(tensor, Tensor) or not port.name:
            raise FormatError(
                "a checkpoint has constants only", who=port.name,
                hint="save a folder, a SavedModel",
            )  # fmt: skip
        tensors[port.name] = tensor
    write_bundle(path.with_suffix(""), tensors)
