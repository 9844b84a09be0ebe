"""Gradients without a closed form are rejected only where requested."""

from __future__ import annotations

import math

import numpy as np
import pytest

from amanda.errors import UsageError
from amanda.types import TensorType
from amanda_std import grad, ops, trace


def graph_of(op, count):
    return trace(lambda *xs: ops.sum(op(*xs)), [TensorType("float64", [2])] * count)


@pytest.mark.parametrize(
    ("name", "count", "at", "what"),
    [("gammainc", 2, 0, "a"), ("zeta", 2, 0, "x"), ("betainc", 3, 1, "b")],
)
def test_gradients_without_closed_form_are_rejected(name, count, at, what):
    graph = graph_of(ops.find(name), count)
    with pytest.raises(
        UsageError, match=f"its derivative with respect to {what} has no closed form"
    ):
        grad(graph, graph.results[0], [graph.parameters[at]])


def test_other_gradients_exist(run):
    graph = graph_of(ops.gammainc, 2)
    graph.result(*grad(graph, graph.results[0], [graph.parameters[1]]))
    x = np.array([0.5, 2.0])
    _, slope = run(graph, np.ones(2), x)  # for a = 1 it is 1 - exp(-x)
    np.testing.assert_allclose(slope, [math.exp(-v) for v in x], rtol=1e-12)
