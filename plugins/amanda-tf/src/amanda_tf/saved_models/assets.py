"""Assets: files beside a SavedModel, whose paths are values of its graph."""

from __future__ import annotations

from collections.abc import Mapping

from amanda.graph import Graph, OutputPort
from amanda.tensors import Tensor
from amanda_tf.loading.interface import value_of
from amanda_tf.messages import SAVED_RECORDS
from amanda_tf.saved_messages import SAVED

__all__ = ["contents_of_assets"]

_FOLDER = "assets"


def contents_of_assets(root: Graph) -> dict[OutputPort, Tensor]:
    """The files of a SavedModel that was read, by the values that are their paths.

    A placeholder, which TensorFlow feeds the path, or a constant.
    """
    facts = SAVED_RECORDS.of(root)
    files: Mapping[str, Tensor] = facts.get("files", {})
    meta = memoryview(facts.get("meta", b""))
    found: dict[OutputPort, Tensor] = {}
    for at in SAVED.read("MetaGraphDef", meta).get("asset_file_def", ()):
        entry = SAVED.read("AssetFileDef", meta, *at)
        info = SAVED.read("TensorInfo", meta, *entry.get("tensor_info", (0, 0)))
        file = files.get(f"{_FOLDER}/{entry.get('filename', '')}")
        if file is not None:
            found[value_of(root, info.get("name", ""))] = file
    return found
