"""`torch.compile` without options: weights are constants while they do not change."""

from __future__ import annotations

import gc
import weakref

import pytest

import amanda

torch = pytest.importorskip("torch")


class Recorder:
    """The numbers of inputs of the graphs compiled, and the executables alive."""

    def __init__(self, monkeypatch):
        self.inputs, self.alive = [], weakref.WeakSet()
        compile_graph = amanda.compile

        def recording_compile(graph, *args, **kwargs):
            self.inputs.append(len(graph.parameters))
            compiled = compile_graph(graph, *args, **kwargs)
            self.alive.add(compiled.executable)
            return compiled

        monkeypatch.setattr(amanda, "compile", recording_compile)


@pytest.fixture
def recorder(monkeypatch):
    return Recorder(monkeypatch)


def build_model():
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)
    ).eval()


def compile_model(model, **options):
    torch.compiler.reset()
    return torch.compile(model, backend="amanda", options=options)


CHANGES = {
    "in place": lambda w: w.mul_(2.0),
    "one element": lambda w: w.view(-1)[:1].zero_(),
    "new data": lambda w: setattr(w, "data", torch.randn_like(w)),
    "through data": lambda w: w.data.mul_(-1.5),
    "a tenth through data": lambda w: w.data.view(-1)[::10].zero_(),
    "through NumPy": lambda w: w.detach().numpy().__imul__(3),
}


@pytest.mark.parametrize("layer", [0, 4])
@pytest.mark.parametrize("change", CHANGES)
def test_changed_weights_are_used(change, layer, recorder):
    model = build_model()
    compiled, x = compile_model(model), torch.randn(2, 2, 5, 5)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-5)
        CHANGES[change](model[layer].weight)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-5)
    assert recorder.inputs == [1, 9, 1]


@pytest.mark.parametrize("shape", [(64, 64), (3, 700), (2000,)])
def test_a_tenth_of_a_large_weight_is_pruned_through_data(shape):
    """Places that are compared have all elements of 32 bytes."""
    from amanda_torch.compiler.weights import FrozenWeights

    weight = torch.randn(shape).permute(*reversed(range(len(shape))))
    frozen = FrozenWeights([weight], [0])
    frozen.take_samples()
    assert frozen.are_current([weight])
    generator = torch.Generator().manual_seed(3)
    weight.data[torch.rand(weight.shape, generator=generator) < 0.1] = 0
    assert not frozen.are_current([weight])


def test_optimizer_steps_and_loaded_weights_are_used(recorder):
    model, other = build_model(), build_model()
    compiled, x = compile_model(model), torch.randn(2, 2, 5, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def check():
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-5)

    check()
    model(x).square().sum().backward()
    optimizer.step()
    check()
    model.load_state_dict(other.state_dict())
    check()
    model[1].running_var.add_(1.0)
    check()


def test_weights_that_change_in_every_call_are_inputs(recorder):
    model = build_model()
    compiled, x = compile_model(model), torch.randn(2, 2, 5, 5)
    with torch.no_grad():
        for _ in range(8):
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-5)
            model[4].weight.add_(0.1)
    assert recorder.inputs == [1, 9]


def test_each_useless_executable_doubles_the_calls_before_the_next(recorder):
    model = torch.nn.Linear(3, 2)
    compiled, x = compile_model(model), torch.randn(2, 3)
    counts = []
    with torch.no_grad():
        for calls in (2, 4, 8):
            for _ in range(calls):
                torch.testing.assert_close(compiled(x), model(x))
            model.weight.add_(0.1)
            counts.append(recorder.inputs.count(1))
        for _ in range(4):
            compiled(x)
        counts.append(recorder.inputs.count(1))
        compiled(x)
        counts.append(recorder.inputs.count(1))
    assert counts == [1, 2, 3, 3, 4]


def test_weights_of_a_model_that_is_dropped_are_freed(recorder):
    model = build_model()
    compiled = compile_model(model)
    with torch.no_grad():
        compiled(torch.randn(2, 2, 5, 5))
    assert len(recorder.alive) == 1
    memory = weakref.ref(model[4].weight)
    del model, compiled
    gc.collect()
    assert memory() is None
    assert len(recorder.alive) == 0


def test_weights_whose_writes_are_not_counted_are_inputs(recorder):
    with torch.inference_mode():
        model = torch.nn.Linear(3, 2)
        compiled, x = compile_model(model), torch.randn(2, 3)
        for _ in range(3):
            torch.testing.assert_close(compiled(x), model(x))
            model.weight.add_(1.0)
    assert recorder.inputs == [3]


def test_weights_are_inputs_where_that_is_wanted_or_the_backend_is_slow(recorder):
    model, x = torch.nn.Linear(3, 2), torch.randn(2, 3)
    with torch.no_grad():
        for options in ({"freeze": False}, {"backend": "numpy"}):
            torch.testing.assert_close(compile_model(model, **options)(x), model(x))
    assert recorder.inputs == [3, 3]


def test_results_have_the_order_of_axes_that_pytorch_expects():
    model = torch.nn.Conv2d(2, 4, 3)
    x = torch.randn(2, 2, 5, 5)
    with torch.no_grad():
        y = compile_model(model)(x)
    assert y.is_contiguous()
    assert y.view(-1).shape == (2 * 4 * 9,)
