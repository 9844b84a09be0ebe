"""What programs return beside tensors: numbers, and the named tuples of PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import amanda

torch = pytest.importorskip("torch", reason="makes the programs")

sys.path.insert(0, str(Path(__file__).parents[1]))
from exported_calls import normal  # noqa: E402  it imports torch


class Returns(torch.nn.Module):
    """A call whose results are returned as they are."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


NUMBERS = {
    "numbers": lambda x: (x * 2, 7, True, 2.5),
    "a size": lambda x: [x.shape[0], {"rank": x.dim(), "x": x * 2}],
    "an infinity": lambda x: (x * 2, float("-inf"), -1),
}


@pytest.mark.parametrize("backend", ["numpy", "torch", "torch-export"])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_results(name, backend):
    x = normal(2, 2)
    graph = amanda.load(Returns(NUMBERS[name]), args=[x])
    found = amanda.run(graph, [x.numpy()], backend=backend).values()
    wanted = torch.utils._pytree.tree_leaves(NUMBERS[name](x))
    for have, want in zip(found, wanted, strict=True):
        assert np.asarray(have).dtype == np.asarray(want).dtype
        np.testing.assert_array_equal(have, np.asarray(want))


def test_no_result_stays_empty():
    x = normal(2, 2)
    graph = amanda.load(Returns(lambda x: (None, x * 2, None)), args=[x])
    first, _, last = amanda.run(graph, [x.numpy()], backend="numpy").values()
    assert first is None
    assert last is None


TUPLES = {
    "topk": lambda x: x.topk(2),
    "max": lambda x: x.max(0),
    "sort": lambda x: x.sort(),
    "aminmax": torch.aminmax,
    "slogdet": torch.linalg.slogdet,
    "inside others": lambda x: {"top": [x.topk(1), x * 2], "low": x.min(1)},
}


@pytest.mark.parametrize("name", TUPLES)
def test_named_tuples_are_tuples(name):
    x = normal(3, 3)
    graph = amanda.load(Returns(TUPLES[name]), args=[x])
    found = amanda.run(graph, [x.numpy()], backend="numpy").values()
    wanted = torch.utils._pytree.tree_leaves(TUPLES[name](x))
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(have, want.numpy(), rtol=1e-5)


def test_a_program_with_a_named_tuple_is_saved(tmp_path):
    x = normal(3, 3)
    amanda.save(amanda.load(Returns(TUPLES["topk"]), args=[x]), tmp_path / "top.pt2")
    found = torch.export.load(tmp_path / "top.pt2").module()(x)
    assert isinstance(found, tuple)
    for have, want in zip(found, x.topk(2), strict=True):
        torch.testing.assert_close(have, want)
