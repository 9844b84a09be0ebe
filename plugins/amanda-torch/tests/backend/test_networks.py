"""Networks that PyTorch exports, run by the backend `torch`: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from models.architectures import ARCHITECTURES, build_network, export

import amanda

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch, while it exports

IN_CI = [("ResNet-50", False)]


@pytest.fixture(autouse=True)
def _installed():
    for name in ("torch", "transformers", "onnxscript", "amanda_onnx"):
        pytest.importorskip(name, reason=f"{name} is not installed")


@pytest.mark.parametrize(("name", "dynamic"), IN_CI)
def test_small_network(name, dynamic, tmp_path):
    check_network(name, tmp_path, dynamic=dynamic)


@pytest.mark.models
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_small_network(name, dynamic, tmp_path):
    check_network(name, tmp_path, dynamic=dynamic)


def check_network(name, folder, *, dynamic):
    import torch

    exported = export(name, folder, small=True, dynamic=dynamic)
    compiled = amanda.compile(amanda.load(exported.path), "torch", "cpu")
    results = compiled(exported.feeds).values()
    for result, expected in zip(results, exported.expected, strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(result, expected, atol=1e-5 * scale)
    x = torch.from_numpy(exported.feeds["x"])
    if not x.is_floating_point():
        return
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    sum(y.square().sum() for y in compiled([ours]).values()).backward()
    module = build_network(name, small=True)
    sum(y.square().sum() for y in module(theirs)).backward()
    scale = float(theirs.grad.abs().max())
    np.testing.assert_allclose(ours.grad, theirs.grad, atol=1e-4 * scale)
