"""The inherited suite, and real networks through lowering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from models.architectures import export

import amanda
from amanda.testing import BackendSample, BackendSuite, PluginSuite
from amanda_example_torch import Backend
from amanda_example_torch.kernels import KERNELS
from amanda_std.backends import op_samples
from amanda_std.ops import OPS

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch, while it exports


class TestPlugin(PluginSuite):
    dist = "amanda-example-torch"


class TestBackend(BackendSuite):
    backend = "example-torch"
    late = ("numpy", "torch")

    def samples(self) -> Mapping[str, Callable[[], BackendSample]]:
        """The hub's own samples of each kernel, with results by independent oracles."""
        return op_samples(KERNELS, most=3, takes=Backend().takes)


def assert_exported_runs(name: str, folder: Path, *, small: bool) -> None:
    for module in ("amanda_onnx", "onnxscript", "transformers"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    model = export(name, folder, small=small)
    graph = amanda.load(model.path)
    results = amanda.run(graph, model.feeds, backend="example-torch")
    for result, expected in zip(results.values(), model.expected, strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(result, expected, atol=1e-4 * scale)


def test_kernels_are_of_primitives() -> None:
    assert len(KERNELS) == 36
    assert [name for name in KERNELS if OPS[name].is_composite] == []
    assert {name.rpartition("_")[0] for name in TestBackend().samples()} == {*KERNELS}


@pytest.mark.parametrize("computed", [False, True])
def test_shape_arguments_arrive_as_integers(computed: bool) -> None:
    """As attributes, and computed from what is fed."""
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[4, 6]"), "x")
    n = graph.parameter(amanda.parse_type("int64[2]"), "n")
    if computed:
        twice = graph.add("add", [n, n]).output
        graph.result(graph.add("slice", [x, n, twice]).output, "y")
    else:
        attrs = {"starts": [1, 2], "stops": [2, 4]}
        graph.result(graph.add("slice", [x], attrs).output, "y")
    fed = np.arange(24, dtype="float32").reshape(4, 6)
    found = amanda.run(graph, [fed, np.array([1, 2])], backend=Backend.name)["y"]
    np.testing.assert_array_equal(found, fed[1:2, 2:4])


@pytest.mark.parametrize("name", ["ResNet-50", "BERT-base"])
def test_a_small_network(name: str, tmp_path: Path) -> None:
    assert_exported_runs(name, tmp_path, small=True)


@pytest.mark.models
@pytest.mark.parametrize("name", ["ResNet-50", "BERT-base"])
def test_a_network_of_full_size(name: str, tmp_path: Path) -> None:
    assert_exported_runs(name, tmp_path, small=False)


def test_an_op_that_nothing_replaces_is_named() -> None:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[3]"), name="x")
    graph.result(graph.add("tan", [x]).output, name="y")
    with pytest.raises(amanda.AmandaError, match="there is no kernel for tan"):
        amanda.compile(graph, backend=Backend.name)
