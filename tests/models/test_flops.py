"""Counts of the tool `flops` equal published figures, and those of PyTorch and XLA."""

from __future__ import annotations

import pytest
from models.architectures import ARCHITECTURES, Architecture, make_input
from models.architectures import build_network as build_architecture
from models.differentiable import NETWORKS, build_network

pytestmark = pytest.mark.filterwarnings("ignore")  # by PyTorch's exporter

TOLERANCE = 0.01
OF_XLA = 0.02
IN_CI = ("BERT", "LSTM", "MobileNetV2")
PUBLISHED = {"ResNet-50": 4.09e9, "BERT-base": 11.2e9, "MobileNetV2": 0.30e9}
"""Multiply-accumulates of one example: He et al. 2015 (as torchvision counts, with the
stride in the 3x3 convolution), Devlin et al. 2018 of 128 tokens without embeddings,
Sandler et al. 2018."""
MOBILENET = Architecture(
    "MobileNetV2ForImageClassification", "MobileNetV2Config", {"num_labels": 1000}, {}
)


@pytest.fixture(autouse=True)
def _installed():
    for name in ("torch", "transformers", "amanda_torch", "amanda_tools"):
        pytest.importorskip(name, reason=f"{name} is not installed")


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("name", IN_CI)
def test_products_are_those_that_pytorch_counts(name, tmp_path):
    check_with_pytorch(*build_network(name), tmp_path)


@pytest.mark.models
@pytest.mark.parametrize("name", [*NETWORKS, *ARCHITECTURES, "MobileNetV2-1.0"])
def test_products_of_20_networks(name, tmp_path):
    if name in NETWORKS:
        module, x = build_network(name)
    elif name in ARCHITECTURES:
        module = build_architecture(name, small=False)
        x = make_input(ARCHITECTURES[name], batch=1, small=False)
    else:
        module, x = build_mobilenet()
    check_with_pytorch(module, x, tmp_path)


@pytest.mark.models
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts(name, tmp_path):
    if name == "MobileNetV2":
        module, x = build_mobilenet()
    else:
        module = build_architecture(name, small=False)
        x = make_input(ARCHITECTURES[name], batch=1, small=False)
    report = count(module, x, tmp_path).report
    expected = PUBLISHED[name]
    assert report.summary["MACs"] == pytest.approx(expected, rel=TOLERANCE)


LARGER = [pytest.param(name, marks=pytest.mark.models) for name in ("T5", "llama")]


@pytest.mark.most_cases(2)
@pytest.mark.parametrize("name", ["GPT-2", "ViT", *LARGER])
def test_operations_are_those_that_xla_counts(name, tmp_path):
    """XLA counts all operations, as the tool does.

    Elsewhere they differ by definition: XLA leaves out the products of convolutions
    with padding, and counts the polynomials that it computes erf with."""
    import jax

    import amanda
    from amanda_jax import as_function

    module, x = build_network(name)
    found = count(module, x, tmp_path)
    with jax.enable_x64(True):
        function, weights = as_function(amanda.convert(found.graph, "std"))
        lowered = jax.jit(function).lower(weights, x.numpy())
        analysis = lowered.compile().cost_analysis()
    assert found.report.summary["FLOPs"] == pytest.approx(analysis["flops"], rel=OF_XLA)


def build_mobilenet():
    import torch
    import transformers

    config = transformers.MobileNetV2Config(num_labels=1000)
    return transformers.MobileNetV2ForImageClassification(config).eval(), torch.randn(
        1, 3, 224, 224
    )


def count(module, x, folder):
    """The instrumented graph of a module, with the counts in its report."""
    import torch

    import amanda
    from amanda_tools.analysis.flops import Flops

    with torch.no_grad():
        program = torch.export.export(module, (x,), strict=False)
    torch.export.save(program, folder / "model.pt2")
    return amanda.apply(amanda.load(folder / "model.pt2"), Flops())


def check_with_pytorch(module, x, folder):
    """PyTorch counts products of matrices and convolutions, two FLOPs each.

    Its counter does not see within fused kernels of attention and LSTMs of CPUs."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    for each in module.modules():
        if hasattr(each, "set_attn_implementation"):
            each.set_attn_implementation("eager")
    found = count(module, x, folder).report
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
        module(x)
    expected = counter.get_total_flops()
    assert expected > 0
    assert 2 * found.summary["MACs"] == pytest.approx(expected, rel=TOLERANCE)
