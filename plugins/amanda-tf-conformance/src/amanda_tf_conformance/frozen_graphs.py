"""The frozen graphs of the test data: `tf_graphs` in the folder of AMANDA_TEST_DATA."""

from __future__ import annotations

import io
import json
import os
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import amanda
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.scoreboard import DataSet
from amanda.types import DType, Shape, TensorType

__all__ = ["FrozenGraph", "frozen_graphs"]

_FILE: Final = "tf_graphs/tf_graphs_dev.tar.gz"
_VARIABLE: Final = "AMANDA_TEST_DATA"
TOLERANCE: Final = 1e-3


@dataclass(frozen=True)
class FrozenGraph:
    """A graph of the set: its file, and what the index says of it."""

    name: str
    model: bytes
    inputs: dict[str, Any]
    """By the tensor that is fed, such as `x:0`."""
    outputs: dict[str, Any]
    """By the tensor that is fetched."""
    dtypes: dict[str, str]
    """Element types of the outputs; a `.npz` file has no bfloat16."""
    promotable: list[str]
    """Constants that may be fed, with their own values."""

    def load(self, *, promoted: bool) -> Graph:
        """The graph, with its results; promoted constants are placeholders."""
        graph = amanda.load(self.model, format="tensorflow")
        ops = {op.name: op for op in graph}
        for name in self.promotable if promoted else ():
            ops[name] = _promote(graph, ops[name])
        for key in self.outputs:
            name, index = key.rsplit(":", 1)
            graph.result(ops[name].outputs[int(index)], key)
        return graph

    def data(self, *, promoted: bool) -> DataSet:
        """The inputs and TensorFlow's outputs."""
        feeds = {key.split(":")[0]: value for key, value in self.inputs.items()}
        if promoted:
            graph = amanda.load(self.model, format="tensorflow")
            feeds |= {name: graph.ops[name].attrs["value"].numpy()
                      for name in self.promotable}  # fmt: skip
        expected = [
            value.astype(DType(self.dtypes[key]).numpy) if value.dtype.kind in "fc"
            else value
            for key, value in self.outputs.items()
        ]  # fmt: skip
        return DataSet(feeds, expected, TOLERANCE, TOLERANCE)


def _promote(graph: Graph, constant: Any) -> Any:
    """Replace a constant by a placeholder of its name, type and shape."""
    name, tensor = constant.name, constant.attrs["value"]
    attrs = {"dtype": tensor.dtype, "shape": Shape(list(tensor.shape))}
    placeholder = graph.add("Placeholder", [], attrs)
    placeholder.output.type = TensorType(tensor.dtype, tensor.shape)
    graph.replace_uses(constant.output, placeholder.output)
    graph.remove(constant)
    placeholder.name = name
    return placeholder


@cache
def frozen_graphs() -> list[FrozenGraph]:
    """All graphs of the set, in the order of its index."""
    file = Path(os.environ.get(_VARIABLE, ""), _FILE)
    if not (os.environ.get(_VARIABLE) and file.is_file()):
        raise UsageError(
            "the frozen graphs of TensorFlow are not here",
            expected=f"{_FILE} in the folder of {_VARIABLE}",
            got=f"{_VARIABLE}={os.environ.get(_VARIABLE, '')}",
            hint="set it, or `amanda scoreboard tensorflow --kind function`",
        )
    with tarfile.open(file) as archive:
        files: dict[str, bytes] = {
            member.name.partition("/")[2]: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive
            if member.isfile()
        }
    rows = json.loads(files["index.json"])["cases"]
    return [_frozen_graph(row, files) for row in rows]


def _frozen_graph(row: dict[str, Any], files: dict[str, bytes]) -> FrozenGraph:
    name = row["name"]
    outputs = _arrays(files, f"{name}/outputs.npz")
    dtypes = {key: dtype for key, (dtype, _) in row["outputs"].items()}
    return FrozenGraph(
        name, files[f"{name}/model.pb"], _arrays(files, f"{name}/inputs.npz"),
        {key: outputs[key] for key in dtypes}, dtypes, row["promotable"],
    )  # fmt: skip


def _arrays(files: dict[str, bytes], path: str) -> dict[str, Any]:
    import numpy as np

    if path not in files:
        return {}
    with np.load(io.BytesIO(files[path]), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
