"""Ops of `torch.library`: read, shown, written again, and run by a definition."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import amanda
from amanda.errors import ConversionError
from amanda.host import Host

torch = pytest.importorskip("torch", reason="makes the programs")


@torch.library.custom_op("amanda_test::swish", mutates_args=())
def swish(x: torch.Tensor, beta: float) -> torch.Tensor:
    return x * torch.sigmoid(x * beta)


@swish.register_fake
def _(x, beta):
    return torch.empty_like(x)


class Module(torch.nn.Module):
    def forward(self, x):
        return swish(x, 2.0) + 1


X = torch.arange(6.0).reshape(2, 3) - 2


@pytest.fixture
def graph():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return amanda.load(torch.export.export(Module(), (X,)))


def test_a_custom_op_is_written_again(graph, tmp_path):
    op = graph["swish"]
    assert (op.type, op.attrs["beta"]) == ("amanda_test.swish.default", 2.0)
    amanda.save(graph, tmp_path / "model.pt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.export.load(tmp_path / "model.pt2").module()
        assert torch.equal(module(X), Module()(X))


def test_a_custom_op_without_a_definition(graph):
    with pytest.raises(ConversionError, match="map them by rules of your own") as error:
        amanda.convert(graph, "std")
    assert "amanda_test.swish.default, op 'swish': no rule" in str(error.value)


def test_a_listener_defines_a_custom_op(graph):
    def define(op, build, inputs):
        if op.type != "amanda_test.swish.default" or build.namespace != "amanda/std/1":
            return None
        (x,) = inputs
        beta = build.constant(np.float32(op.attrs["beta"])).output
        scaled = build.add("multiply", [x, beta]).output
        gate = build.add("sigmoid", [scaled]).output
        y = build.add("multiply", [x, gate]).output
        y.type = op.output.type
        return [y]

    host = Host()
    host.register_hook("gap_met", define)
    found = amanda.run(graph, {"x": X.numpy()}, backend="numpy", host=host)
    (y,) = found.values()
    np.testing.assert_allclose(y, Module()(X).numpy(), rtol=1e-5)


# -- ops that write their arguments ----------------------------------------------------


@torch.library.custom_op("amanda_test::scale_", mutates_args=("x",))
def scale_(x: torch.Tensor, by: float) -> None:
    x.mul_(by)


@torch.library.custom_op("amanda_test::add_into", mutates_args=("out",))
def add_into(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    out.add_(x)
    return out * 2


@add_into.register_fake
def _(x, out):
    return torch.empty_like(out)


class Writes(torch.nn.Module):
    """Writes into a value, into a part of a buffer, and into columns."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(4, 3))

    def forward(self, x):
        y = x + 1
        scale_(y, 3.0)
        doubled = add_into(x, self.table[1:3])
        z = x.clone()
        scale_(z[:, 1:], 5.0)
        return y * 2, doubled, self.table + 1, z


def load_writes(decomposed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(Writes(), (X,))
        return amanda.load(program.run_decompositions({}) if decomposed else program)


def declare_writes(host, with_rule):
    """The ops as functions that return what they write."""

    @amanda.custom_op(
        "torch/amanda_test@1",
        "scale_(x: tensor(a!), *, by: double) -> (new_x: tensor)", like="x", host=host,
    )  # fmt: skip
    def scale(x, *, by):
        return x * np.float32(by)

    @amanda.custom_op(
        "torch/amanda_test@1",
        "add_into(x: tensor, out: tensor(a!)) -> (y: tensor, new_out: tensor)",
        like="out", host=host,
    )  # fmt: skip
    def add(x, out):
        return (x + out) * 2, x + out

    if with_rule:

        @scale.to("amanda/std/1")
        def _(o, x, *, by):
            return o.multiply(x, np.float32(by))

        @add.to("amanda/std/1")
        def _(o, x, out):
            new = o.add(x, out)
            return o.multiply(new, np.float32(2)), new


@pytest.mark.parametrize("with_rule", [False, True])
@pytest.mark.parametrize("decomposed", [False, True])
def test_custom_ops_that_write(decomposed, with_rule):
    host = Host()
    declare_writes(host, with_rule)
    run = amanda.compile(load_writes(decomposed), "numpy", host=host)
    module = Writes()
    for _ in range(2):  # the buffer has another value in the second call
        found = list(run([X.numpy()]).values())
        for have, want in zip(found, module(X), strict=True):
            np.testing.assert_allclose(have, want.numpy(), rtol=1e-6)


@pytest.mark.parametrize("decomposed", [False, True])
def test_custom_ops_that_write_need_a_declaration(decomposed):
    """One without results is no op that nothing needs."""
    with pytest.raises(ConversionError) as error:
        amanda.convert(load_writes(decomposed), "std")
    problems = "\n".join(error.value.problems)
    assert problems.count("amanda_test.scale_.default") == 2
    assert problems.count("amanda_test.add_into.default") == 1
    if decomposed:
        assert '@amanda.custom_op("torch/amanda_test@1", "scale_(...)")' in problems
