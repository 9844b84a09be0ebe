"""Models of PyTorch as C: equal to the backend numpy and to PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("amanda_torch")

from c_programs import assert_equals_numpy  # noqa: E402
from native_libraries import needs_compiler  # noqa: E402
from torch import nn  # noqa: E402

import amanda  # noqa: E402

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore"),  # of PyTorch, while it exports
]


def separable(inputs: int, outputs: int, stride: int) -> Any:
    """A depthwise and a pointwise convolution, as in MobileNet."""
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
        nn.BatchNorm2d(inputs),
        nn.ReLU6(),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class Residual(nn.Module):  # type: ignore[misc]
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: Any) -> Any:
        return torch.relu(x + self.inner(x))


class LastOf(nn.Module):  # type: ignore[misc]
    """The last output of a recurrent network, classified."""

    def __init__(self, kind: Any, inputs: int, hidden: int) -> None:
        super().__init__()
        self.cell = kind(inputs, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.cell(x)[0][:, -1])


class Words(nn.Module):  # type: ignore[misc]
    """The mean of embeddings, classified."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        return torch.log_softmax(self.head(self.table(x).mean(1)), -1)


class SqueezeExcite(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, 2, 1)
        self.down, self.up = nn.Linear(8, 4), nn.Linear(4, 8)

    def forward(self, x: Any) -> Any:
        y = nn.functional.hardswish(self.conv(x))
        weight = torch.sigmoid(self.up(torch.relu(self.down(y.mean((2, 3))))))
        return (y * weight[:, :, None, None]).amax((2, 3))


class UNet(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.deep = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, 2, 1)
        self.last = nn.Conv2d(12, 2, 1)

    def forward(self, x: Any) -> Any:
        a = torch.relu(self.first(x))
        b = nn.functional.interpolate(torch.relu(self.deep(a)), scale_factor=2)
        return torch.softmax(self.last(torch.cat([a, b], 1)), 1)


class Gated(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.both = nn.LayerNorm(24), nn.Linear(24, 32)

    def forward(self, x: Any) -> Any:
        a, b = self.both(self.norm(x)).chunk(2, -1)
        return a * nn.functional.gelu(b)


def image(*shape: int) -> Callable[[], Any]:
    return lambda: torch.randn(*shape)


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)),
        image(3, 16),
    ),
    "mobilenet": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU6(), separable(8, 16, 1),
            separable(16, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(16, 10),
        ),
        image(1, 3, 32, 32),
    ),
    "keyword spotting": (  # DS-CNN on 49 frames of 10 coefficients
        lambda: nn.Sequential(
            nn.Conv2d(1, 16, (10, 4), (2, 2), (5, 1)), nn.BatchNorm2d(16), nn.ReLU(),
            separable(16, 16, 1), separable(16, 16, 1), nn.AvgPool2d((5, 5)),
            nn.Flatten(), nn.Linear(80, 12), nn.Softmax(-1),
        ),
        image(1, 1, 49, 10),
    ),
    "lstm": (lambda: LastOf(nn.LSTM, 6, 12), image(1, 20, 6)),
    "gru": (lambda: LastOf(nn.GRU, 6, 12), image(2, 10, 6)),
    "residual": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), Residual(8), nn.MaxPool2d(3, 2, 1),
            Residual(8), nn.Flatten(), nn.Linear(512, 10),
        ),
        image(1, 3, 16, 16),
    ),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True),
        image(1, 7, 16),
    ),
    "temporal convolution": (
        lambda: nn.Sequential(
            nn.Conv1d(4, 8, 3, dilation=1), nn.ReLU(), nn.Conv1d(8, 8, 3, dilation=4),
            nn.ELU(), nn.Conv1d(8, 2, 1),
        ),
        image(2, 4, 40),
    ),
    "volume": (
        lambda: nn.Sequential(
            nn.Conv3d(1, 4, 3), nn.LeakyReLU(), nn.MaxPool3d(2), nn.Flatten(),
            nn.Linear(108, 3),
        ),
        image(1, 1, 8, 8, 8),
    ),
    "autoencoder": (
        lambda: nn.Sequential(
            nn.Linear(20, 8), nn.Softplus(), nn.Linear(8, 20), nn.Sigmoid()
        ),
        image(4, 20),
    ),
    "words": (Words, lambda: torch.randint(0, 50, (2, 9))),
    "squeeze and excite": (SqueezeExcite, image(1, 3, 16, 16)),
    "u-net": (UNet, image(1, 1, 16, 16)),
    "gated": (Gated, image(5, 24)),
}  # fmt: skip


@pytest.mark.most_cases(6)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_equals_numpy_and_pytorch(name: str, tmp_path: Path) -> None:
    build, feed = MODELS[name]
    torch.manual_seed(0)
    module, fed = build().eval(), feed()
    with torch.no_grad():
        program = torch.export.export(module, (fed,))
        expected = module(fed).numpy()
    graph = amanda.load(program)
    files, (found,) = assert_equals_numpy(graph, [fed.numpy()], tmp_path)
    np.testing.assert_allclose(found, expected, atol=3e-5 * np.abs(expected).max())
    assert files.kernels
