"""A tool of a user, on an exported program: what hooks of PyTorch see."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch", reason="torch is not installed")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "relu_statistics.py"


def load_tool():
    spec = spec_from_file_location("relu_statistics", EXAMPLE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ReluStatistics()


def build_network():
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.ReLU(),
        torch.nn.Conv2d(4, 2, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 3),
    )
    return network, torch.randn(2, 1, 8, 8)


def expected_by_hooks(network, x):
    """Histograms of the activations and norms of their gradients, by hooks."""
    activations, norms = [], {}

    def observe(index, value):
        activations.append(value.detach())
        value.register_hook(lambda g: norms.update({index: float(g.norm())}))

    relus = [m for m in network if isinstance(m, torch.nn.ReLU)]
    for index, module in enumerate(relus):
        module.register_forward_hook(lambda _, __, y, i=index: observe(i, y))
    network(x).sum().backward()
    clipped = [np.clip(y.numpy(), 0, 40) for y in activations]
    counts = [np.histogram(y, 8, (0, 40))[0] for y in clipped]
    return counts, [norms[i] for i in range(len(relus))]


@pytest.mark.parametrize("backend", ["numpy", "jax", "onnxruntime"])
def test_histograms_and_gradients(backend):
    network, x = build_network()
    graph = amanda.load(torch.export.export(network, (x,)))
    instrumented = amanda.apply(graph, load_tool())
    instrumented.run([x.numpy()], backend)
    counts, norms = expected_by_hooks(network, x)
    report = instrumented.report
    found = list(report["histogram from 0 to 40"].values())
    np.testing.assert_array_equal(np.stack(found), np.stack(counts))
    np.testing.assert_allclose(list(report["gradient norm"].values()), norms, rtol=1e-4)
    assert [row.scope for row in report.select("gradient norm")] == ["1", "3"]


def test_the_example_is_short():
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("class "))
    end = next(i for i, line in enumerate(lines) if line.startswith("def main"))
    assert end - start <= 30
