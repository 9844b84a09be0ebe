"""`torch.compile` with the backend `amanda`: values, training, what PyTorch runs."""

from __future__ import annotations

import copy
import importlib.util
import math
import warnings

import pytest

import amanda
from amanda.errors import AmandaWarning, UsageError
from amanda_std import ops, trace

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


class Formulas(torch.nn.Module):
    """GELU as libraries write it."""

    def forward(self, x):
        cubic = x + 0.044715 * torch.pow(x, 3.0)
        y = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * cubic))
        return y + x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def op_types(compiled):
    return [each.type for each in compiled.executable.report().implementations]


@pytest.fixture
def executables(monkeypatch):
    found = []
    compile_graph = amanda.compile

    def recording_compile(*args, **kwargs):
        found.append(compile_graph(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr(amanda, "compile", recording_compile)
    return found


def test_gradients_of_layers_are_ops_of_pytorch(executables):
    model = torch.nn.Sequential(torch.nn.LayerNorm(8), Formulas())
    x = torch.randn(3, 8, requires_grad=True)
    found, expected = (
        torch.autograd.grad(f(x).square().sum(), [x, *model.parameters()])
        for f in (compile_model(model, "torch"), model)
    )
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    forward, backward = map(op_types, executables)
    assert forward.count("gelu") == 2
    assert "aten.native_layer_norm.default" in forward
    assert backward.count("aten.gelu_backward.default") == 2
    assert backward.count("aten.native_layer_norm_backward.default") == 1
    assert {"tanh", "erf", "pow"}.isdisjoint({*forward, *backward})


def test_attention_draws_no_numbers_without_dropout(executables):
    q = torch.randn(2, 3, 5, 4, requires_grad=True)
    compiled = compile_model(torch.nn.functional.scaled_dot_product_attention, "torch")
    state = torch.get_rng_state()
    compiled(q, q, q).sum().backward()
    assert torch.equal(torch.get_rng_state(), state)
    name = "aten._scaled_dot_product_flash_attention_for_cpu"
    forward, backward = map(op_types, executables)
    assert forward.count(f"{name}.default") == 1
    assert backward.count(f"{name}_backward.default") == 1


def test_two_dropouts_of_one_value_are_different():
    def drop_twice(x):
        return [torch.nn.functional.dropout(x, 0.5) for _ in range(2)]

    x = torch.ones(64, 64, requires_grad=True)
    first, second = compile_model(drop_twice, "torch")(x)
    assert not torch.equal(first, second)


def test_values_that_the_backward_alone_reads_are_freed_in_it(executables):
    model = torch.nn.Sequential(*[torch.nn.Tanh() for _ in range(3)])
    compiled = compile_model(model, "torch")
    x = torch.randn(4, 4, requires_grad=True)
    compiled(x).sum().backward()
    _, backward = executables
    runner = backward.executable.steps
    slots = range(runner._inputs)
    assert {*slots} <= {place for step in runner.steps for place in step.drop}


@pytest.mark.parametrize("consumes", [False, True])
def test_results_that_are_feeds_are_copied_whether_feeds_are_freed(consumes):
    graph = trace(lambda x, y: (x, ops.reshape(y, [4]), x + y), ["float32[2,2]"] * 2)
    compiled = amanda.compile(graph, "torch:cpu")
    x, y = torch.rand(2, 2), torch.rand(2, 2)
    expected = x.clone(), y.clone().reshape(4), x + y
    for _ in range(2):
        found = [*(compiled.call_consuming([x, y]) if consumes
                   else compiled([x, y]).values())]  # fmt: skip
        torch.testing.assert_close(found, [*expected])
        at = {each.untyped_storage().data_ptr() for each in (x, y, *found)}
        assert len(at) == 5
