"""Reductions of values whose rank is not known."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.types import parse_type
from amanda_std import grad, ops, trace
from amanda_std.engine.values import Typed

OF_ALL = [
    "sum", "max", "min", "mean", "var", "std", "logsumexp", "norm_l1", "norm_l2",
    "sum_squares", "log_sum",
]  # fmt: skip
X = np.array([[0.5, 2.0, 1.25], [3.0, 0.75, 1.5]])


@pytest.mark.most_cases(11)
@pytest.mark.parametrize("name", OF_ALL)
def test_all_axes_of_unknown_rank(name, run):
    """The result is a number with a gradient; both are those of a known rank."""
    op = ops.find(name)
    found = {}
    for text in ("float64[...]", "float64[2, 3]"):
        graph = trace(lambda x: op(ops.tanh(x)), [parse_type(text)])
        assert str(graph.results[0].type) == "float64[]"
        graph.result(grad(graph, graph.results[0], graph.parameters)[0])
        found[text] = run(graph, X)
    for got, want in zip(*found.values(), strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("name", ["sum", "mean", "var", "logsumexp"])
def test_what_is_kept_of_unknown_rank_is_unknown(name):
    unknown = Typed(parse_type("float32[...]"))
    op = ops.find(name)
    for y in (op(unknown, (0,)), op(unknown, keepdims=True)):
        assert str(y.type) == "float32[...]"
