"""Python source: names of members, constants, and arguments that need their form."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

sys.path.insert(0, str(Path(__file__).parent))
from torch import nn  # noqa: E402

import amanda  # noqa: E402
from amanda.graph import Graph  # noqa: E402

F = nn.functional

pytestmark = [  # warnings of PyTorch's own
    pytest.mark.filterwarnings("ignore:reduction. 'mean' divides the total loss"),
    pytest.mark.filterwarnings("ignore:The tensor attributes"),
]


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def write(module: nn.Module, args: tuple[Any, ...], folder: Path) -> Any:
    """The module of the source of a program, and the text."""
    program = torch.export.export(module, args, strict=False)
    return read(amanda.load(program), folder)


def read(graph: Graph, folder: Path) -> Any:
    path = folder / "model.py"
    amanda.save(graph, path)
    spec = importlib.util.spec_from_file_location("model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(), path.read_text()


def cosine(a: Any, b: Any) -> Any:
    return F.cosine_embedding_loss(a, b, b.sum(1).sign())


LOSSES = [
    F.kl_div, F.binary_cross_entropy_with_logits, F.mse_loss, F.l1_loss,
    F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss, F.poisson_nll_loss,
    F.binary_cross_entropy, cosine,
    lambda a, b: F.triplet_margin_loss(a, b, a * 2),
    lambda a, b: F.margin_ranking_loss(a, b, b.sign()),
    lambda a, b: F.hinge_embedding_loss(a, b.sign()),
    lambda a, b: F.cross_entropy(a, b), lambda a, b: F.nll_loss(a, b[:, 0].long()),
    lambda a, b: F.multi_margin_loss(a, b[:, 0].long()),
    lambda a, b: F.multilabel_margin_loss(a, b.long()),
    lambda a, b: F.multilabel_soft_margin_loss(a, b),
]  # fmt: skip
"""Losses with the mean of all elements, which is their default."""


@pytest.mark.parametrize("place", range(len(LOSSES)))
def test_losses_are_reduced_as_in_the_program(place: int, tmp_path: Path) -> None:
    a, b = torch.rand(2, 3), torch.rand(2, 3)
    found, _ = write(Call(LOSSES[place]), (a, b), tmp_path)
    torch.testing.assert_close(found(a, b), LOSSES[place](a, b))


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_recurrent_layer_is_a_whole_model(layer: Any, tmp_path: Path) -> None:
    module, x = layer(5, 6).eval(), torch.rand(4, 2, 5)
    found, _ = write(module, (x,), tmp_path)
    torch.testing.assert_close(found(x), module(x))
    assert found.state_dict().keys() == module.state_dict().keys()


def test_elements_are_written_at_indices_of_some_axes(tmp_path: Path) -> None:
    def put(x: Any, i: Any) -> Any:
        y = x.clone()
        y[:, i] = 0.5
        y[1, :, i] = 2.0
        return y, torch.ops.aten.index_put(x, [None, i], x[:, i] * 2)

    x, i = torch.arange(24.0).reshape(2, 4, 3), torch.tensor([2, 0])
    found, _ = write(Call(put), (x, i), tmp_path)
    torch.testing.assert_close(found(x, i), put(x, i))


class Named(nn.Module):
    """Members whose names are no identifiers, or differ in these signs only."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({
            "a-b": nn.Linear(3, 3), "a_b": nn.Linear(3, 3), "in": nn.Linear(3, 3),
            "class": nn.ModuleDict({"0": nn.LayerNorm(3), "x y": nn.PReLU()}),
        })  # fmt: skip
        self.parts["in"].requires_grad_(False)
        self.rows = nn.ParameterDict({"a-b": torch.rand(3), "lambda": torch.rand(3)})
        self.items = nn.ParameterList([torch.rand(3) for _ in range(2)])
        self.some = nn.ParameterList([torch.rand(3) for _ in range(3)])
        self.register_buffer('it"s', torch.rand(3))

    def forward(self, x: Any) -> Any:
        x = self.parts["in"](self.parts["a-b"](x)) + self.parts["a_b"](x)
        x = self.parts["class"]["x y"](self.parts["class"]["0"](x))
        x = x * self.rows["a-b"] + self.rows["lambda"] * self.some[2].clone()
        return x * self.items[0] + self.items[1] * getattr(self, 'it"s').clone()


def test_members_keep_names_that_are_no_identifiers(tmp_path: Path) -> None:
    module, x = Named().eval(), torch.rand(2, 3)
    found, text = write(module, (x,), tmp_path)
    torch.testing.assert_close(found(x), module(x))
    used = {name for name in module.state_dict() if name not in ("some.0", "some.1")}
    assert found.state_dict().keys() == used
    assert "self.items[0]" in text
    trained = {name for name, each in found.named_parameters() if each.requires_grad}
    assert used - trained == {"parts.in.weight", "parts.in.bias", 'it"s'}


def test_names_of_other_frameworks_do_not_become_one(tmp_path: Path) -> None:
    graph = Graph("amanda/torch/2.13.0")
    x = graph.parameter(amanda.parse_type("float32[2]"), "x")
    value = x
    for name, number in (("a:0", 2.0), ("a_0", 3.0), ("in", 4.0)):
        tensor = amanda.Tensor.of(np.full(2, number, "float32"))
        attrs = {"target": name, "kind": "parameter", "x-value": tensor}
        weight = graph.add("get_attr", [], attrs).output
        weight.type = x.type
        value = graph.add("aten.mul.Tensor", [value, weight]).output
        value.type = x.type
    graph.result(value)
    found, _ = read(graph, tmp_path)
    assert found(torch.ones(2)).tolist() == [24, 24]


class Filled(nn.Module):
    def __init__(self, *values: float) -> None:
        super().__init__()
        self.values = values
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Any) -> Any:
        for value in self.values:
            x = x.masked_fill(x * self.scale > 0, value)
        return torch.clamp(x, max=self.values[0]) * self.scale


@pytest.mark.parametrize(
    "values",
    [
        [(float("nan"),)], [(float("nan"),), (float("nan"),)], [(0.0,), (-0.0,)],
        [(float("nan"), 1.0), (float("nan"), 2.0)], [(-0.0,)], [(float("inf"),)],
    ],
)  # fmt: skip
def test_constants_are_compared_by_their_bits(values: Any, tmp_path: Path) -> None:
    module, x = nn.Sequential(*[Filled(*each) for each in values]).eval(), torch.rand(3)
    x = torch.cat([x, -x])
    found, _ = write(module, (x,), tmp_path)
    ours, theirs = found(x), module(x)
    torch.testing.assert_close(ours, theirs, equal_nan=True)
    assert torch.equal(ours.signbit(), theirs.signbit())
