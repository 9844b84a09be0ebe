"""`torch.compile`: what PyTorch promises of a call holds for compiled graphs."""

from __future__ import annotations

import importlib.util
import warnings

import pytest

import amanda
from amanda.errors import AmandaWarning, BackendError

torch = pytest.importorskip("torch")

BACKENDS = ["torch"] + ["jax"] * bool(importlib.util.find_spec("amanda_jax"))


def compile_function(function, backend, **options):
    torch.compiler.reset()
    options["backend"] = backend
    return torch.compile(function, backend="amanda", options=options)


def add_in_place(x):
    x.add_(1.0)
    x[0].mul_(3.0)
    return x * 2


def return_inputs_and_views(x):
    return x, x.t(), x[1:], x.view(-1), x * 1


def return_no_tensors(x):
    return None, 3, x.sum(), x.shape[0], None


def use_constants(x):
    return x + torch.tensor([1.0, 2.0, 4.0]), torch.ones(2), torch.arange(3)


def multiply_complex(x):
    z = torch.complex(x, x + 1)
    return z * z, torch.view_as_real(z * 2), z.conj() + 1, z.abs()


def multiply_under_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        y = x @ x.t()
    return y, y.float().sum()


def check_errors_of_factorizations(x):
    """AOTAutograd orders these checks by tokens of effects."""
    matrix = x[:, :2] @ x[:, :2].mT + 3 * torch.eye(x.shape[0])
    return torch.linalg.cholesky(matrix), torch.linalg.inv(matrix)


def detach_a_part(x):
    return x.exp() * x.detach() + x.sin()


def change_dtypes(x):
    return x.half() * 2, x.bfloat16() + 1, (x > 0), x.long(), x.double().sqrt()


def read_memory(x):
    y = x.t() * 2
    return x.as_strided((2, 2), (2, 1), 1) * 1, y.as_strided((2, 2), (1, 2), 0) * 1


FUNCTIONS = [
    add_in_place, return_inputs_and_views, return_no_tensors, use_constants,
    multiply_complex, multiply_under_autocast, detach_a_part, change_dtypes,
    check_errors_of_factorizations,
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_results_and_changed_inputs_are_those_of_pytorch(function, backend):
    compiled = compile_function(function, backend)
    first, second = torch.rand(2, 3), torch.rand(2, 3)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", AmandaWarning)
        for x in (first, second):
            theirs = x.clone()
            expected, found = function(theirs), compiled(x)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-2)
            torch.testing.assert_close(x, theirs)


def test_results_that_are_inputs_or_views_of_them_share_their_memory():
    x = torch.rand(2, 3)
    same, turned, rows, flat, other = compile_function(
        return_inputs_and_views, BACKENDS[-1]
    )(x)
    assert same is x
    at = x.untyped_storage().data_ptr()
    assert [v.untyped_storage().data_ptr() for v in (turned, rows, flat)] == [at] * 3
    assert other.data_ptr() != at


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_through_a_detached_part(backend):
    x = torch.rand(4, requires_grad=True)
    compiled = compile_function(detach_a_part, backend)
    found = torch.autograd.grad(compiled(x).sum(), x)
    torch.testing.assert_close(found, torch.autograd.grad(detach_a_part(x).sum(), x))


@pytest.mark.parametrize("masked", ["causal", "mask", "no mask"])
def test_gradients_of_attention(masked):
    def attend(q, k, v, mask):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, mask, is_causal=masked == "causal"
        )

    arguments = [torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3)]
    mask = torch.randn(5, 5) if masked == "mask" else None
    weights = torch.randn(2, 3, 5, 4)
    compiled = compile_function(attend, BACKENDS[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", AmandaWarning)
        found, expected = (
            torch.autograd.grad((f(*arguments, mask) * weights).sum(), arguments)
            for f in (compiled, attend)
        )
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_batch_normalization_updates_its_buffers():
    models = [torch.nn.BatchNorm1d(3) for _ in range(2)]
    calls = compile_function(models[0], "torch"), models[1]
    x = torch.randn(8, 3)
    for call in calls:
        call(x).sum().backward()
    for ours, theirs in zip(*(m.state_dict().values() for m in models), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_has_the_distribution_of_pytorch_and_its_seed(backend):
    compiled = compile_function(torch.nn.Dropout(0.25), backend)
    x = torch.ones(100, 100, requires_grad=True)
    torch.manual_seed(3)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(3)
    assert torch.equal(compiled(x), first)
    assert not torch.equal(first, second)
    dropped = (first == 0).double().mean().item()
    assert dropped == pytest.approx(0.25, abs=5 * (0.25 * 0.75 / x.numel()) ** 0.5)
    assert first.unique().tolist() == pytest.approx([0.0, 4 / 3])
    (gradient,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(gradient == 0, first == 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_are_passed_without_a_copy(backend, monkeypatch):
    calls = []
    compile_graph = amanda.compile

    def recording_compile(*args, **kwargs):
        compiled = compile_graph(*args, **kwargs)
        compute = compiled.call_consuming

        def call(feeds):
            given = [*feeds]
            calls.append((given, [*compute(feeds)]))
            return calls[-1][1]

        compiled.call_consuming = call
        return compiled

    monkeypatch.setattr(amanda, "compile", recording_compile)
    compiled = compile_function(lambda x: torch.tanh(x) * 2, backend)
    x = torch.rand(64, 64)
    y = compiled(x)
    (((fed,), (result,)),) = calls
    assert address(fed) == x.data_ptr()
    assert address(result) == y.data_ptr()


def address(array):
    if isinstance(array, torch.Tensor):
        return array.data_ptr()
    return array.__array_interface__["data"][0]


@torch.library.custom_op("amanda_tests::reverse_rows", mutates_args=())
def reverse_rows(x: torch.Tensor) -> torch.Tensor:
    return x.flip(0)


reverse_rows.register_fake(torch.empty_like)


class Reversed(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) + torch.ops.amanda_tests.reverse_rows(x) * 2


def test_only_an_op_without_a_rule_is_run_by_pytorch_and_is_named():
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 4), Reversed(), torch.nn.Linear(4, 2)
    )
    x = torch.randn(3, 4)
    with torch.no_grad(), pytest.warns(AmandaWarning) as caught:
        found = compile_function(model, "torch")(x)
    torch.testing.assert_close(found, model(x))
    (text,) = [str(each.message) for each in caught]
    assert "PyTorch runs 1 op " in text
    assert "Amanda runs the other ops in 2 pieces" in text
    assert "amanda_tests.reverse_rows.default at " in text
    assert "test_semantics.py:" in text
    assert "in forward `return torch.tanh(x) + torch.ops" in text
    assert "to do: " in text


def test_frozen_weights_are_constants_until_they_are_written(monkeypatch):
    inputs = []
    compile_graph = amanda.compile

    def recording_compile(graph, *args, **kwargs):
        inputs.append(len(graph.parameters))
        return compile_graph(graph, *args, **kwargs)

    monkeypatch.setattr(amanda, "compile", recording_compile)
    model = torch.nn.Linear(4, 4)
    compiled = compile_function(model, "torch", freeze=True)
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x))
        assert inputs == [1]
        model.weight.mul_(2.0)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x))
        assert inputs == [1, 1]
    compiled(x).sum().backward()  # parameters that get gradients are inputs
    assert inputs[2] == 3


def test_without_a_backend_it_is_the_fastest_that_supports_the_graph(monkeypatch):
    tried = []
    compile_graph = amanda.compile

    def recording_compile(graph, backend, **kwargs):
        tried.append(backend)
        if backend == "onnxruntime":
            raise BackendError("an op is not supported")
        return compile_graph(graph, backend, **kwargs)

    monkeypatch.setattr(amanda, "compile", recording_compile)
    model, x = torch.nn.Linear(4, 4), torch.randn(3, 4)
    with torch.no_grad():
        for options in (None, {"freeze": True}):
            torch.compiler.reset()
            compiled = torch.compile(model, backend="amanda", options=options)
            for _ in range(2):
                torch.testing.assert_close(compiled(x), model(x))
    fast = ["onnxruntime"] * bool(importlib.util.find_spec("amanda_onnxruntime"))
    assert tried == ["torch", *fast, "torch"]


def test_a_graph_that_the_backend_refuses_is_run_by_pytorch(monkeypatch):
    def refuse(*args, **kwargs):
        raise BackendError("an op is not supported")

    monkeypatch.setattr(amanda, "compile", refuse)
    model, x = torch.nn.Linear(4, 4), torch.randn(3, 4)
    compiled = compile_function(model, "torch")
    with pytest.warns(AmandaWarning, match="an op is not supported"):
        found = compiled(x)
    torch.testing.assert_close(found, model(x))
    torch.testing.assert_close(compiled(x), model(x))  # without a further warning


def test_layers_are_one_op_each(monkeypatch):
    graphs = []
    compile_graph = amanda.compile

    def recording_compile(graph, *args, **kwargs):
        compiled = compile_graph(graph, *args, **kwargs)
        rows = compiled.executable.report().implementations
        graphs.append([row.type for row in rows])
        return compiled

    monkeypatch.setattr(amanda, "compile", recording_compile)
    layers = [
        torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(27, 8), torch.nn.GELU("tanh"),
        torch.nn.LayerNorm(8),
    ]  # fmt: skip
    model = torch.nn.Sequential(*layers).eval()
    x = torch.randn(2, 2, 8, 8)
    with torch.no_grad():
        for freeze in (False, True):
            found = compile_function(model, "torch", freeze=freeze)(x)
            torch.testing.assert_close(found, model(x))
    ops = ["conv", "batch_norm", "max_pool", "linear", "gelu", "layer_norm"]
    moves = {"reshape", "transpose"}
    weights_as_inputs, frozen = (
        [op for op in graph if op not in moves] for graph in graphs
    )
    assert sorted(weights_as_inputs) == sorted(ops)
    assert sorted(frozen) == sorted({*ops} - {"batch_norm"})


@pytest.mark.parametrize("backend", [*BACKENDS, "numpy"])
@pytest.mark.parametrize("kind", ["turned", "part", "apart", "repeated"])
def test_memory_is_read_in_the_order_of_an_input(kind, backend):
    x = torch.arange(20.0).reshape(4, 5)
    given = {
        "turned": x.t(), "part": x[1:], "apart": x[:, ::2],
        "repeated": x[:1].expand(4, 5),
    }[kind]  # fmt: skip

    def read(x):
        return (x + 1).as_strided((2, 3), (3, 1), 1) * x.as_strided((2, 3), (1, 2), 0)

    compiled = compile_function(read, backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AmandaWarning)
        found = compiled(given)
    assert torch.equal(found, read(given))
