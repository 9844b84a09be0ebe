"""The inherited suite, and real networks through lowering."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from models.architectures import export

import amanda
from amanda.testing import BackendSuite, PluginSuite
from amanda_example_torch import Backend, kernels
from amanda_std.ops import OPS

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch, while it exports


class TestPlugin(PluginSuite):
    dist = "amanda-example-torch"


class TestBackend(BackendSuite):
    backend = "example-torch"
    late = ("numpy", "torch")


def run_exported(name: str, folder: Path, *, small: bool) -> None:
    for module in ("amanda_onnx", "onnxscript", "transformers"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    model = export(name, folder, small=small)
    graph = amanda.load(model.path)
    results = amanda.run(graph, model.feeds, backend="example-torch")
    for result, expected in zip(results.values(), model.expected, strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(result, expected, atol=1e-4 * scale)


def test_twenty_kernels() -> None:
    assert len(kernels()) == 20
    assert [name for name in kernels() if OPS[name].is_composite] == []


@pytest.mark.parametrize("name", ["ResNet-50", "BERT-base"])
def test_a_small_network(name: str, tmp_path: Path) -> None:
    run_exported(name, tmp_path, small=True)


@pytest.mark.models
@pytest.mark.parametrize("name", ["ResNet-50", "BERT-base"])
def test_a_network_of_full_size(name: str, tmp_path: Path) -> None:
    run_exported(name, tmp_path, small=False)


def test_an_op_that_nothing_replaces_is_named() -> None:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[3]"), name="x")
    graph.result(graph.add("sin", [x]).output, name="y")
    with pytest.raises(amanda.AmandaError, match="there is no kernel for sin"):
        amanda.compile(graph, backend=Backend.name)
