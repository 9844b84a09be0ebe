"""`torch.compile` with the backend `amanda`: values, training, what PyTorch runs."""

from __future__ import annotations

import copy
import importlib.util
import warnings

import pytest

from amanda.errors import AmandaWarning, UsageError

torch = pytest.importorskip("torch")

STEPS = 20
BACKENDS = ["torch"] + ["jax"] * bool(importlib.util.find_spec("amanda_jax"))
IN_CI = [("perceptron", BACKENDS[-1]), ("decoder", "torch"), ("convolutions", "torch")]


def perceptron():
    from torch.nn import GELU, LayerNorm, Linear, Sequential

    return Sequential(Linear(8, 16), GELU(), LayerNorm(16), Linear(16, 4))


class Decoder(torch.nn.Module):
    """A block of GPT-2, with embeddings and the head."""

    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(11, 16)
        self.places = torch.nn.Embedding(8, 16)
        self.first, self.second = torch.nn.LayerNorm(16), torch.nn.LayerNorm(16)
        self.project, self.join = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)
        self.up, self.down = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)
        self.head = torch.nn.Linear(16, 4)

    def forward(self, x):
        batch, length = x.shape
        h = self.tokens(x) + self.places(torch.arange(length))
        parts = self.project(self.first(h)).view(batch, length, 3, 2, 8)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) / 8**0.5
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, -1e9).softmax(-1)
        h = h + self.join((weights @ v).transpose(1, 2).reshape(batch, length, 16))
        return self.head(
            h + self.down(torch.nn.functional.gelu(self.up(self.second(h))))
        )


def convolutions():
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, stride=2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 4),
    )  # fmt: skip


MODELS = {
    "convolutions": (convolutions, lambda: torch.randn(5, 3, 10, 10)),
    "perceptron": (perceptron, lambda: torch.randn(5, 8)),
    "decoder": (Decoder, lambda: torch.randint(0, 11, (2, 6))),
}


def compile_model(model, backend):
    torch.compiler.reset()
    options = {"backend": backend}
    return torch.compile(model, backend="amanda", options=options, dynamic=False)


def losses(model, x, target):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (model(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize(("name", "backend"), IN_CI)
def test_training_is_that_of_pytorch(name, backend):
    check_training(name, backend)


@pytest.mark.models
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_training_on_every_backend(name, backend):
    check_training(name, backend)


def check_training(name, backend):
    torch.manual_seed(0)
    build, feed = MODELS[name]
    model, x = build(), feed()
    with warnings.catch_warnings():
        warnings.simplefilter("error", AmandaWarning)
        with torch.no_grad():
            y = compile_model(copy.deepcopy(model), backend)(x)
            torch.testing.assert_close(y, model(x), atol=1e-5, rtol=1e-5)
        target = torch.randn_like(y)
        ours = losses(compile_model(copy.deepcopy(model), backend), x, target)
    theirs = losses(model, x, target)
    assert theirs[-1] < theirs[0]
    assert ours == pytest.approx(theirs, abs=1e-4)


def test_the_backend_is_a_name():
    from amanda_torch.compiler import compile_module

    with pytest.raises(UsageError, match="option 'backend'"):
        compile_module(None, [], options={"backend": 1})
    with pytest.raises(UsageError, match="option 'freeze'"):
        compile_module(None, [], options={"freeze": "yes"})
