"""`as_strided` and the like see memory: programs with tensors of any strides."""

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

X = torch.arange(20.0).reshape(4, 5)


def of_transposed(x):
    return x.t().as_strided((2, 2), (1, 3), 0)


def before_a_part(x):
    return x[1:].as_strided((2,), (1,), 0)


def at_the_offset_of_a_part(x):
    return x[1:, 2:].as_strided((2, 2), (5, 1))


def of_computed(x):
    y = x.t() * 2
    return y.as_strided((3, 2), (1, 4), 1), y.t().as_strided((4,), (5,), 0)


def of_copied(x):
    return x.t()[1:].contiguous().as_strided((2,), (3,), 1)


def of_permuted(x):
    y = x.reshape(2, 2, 5).permute(2, 0, 1) + 1
    return y.as_strided((2, 3), (5, 2), 2)


def after_a_write(x):
    y = x.clone()
    z = y.t()
    z[1].add_(100)
    return z.as_strided((2, 2), (1, 3), 0), y


def write_into_memory(x):
    y = x.clone()
    y.t()[1:].as_strided((2, 2), (1, 6), 0).mul_(-1)
    return y, y.t()


def after_a_transposition_in_place(x):
    y = x.clone()
    y.t_()
    return y.as_strided((2, 3), (1, 5), 1), y


def in_place(x):
    y = x.t().clone()
    y.as_strided_((2, 3), (1, 4), 1)
    y.add_(1)
    return y * 2


def scattered(x):
    y = x.t() * 1
    return torch.as_strided_scatter(y, torch.zeros(2, 2), (2, 2), (1, 6), 3) + y


def scattered_into_a_part(x):
    part = x[1:] if x.is_contiguous() else x[:, 1:]
    return torch.as_strided_scatter(part, torch.zeros(3), (3,), (2,), 6)


FUNCTIONS = [
    of_transposed, before_a_part, at_the_offset_of_a_part, of_computed, of_copied,
    of_permuted, after_a_write, write_into_memory, after_a_transposition_in_place,
    in_place, scattered, scattered_into_a_part,
]  # fmt: skip


def load(function, *args):
    module = Call(function)
    return amanda.load(torch.export.export(module, args, strict=False))


@pytest.mark.parametrize("x", [X, X.reshape(5, 4).t()], ids=["rows", "columns"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_elements_are_those_of_the_memory(function, x):
    results = amanda.run(load(function, x), [x.numpy()], backend="numpy")
    expected = Call(function)(x)
    for found, want in zip(results.values(), expected, strict=True):
        np.testing.assert_array_equal(found, want.numpy())


@pytest.mark.parametrize(
    ("function", "x", "reason"),
    [
        (lambda x: x.as_strided((2,), (1,)), X[:, ::2], "not dense"),
        (lambda x: x.as_strided((2,), (1,), 0), X[1:], "outside of the tensor"),
        (lambda x: x.as_strided((2,), (40,)), X[:2], "outside of the tensor"),
        (
            lambda x: torch.as_strided_scatter(x[:, ::2], x[0], (5,), (1,), 0), X,
            "not dense",
        ),
        (lambda x: x.t().clone().resize_(2, 3) * 1, X, "not in rows"),
    ],
)  # fmt: skip
def test_memory_that_the_program_does_not_have_is_a_gap(function, x, reason):
    graph = load(function, x)
    with pytest.raises(ConversionError, match=reason):
        amanda.convert(graph, "std")
