"""Methods that change a tensor in place, whose functional op has another name."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.errors import ConversionError

torch = pytest.importorskip("torch", reason="makes the programs")

sys.path.insert(0, str(Path(__file__).parents[1]))
from exported_calls import Call  # noqa: E402  it imports torch

X = torch.arange(1.0, 7.0).reshape(2, 3)

CALLS = {
    "transpose_": lambda y, x: y.transpose_(0, 1),
    "swapaxes_": lambda y, x: y.swapaxes_(0, -1),
    "swapdims_": lambda y, x: y.swapdims_(1, 0),
    "t_": lambda y, x: y.t_(),
    "unsqueeze_": lambda y, x: y.unsqueeze_(1).squeeze_(1).unsqueeze_(0).squeeze_(),
    "pow_ of a number": lambda y, x: y.pow_(3),
    "pow_": lambda y, x: y.pow_(x),
    "**=": lambda y, x: y.__ipow__(2),
    "float_power_ of a number": lambda y, x: y.float_power_(2),
    "float_power_": lambda y, x: y.float_power_(x),
    "floor_divide_": lambda y, x: y.floor_divide_(x + 1),
    "floor_divide_ of a number": lambda y, x: y.floor_divide_(2),
    "ldexp_": lambda y, x: y.ldexp_(x),
    "bernoulli_": lambda y, x: y.bernoulli_(1.0),
    "polygamma_": lambda y, x: y.polygamma_(1),
    "xlogy_": lambda y, x: y.xlogy_(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_method_changes_a_tensor(name):
    dtype = torch.float64 if "float_power" in name else torch.float32

    def compute(x):
        y = x.clone()
        z = CALLS[name](y, x)
        y.mul_(2)
        return y + 1, z

    x = X.to(dtype)
    graph = amanda.load(torch.export.export(Call(compute), (x,), strict=False))
    found = amanda.run(graph, [x.numpy()], backend="numpy").values()
    for ours, theirs in zip(found, compute(x), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5)


HANDLES = {
    "t_": lambda y: y.t_(),
    "transpose_": lambda y: y.transpose_(0, 1),
    "swapaxes_": lambda y: y.swapaxes_(0, 1),
    "swapdims_": lambda y: y.swapdims_(0, 1),
    "squeeze_": lambda y: y.squeeze_(),
    "unsqueeze_": lambda y: y.unsqueeze_(0),
    "detach_": lambda y: y.detach_(),
}


@pytest.mark.parametrize("name", HANDLES)
def test_a_change_of_shape_keeps_a_write_before_it(name):
    def compute(x):
        return HANDLES[name](x.clone().add_(1)) * 1

    graph = amanda.load(torch.export.export(Call(compute), (X,), strict=False))
    [found] = amanda.run(graph, [X.numpy()], backend="numpy").values()
    np.testing.assert_array_equal(found, compute(X).numpy())


CUBE = torch.arange(24.0).reshape(2, 3, 4)
VIEWS = {
    "the real part of real numbers": lambda a: a.mT.real,
    "the conjugate of real numbers": lambda a: torch.conj_physical(a.mT),
    "a cast to the own type": lambda a: a.view(-1).type_as(a),
    "a cast to another type": lambda a: a.type_as(a.long()),
    "unsafe_chunk": lambda a: a.unsafe_chunk(2, 2)[1],
    "unsafe_split": lambda a: a.unsafe_split(1)[1],
    "unsafe_split_with_sizes": lambda a: a.unsafe_split_with_sizes([1, 3], -1)[1],
    "hsplit": lambda a: a.hsplit(3)[1],
    "hsplit of a vector": lambda a: a[0, 1].hsplit([1, 3])[1],
    "vsplit": lambda a: a.vsplit(2)[1],
    "dsplit": lambda a: a.dsplit([1, 3])[2],
    "narrow from the end": lambda a: a.narrow(1, -2, 1),
    "a row of elements that are apart": lambda a: a[0].diagonal().ravel(),
    "a row of neighbours": lambda a: a[0].ravel(),
    "bits": lambda a: a.mT.view(torch.int32),
    "matrix diagonals": lambda a: torch.linalg.diagonal(a, offset=1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_and_its_base_are_written(name):
    def write_view(x):
        base = x.clone()
        part = VIEWS[name](base)
        part.add_(1)
        return base * 1, part * 1

    def write_base(x):
        base = x.clone()
        part = VIEWS[name](base)
        base.add_(1)
        return base * 1, part * 1

    for compute in (write_view, write_base):
        graph = amanda.load(torch.export.export(Call(compute), (CUBE,), strict=False))
        found = amanda.run(graph, [CUBE.numpy()], backend="numpy").values()
        for ours, theirs in zip(found, compute(CUBE), strict=True):
            np.testing.assert_array_equal(ours, theirs.numpy(), strict=True)


def test_a_tensor_written_through_its_transpose_is_written_as_a_whole():
    def compute(x):
        base = x.clone()
        base.t().mul_(2)
        torch.broadcast_tensors(base, base)[0].add_(1)
        return base * 1

    graph = amanda.load(torch.export.export(Call(compute), (X,), strict=False))
    [found] = amanda.run(graph, [X.numpy()], backend="numpy").values()
    np.testing.assert_array_equal(found, compute(X).numpy())


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of run_decompositions
def test_an_unsupported_write_is_decomposed_as_the_error_says():
    def compute(x):
        base = x.clone()
        base.expand(2, 2, 3)[0].add_(1)
        return base * 1

    program = torch.export.export(Call(compute), (X,), strict=False)
    with pytest.raises(ConversionError, match="run_decompositions") as raised:
        amanda.run(amanda.load(program), [X.numpy()], backend="numpy")
    assert "a write into a view of this kind" in str(raised.value)
    graph = amanda.load(program.run_decompositions())
    [found] = amanda.run(graph, [X.numpy()], backend="numpy").values()
    np.testing.assert_array_equal(found, compute(X).numpy())


def test_a_chance_that_is_omitted_is_a_half():
    def draw(x):
        return x.clone().bernoulli_()

    x = torch.zeros(1000)
    graph = amanda.load(torch.export.export(Call(draw), (x,), strict=False))
    [found] = amanda.run(graph, [x.numpy()], backend="numpy", seed=0).values()
    assert set(found) == {0, 1}
    assert 400 < found.sum() < 600
