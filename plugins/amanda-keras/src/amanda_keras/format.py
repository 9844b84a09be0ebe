"""The Keras format: `.keras` archives, whole-model `.h5` files and live models."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import amanda
from amanda.errors import FormatError
from amanda.files import replace_file
from amanda.formatkit import MessageFile, file_errors
from amanda.graph import Graph
from amanda.tensors import Tensor

__all__ = ["Format"]

_HDF5: Final = b"\x89HDF\r\n\x1a\n"
_WEIGHTS: Final = "model.weights.h5"
_KEPT: Final = ("config.json", "metadata.json", _WEIGHTS)


class Format:
    """Reads Keras models without Keras, and writes `.keras` files.

    Weights that an archive stores, or an HDF5 file has in one piece, stay in the file.
    """

    def read(self, source: Path | bytes | Any, *, version: str | None = None) -> Graph:
        """The graph of a file, of its bytes, or of a `keras.Model`.

        `version` is the version of Keras whose layers the graph has; that of the file
        without.
        """
        if _is_model(source):
            return self.read(_archive_of(source), version=version)
        with file_errors(source):
            file = MessageFile.open(source)
            if bytes(file.data[:8]) == _HDF5:
                return _read_hdf5(file, version)
            return _read_archive(file, version)

    def write(self, graph: Graph, path: Path) -> None:
        """Write a `.keras` file, which `keras.models.load_model` takes."""
        from amanda_keras.writer import write_archive

        path = Path(path)
        with file_errors(path):
            if path.suffix.lower() != ".keras":
                raise FormatError(
                    "models are not written in this form", expected="a file *.keras",
                    got=path.name, hint="Keras 3 reads .keras files",
                )  # fmt: skip
            with replace_file(path) as file:
                write_archive(graph, file)


def _is_model(source: Any) -> bool:
    """Whether an object is a model of Keras."""
    plain = (str, os.PathLike, bytes, bytearray, memoryview)
    return not isinstance(source, plain) and callable(getattr(source, "save", None))


def _archive_of(model: Any) -> bytes:
    """A live model as the bytes of a `.keras` file, which Keras writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        return path.read_bytes()


def _read_archive(file: MessageFile, version: str | None) -> Graph:
    from amanda.formatkit import Archive
    from amanda_keras.records import MODEL_RECORDS
    from amanda_keras.weight_file import WeightFile

    archive = Archive(file)
    entry = archive.read_json("config.json")
    metadata: Any = {}
    if "metadata.json" in archive.members:
        metadata = archive.read_json("metadata.json")
    if not isinstance(entry, dict) or not isinstance(metadata, dict):
        raise FormatError("the config of the model is no JSON object")
    tensors: Mapping[str, Tensor] = {}
    if _WEIGHTS in archive.members:
        data, start = archive.file_of(_WEIGHTS)
        tensors = WeightFile(data, start, _WEIGHTS).tensors()
    found = metadata.get("keras_version")
    graph = _read_model(entry, tensors, version or found)
    others = {n: archive.read(n) for n in archive.members
              if n not in _KEPT and not n.endswith("/")}  # fmt: skip
    exact = f"amanda/keras/{found}" == graph.namespace and len(metadata) == 1
    MODEL_RECORDS.add(graph, metadata=None if exact else metadata, members=others)
    return graph


def _read_hdf5(file: MessageFile, version: str | None) -> Graph:
    from amanda.formatkit import parse_json
    from amanda_keras.legacy_weights import legacy_tensors
    from amanda_keras.weight_file import WeightFile

    weights = WeightFile(file)
    config = weights.attribute("", "model_config")
    if not isinstance(config, str):
        raise FormatError(
            "the file has weights without a model: there is no attribute model_config",
            hint="load the model in Keras, load these weights, and save it as .keras",
        )
    entry = parse_json(config, "model_config")
    if not isinstance(entry, dict):
        raise FormatError("the config of the model is no JSON object")
    group = "model_weights" if "model_weights" in weights.groups else ""
    found = weights.attribute("", "keras_version")
    found = found or weights.attribute(group, "keras_version")
    return _read_model(entry, legacy_tensors(weights, entry), version or found)


def _read_model(
    entry: Mapping[str, Any], tensors: Mapping[str, Tensor], version: Any
) -> Graph:
    from amanda_keras.reader import ModelReader

    name = _namespace(version if isinstance(version, str) else None)
    return ModelReader(name, tensors).read(entry)


def _namespace(version: str | None) -> str:
    """The name of the newest dictionary that is not newer than a version.

    Versions before the first dictionary, 2.0, have its layers.
    """
    if version is None:
        newest: Any = amanda.namespace("keras")
        return str(newest.name)
    number = version.partition("-")[0]
    number = "2.1.0" if number.startswith("2.0.") else number
    found: Any = amanda.namespace(f"keras@{number}", assume=True)
    return f"amanda/keras/{found.assumed or number}"
