"""Models that PyTorch exports: equal results on numpy, and no more nodes after."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest

import amanda
from amanda_onnx.format import Format

pytestmark = [pytest.mark.filterwarnings("ignore")]


def residual(torch):
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(
                nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                nn.MaxPool2d(3, 2, 1),
            )  # fmt: skip
            self.one = nn.Sequential(
                nn.Conv2d(8, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU6(),
                nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Hardswish(),
            )  # fmt: skip
            self.two = nn.Conv2d(8, 16, 1, 2)
            self.head = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(16, 5)
            )

        def forward(self, x):
            y = self.stem(x)
            return self.head(torch.relu(self.one(y) + self.two(y)))

    return Residual(), (torch.randn(2, 3, 32, 32),)


def transformer(torch):
    nn = torch.nn

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 16)
            self.places = nn.Embedding(20, 16)
            self.parts = nn.Linear(16, 48)
            self.norm = nn.LayerNorm(16)
            self.wide, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)

        def forward(self, ids):
            batch, length = ids.shape
            x = self.words(ids) + self.places(torch.arange(length))
            q, k, v = (
                part.view(batch, length, 4, 4).transpose(1, 2)
                for part in self.parts(self.norm(x)).chunk(3, -1)
            )
            seen = torch.ones(length, length).tril().bool()
            weights = (q @ k.transpose(-1, -2) / 2).masked_fill(~seen, -1e9)
            y = (weights.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, 16)
            x = x + y
            return x + self.narrow(nn.functional.gelu(self.wide(x)))

    return Transformer(), (torch.randint(0, 50, (2, 7)),)


@pytest.mark.parametrize("make", [residual, transformer])
def test_an_exported_model(make):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module, args = make(torch)
    module.eval()
    raw = io.BytesIO()
    torch.onnx.export(module, args, raw, dynamo=False, input_names=["x"],
                      dynamic_axes={"x": {0: "batch"}}, opset_version=17)  # fmt: skip
    graph = amanda.load(raw.getvalue(), format="onnx")
    with torch.no_grad():
        want = module(*args).numpy()
    std = amanda.convert(graph, "std")
    back = amanda.convert(std, graph.namespace)
    feeds = {"x": args[0].numpy()}
    for each in (graph, std, back):
        (found,) = amanda.run(each, feeds, backend="numpy").values()
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    nodes = [
        len(onnx.load_from_string(data).graph.node)
        for data in (raw.getvalue(), Format().dumps(back))
    ]
    assert nodes[1] <= nodes[0]
