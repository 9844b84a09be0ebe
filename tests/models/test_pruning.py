"""Networks without some channels equal those with the channels masked."""

from __future__ import annotations

import numpy as np
import pytest
from models.architectures import ARCHITECTURES, Architecture, make_input
from models.architectures import build_network as build_architecture
from models.differentiable import build_network

pytestmark = pytest.mark.filterwarnings("ignore")  # by PyTorch's exporter

BACKENDS = ("numpy", "jax", "onnxruntime")
SMALL = {"BERT": 4, "GPT-2": 4, "MobileNetV2": 25, "ResNet": 9}
"""Groups: those of BERT and GPT-2 are the heads and the inner layer of each block."""
FULL = {"ResNet-50": 37, "BERT-base": 24, "MobileNetV2": 25}
"""ResNet-50 has two in each of its 16 blocks, four joined by residual connections, and
one of the first layer."""
MOBILENET = Architecture(
    "MobileNetV2ForImageClassification", "MobileNetV2Config", {"num_labels": 1000},
    {"num_labels": 5},
)  # fmt: skip


@pytest.fixture(autouse=True)
def _installed():
    for name in ("torch", "transformers", "amanda_torch", "amanda_jax", "amanda_tools"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


CASES = [("BERT", "torch"), ("BERT", "onnx"), ("GPT-2", "onnx"),
         ("MobileNetV2", "tensorflow"), ("ResNet", "torch")]  # fmt: skip


@pytest.mark.most_cases(2)
@pytest.mark.parametrize(("name", "namespace"), CASES)
def test_pruned_networks(name, namespace, tmp_path):
    graph, x = export(*build_network(name), tmp_path)
    check_pruned(graph, x, SMALL[name], namespace, tmp_path)


@pytest.mark.models
@pytest.mark.parametrize("namespace", ["torch", "onnx", "tensorflow"])
@pytest.mark.parametrize("name", SMALL)
def test_all_pruned_networks(name, namespace, tmp_path):
    graph, x = export(*build_network(name), tmp_path)
    check_pruned(graph, x, SMALL[name], namespace, tmp_path)


@pytest.mark.parametrize("name", ["BERT"])
def test_pruning_by_gradient(name, tmp_path):
    """The criterion chooses other channels than magnitude does."""
    import amanda
    from amanda_tools.pruning.prune import Prune

    graph, x = export(*build_network(name), tmp_path)
    options = {"kind": "channels", "ratio": 0.5, "criterion": "gradient"}
    pruned = amanda.apply(graph, Prune(**options), data=[[x]])
    masked = amanda.apply(graph, Prune(**options, mask=True), data=[[x]])
    found, expected = (first_result(g.graph, x, "numpy") for g in (pruned, masked))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    other = amanda.apply(graph, Prune(kind="channels", ratio=0.5))
    assert np.abs(first_result(other.graph, x, "numpy") - found).max() > 1e-4


@pytest.mark.models
@pytest.mark.parametrize("namespace", ["torch", "onnx", "tensorflow"])
@pytest.mark.parametrize("name", FULL)
def test_pruned_networks_of_full_size(name, namespace, tmp_path):
    if name == "MobileNetV2":
        module, x = build_mobilenet()
    else:
        module = build_architecture(name, small=False)
        x = make_input(ARCHITECTURES[name], batch=1, small=False)
    graph, x = export(module, x, tmp_path)
    check_pruned(graph, x, FULL[name], namespace, tmp_path)


def build_mobilenet():
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.MobileNetV2Config(**MOBILENET.full)
    module = transformers.MobileNetV2ForImageClassification(config).eval()
    return module, torch.randn(1, 3, 224, 224)


def export(module, x, folder):
    import torch

    import amanda

    with torch.no_grad():
        program = torch.export.export(module, (x,), strict=False)
    torch.export.save(program, folder / "model.pt2")
    return amanda.load(folder / "model.pt2"), x.detach().numpy()


def check_pruned(graph, x, groups, namespace, folder):
    """Half of the channels are removed: on all backends, and as an ONNX file."""
    import amanda
    from amanda_tools.pruning.prune import Prune

    graph = amanda.convert(graph, namespace)
    pruned = amanda.apply(graph, Prune(kind="channels", ratio=0.5))
    masked = amanda.apply(graph, Prune(kind="channels", ratio=0.5, mask=True))
    expected = first_result(masked.graph, x, "numpy")
    summary = pruned.report.summary
    assert summary["groups of channels"] == groups
    assert summary["weights after"] < summary["weights before"]
    assert summary["MACs after"] < 0.7 * summary["MACs before"]
    tolerance = {"rtol": 1e-4, "atol": 1e-4 * max(1.0, np.abs(expected).max())}
    for backend in BACKENDS:
        found = first_result(pruned.graph, x, backend)
        np.testing.assert_allclose(found, expected, **tolerance)
    amanda.save(amanda.convert(pruned.graph, "onnx"), folder / "pruned.onnx")
    again = first_result(amanda.load(folder / "pruned.onnx"), x, "onnxruntime")
    np.testing.assert_allclose(again, expected, **tolerance)
    plain = first_result(graph, x, "numpy")
    assert np.abs(plain - expected).max() > 1e-3 * np.abs(plain).max()


def first_result(graph, x, backend):
    import amanda

    return np.asarray(next(iter(amanda.run(graph, [x], backend=backend).values())))
