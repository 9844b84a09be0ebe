"""Graphs as modules of PyTorch, against the program that they were exported from."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import amanda  # noqa: E402
from amanda.errors import UsageError  # noqa: E402
from amanda_torch import to_exported_program, to_module  # noqa: E402

# Copies of PyTorch's own graph modules warn of what PyTorch is about to change.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


class Perceptron(nn.Module):
    """Two layers with tied weights, and a keyword argument."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight

    def forward(self, x: Any, *, scale: Any) -> Any:
        return {"y": self.second(torch.tanh(self.first(x))) * scale}


class Scale(nn.Module):
    """A parameter without axes."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(-3.0))

    def forward(self, x: Any) -> Any:
        return x * self.factor.exp()


class Convolutions(nn.Module):
    """Convolutions with BatchNorm, whose buffers a training step changes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3)
        )

    def forward(self, x: Any) -> Any:
        return self.body(x).mean((2, 3))


class Transformer(nn.Module):
    """One block over embedded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Any) -> Any:
        return self.head(self.block(self.embedding(tokens)))


class Barriers(nn.Module):
    """Values that gradients do not pass: detached ones, and those of a region."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.scale = Scale()

    def forward(self, x: Any) -> Any:
        y = torch.tanh(self.first(x))
        with torch.no_grad():
            scale = torch.exp(self.second(y))
        z = self.second(y.detach()) * scale + self.first.weight.sum()
        return self.scale(z) * torch.arange(4).detach()


class Weights(nn.Module):
    """Weights of every kind, and a row of an embedding that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4, padding_idx=1)
        self.linear = nn.Linear(4, 4)
        self.linear.weight.requires_grad_(False)
        self.register_buffer("scale", torch.randn(4))
        self.register_buffer("shift", torch.randn(4), persistent=False)
        self.register_buffer("order", torch.tensor([3, 1, 0, 2]))

    def forward(self, tokens: Any) -> Any:
        y = self.linear(self.embedding(tokens) * self.scale)
        return y[..., self.order] + self.shift


class Case(NamedTuple):
    """A module in training mode, and its arguments."""

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def program(self) -> Any:
        return torch.export.export(self.module, self.args, self.kwargs)


def cases() -> dict[str, Callable[[], Case]]:
    """Every case by name."""
    return {
        "perceptron": lambda: Case(
            Perceptron(), (torch.randn(3, 6),), {"scale": torch.tensor(2.0)}
        ),
        "convolutions": lambda: Case(Convolutions(), (torch.randn(2, 3, 9, 9),), {}),
        "barriers": lambda: Case(Barriers(), (torch.randn(3, 4),), {}),
        "transformer": lambda: Case(Transformer(), (torch.arange(10).view(2, 5),), {}),
    }


@pytest.fixture(params=cases())
def case(request: Any) -> Case:
    torch.manual_seed(0)
    return cases()[request.param]()


def leaves(value: Any) -> list[Any]:
    return list(torch.utils._pytree.tree_leaves(value))


def step(module: Any, case: Case) -> Any:
    """The loss of one step of SGD with momentum, of which there are two."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        [out] = leaves(module(*case.args, **case.kwargs))
        loss = (out * torch.arange(out.numel()).reshape(out.shape)).square().mean()
        loss.backward()
        optimizer.step()
    return loss.detach()


def test_results_are_those_of_the_program(case: Case) -> None:
    program = case.program()
    module = to_module(amanda.load(program))
    assert isinstance(module, torch.fx.GraphModule)
    expected = program.module()(*case.args, **case.kwargs)
    found = module(*case.args, **case.kwargs)
    assert type(found) is type(expected)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_module_has_the_weights_of_the_model(case: Case) -> None:
    state = case.module.state_dict()
    module = to_module(amanda.load(case.program()))
    assert set(module.state_dict()) == set(state)
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(tensor, state[name], rtol=0, atol=0)
    assert len(list(module.parameters())) == len(list(case.module.parameters()))
    assert all(isinstance(p, nn.Parameter) for p in module.parameters())
    assert all(p.requires_grad for p in module.parameters())


def test_a_training_step_is_that_of_the_model(case: Case) -> None:
    module = to_module(amanda.load(case.program()))
    copied = copy.deepcopy(module)
    expected = step(case.module, case)
    for each in (module, copied):
        torch.testing.assert_close(step(each, case), expected, rtol=1e-6, atol=1e-6)
        state = each.state_dict()
        for name, tensor in case.module.state_dict().items():
            torch.testing.assert_close(state[name], tensor, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["perceptron", "barriers", "transformer"])
def test_a_training_step_through_the_hub(name: str) -> None:
    """Gradients pass where they did; a parameter has one of the names that it had."""
    torch.manual_seed(0)
    case = cases()[name]()
    hub = amanda.convert(amanda.load(case.program()), "std")
    module = to_module(amanda.convert(hub, "torch"))
    expected = step(case.module, case)
    found = step(module, Case(module, (*case.args, *case.kwargs.values()), {}))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    trained = dict(case.module.named_parameters(remove_duplicate=False))
    parameters = dict(module.named_parameters())
    assert len(parameters) == len(set(trained.values()))
    for name, value in parameters.items():
        assert trained[name].isfinite().all()
        torch.testing.assert_close(value, trained[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("via_hub", [False, True])
def test_frozen_parameters_and_buffers_stay_so(via_hub: bool) -> None:
    """Neither they nor the row of the padding change in training."""
    torch.manual_seed(0)
    case = Case(Weights(), (torch.tensor([[1, 0, 3], [4, 1, 1]]),), {})
    graph = amanda.load(case.program())
    if via_hub:
        graph = amanda.convert(amanda.convert(graph, "std"), "torch")
    program = to_exported_program(graph)
    module = program.module()
    trained = {n: p.requires_grad for n, p in module.named_parameters()}
    assert trained == {n: p.requires_grad for n, p in case.module.named_parameters()}
    assert set(dict(module.named_buffers())) == {"scale", "shift", "order"}
    assert set(module.state_dict()) == set(case.module.state_dict())
    assert list(program.graph_signature.non_persistent_buffers) == ["shift"]
    torch.testing.assert_close(step(module, case), step(case.module, case))
    torch.testing.assert_close(module.state_dict(), case.module.state_dict())


def test_kinds_of_weights_are_kept_in_onnx(tmp_path: Path) -> None:
    """They follow initializers and Gather as metadata."""
    case = Case(Weights(), (torch.tensor([[1, 0, 3]]),), {})
    amanda.save(amanda.convert(amanda.load(case.program()), "onnx@18"),
                tmp_path / "weights.onnx")  # fmt: skip
    graph = amanda.convert(amanda.load(tmp_path / "weights.onnx"), "torch")
    module = to_module(graph)
    frozen = [n for n, p in module.named_parameters() if not p.requires_grad]
    assert frozen == ["linear.weight"]
    assert {"scale", "shift", "order"} <= set(dict(module.named_buffers()))
    [embedding] = [op for op in graph if op.type == "aten.embedding.default"]
    assert embedding.attrs["padding_idx"] == 1


def test_a_module_is_exported_again(case: Case) -> None:
    module = to_module(amanda.load(case.program()))
    graph = amanda.load(module, args=case.args, kwargs=case.kwargs)
    again = to_module(graph)
    torch.testing.assert_close(
        again(*case.args, **case.kwargs), case.program().module()(*case.args,
        **case.kwargs), rtol=0, atol=0,
    )  # fmt: skip
    first = amanda.load(case.program())
    assert [op.type for op in graph] == [op.type for op in first]


def test_a_module_is_a_graph_module(case: Case) -> None:
    """What takes a graph of fx takes that of the module."""
    module = to_module(amanda.load(case.program()))
    traced = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    expected = case.program().module()(*case.args, **case.kwargs)
    torch.testing.assert_close(traced(*case.args, **case.kwargs), expected)


def test_dynamic_sizes() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    shapes = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(model, (torch.zeros(5, 4),), dynamic_shapes=shapes)
    module = to_module(amanda.load(program))
    for rows in (2, 7):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(module(x), model(x))
    exported = to_exported_program(amanda.load(program))
    assert len(exported.range_constraints) == 1


def test_other_namespaces() -> None:
    with pytest.raises(UsageError, match="no ops of PyTorch"):
        to_module(amanda.Graph("amanda/std/1"))
