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
