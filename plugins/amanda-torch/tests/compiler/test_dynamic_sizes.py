"""`torch.compile`: one mapping serves all sizes, forward and backward."""

from __future__ import annotations

import importlib.util

import pytest

import amanda

torch = pytest.importorskip("torch")

OTHERS = [b for b in ("jax", "onnxruntime") if importlib.util.find_spec(f"amanda_{b}")]
BACKENDS = ["torch", *OTHERS, "numpy"]
SIZES = ((3, 4), (5, 6), (7, 2), (9, 11))


class Model(torch.nn.Module):
    """Sizes as arguments of ops, in arithmetic, and as a result."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16)

    def forward(self, x):
        y = self.norm(torch.relu(self.linear(x)))
        flat = y.reshape(x.shape[0] * x.shape[1], 16).softmax(-1)
        return flat / x.shape[1], x.shape[0] * 2, y.transpose(0, 1)


@pytest.fixture
def counts(monkeypatch):
    """The graphs of Dynamo, the conversions to the hub, and the compiled graphs."""
    from torch._dynamo.utils import counters

    torch.compiler.reset()
    counters.clear()
    found = {"conversions": 0, "compiled": []}
    convert, compile_graph = amanda.convert, amanda.compile

    def counting_convert(*args, **kwargs):
        found["conversions"] += 1
        return convert(*args, **kwargs)

    def recording_compile(*args, **kwargs):
        found["compiled"].append(compile_graph(*args, **kwargs))
        return found["compiled"][-1]

    monkeypatch.setattr(amanda, "convert", counting_convert)
    monkeypatch.setattr(amanda, "compile", recording_compile)
    found["graphs"] = lambda: counters["stats"]["unique_graphs"]
    return found


def check_forward(model, compiled, sizes=SIZES):
    for size in sizes:
        x = torch.randn(*size, 8)
        with torch.no_grad():
            found, expected = compiled(x), model(x)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def compile_model(model, backend, **more):
    return torch.compile(model, backend="amanda", options={"backend": backend}, **more)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_mapping_and_one_executable_serve_all_sizes(backend, counts):
    model = Model()
    check_forward(model, compile_model(model, backend, dynamic=True))
    assert counts["graphs"]() == counts["conversions"] == len(counts["compiled"]) == 1
    if backend == "jax":  # XLA has a program for each size
        report = counts["compiled"][0].executable.report()
        assert report.pieces == report.programs == 1
        assert report.compilations == len(SIZES)


def test_the_second_size_makes_a_dynamic_graph_and_no_other_follows(counts):
    model = Model()
    check_forward(model, compile_model(model, "torch"))
    assert counts["graphs"]() == counts["conversions"] == len(counts["compiled"]) == 2


def test_a_size_marked_dynamic_is_so_from_the_first_call(counts):
    model = torch.nn.Linear(8, 4)
    compiled = compile_model(model, "torch")
    for size in (3, 5, 7):
        x = torch.randn(size, 8)
        torch._dynamo.mark_dynamic(x, 0)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
    assert counts["graphs"]() == counts["conversions"] == 1


@pytest.mark.parametrize("backend", BACKENDS[:2])
def test_gradients_of_all_sizes_have_one_mapping(backend, counts):
    model = Model()
    compiled = compile_model(model, backend, dynamic=True)
    for size in SIZES[:3]:
        x = torch.randn(*size, 8, requires_grad=True)
        found, expected = (
            torch.autograd.grad(
                f(x)[0].sin().sum() + f(x)[2].cos().sum(), [x, *model.parameters()]
            )
            for f in (compiled, model)
        )
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert counts["graphs"]() == 1
    assert counts["conversions"] == len(counts["compiled"]) == 2
