"""Frozen graphs of the test data, with the outputs that TensorFlow gave."""

from __future__ import annotations

import io
import json
import os
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.graph import Graph
from amanda.types import Shape, TensorType

# the same kernels on all processors: its default depends on their instructions
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
collect_ignore_glob = ["op_cases*.py", "op_runs.py"]  # imported by test_op_cases.py
TOLERANCE = 1e-3


@dataclass
class FrozenGraph:
    """A graph of the set: its file, inputs, expected outputs, and what to promote."""

    name: str
    model: bytes
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    promotable: list[str]

    def load(self) -> tuple[Graph, dict[str, Any]]:
        """The graph, with constants promoted to inputs, and the feeds."""
        graph = amanda.load(self.model, format="tensorflow")
        ops = {op.name: op for op in graph}
        feeds = {key.split(":")[0]: value for key, value in self.inputs.items()}
        for name in self.promotable:
            constant = ops[name]
            tensor = constant.attrs["value"]
            attrs = {"dtype": tensor.dtype, "shape": Shape(list(tensor.shape))}
            made = graph.add("Placeholder", [], attrs)
            made.output.type = TensorType(tensor.dtype, tensor.shape)
            graph.replace_uses(constant.output, made.output)
            graph.remove(constant)
            graph.rename(made, name)
            ops[name], feeds[name] = made, tensor.numpy()
        for key in self.outputs:
            name, index = key.rsplit(":", 1)
            graph.result(ops[name].outputs[int(index)], key)
        return graph, feeds

    def difference(self, results: dict[str, Any]) -> str | None:
        """How results differ from TensorFlow's; None where they do not."""
        for key, expected in self.outputs.items():
            got = np.asarray(results[key])
            if got.shape != expected.shape:
                return f"{key}: shape {got.shape}, expected {expected.shape}"
            if got.dtype.kind in "OSU":
                same = [_text(v) for v in got.flat] == [_text(v) for v in expected.flat]
            elif expected.dtype.kind in "fc":
                wide = got.astype(expected.dtype)
                same = np.allclose(
                    wide, expected, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True
                )
            else:
                same = np.array_equal(got, expected)
            if not same:
                return f"{key}: other values"
        return None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@cache
def read_frozen_graphs() -> list[FrozenGraph]:
    """All graphs of the set; none where it is absent."""
    root = os.environ.get("AMANDA_TEST_DATA")
    file = Path(root or "", "tf_graphs", "tf_graphs_dev.tar.gz")
    if root is None or not file.is_file():
        return []
    with tarfile.open(file) as archive:
        members = {m.name.split("/", 1)[1]: m for m in archive if "/" in m.name}
        read = lambda name: archive.extractfile(members[name]).read()  # noqa: E731
        found = []
        for case in json.loads(read("index.json"))["cases"]:
            name = case["name"]
            arrays = [
                dict(np.load(io.BytesIO(read(f"{name}/{part}.npz"))))
                if f"{name}/{part}.npz" in members
                else {}
                for part in ("inputs", "outputs")
            ]
            model = read(f"{name}/model.pb")
            found.append(FrozenGraph(name, model, *arrays, case["promotable"]))
    return found


@pytest.fixture(scope="session")
def frozen_graphs() -> list[FrozenGraph]:
    """All 922 graphs; the test is skipped where they are absent."""
    found = read_frozen_graphs()
    if not found:
        pytest.skip("needs tf_graphs in AMANDA_TEST_DATA")
    return found
