"""Pipelines of passes: counts of ops, and results by numpy."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.passes import fold_norms, optimize, optimize_for_inference

X = parse_type("float32[n, 4]")


def random(*shape):
    return np.random.default_rng(len(shape)).uniform(0.5, 1.5, shape).astype("float32")


def kinds(graph):
    return [op.type for op in graph if not op.is_constant]


def network(x):
    y = ops.linear(x.T.T, random(4, 3), random(3)) * (random(3) + random(3))
    return y + random(3), ops.exp(x) + ops.exp(x * 1.0)


@pytest.mark.parametrize(
    ("pipeline", "left", "atol"),
    [
        (optimize, ["linear", "multiply", "add", "exp", "add"], 0),
        (optimize_for_inference, ["linear", "exp", "add"], 1e-5),
    ],
)
def test_pipelines(run, pipeline, left, atol):
    x = random(5, 4)
    graph = trace(network, [X])
    before = run(graph, x)
    assert pipeline(graph) > 0
    assert kinds(graph) == left
    for made, expected in zip(run(graph, x), before, strict=True):
        np.testing.assert_allclose(made, expected, rtol=0, atol=atol)
    assert pipeline(graph) == 0


def test_norms_stay_in_a_graph_that_writes_variables():
    def function(x):
        y = ops.matmul(x, random(4, 3))
        y = ops.batch_norm(y, random(3), random(3), random(3), random(3), axis=-1)
        mean = ops.variable(random(3), key="moving_mean")
        ops.assign(mean, ops.mean(y, (0,)))
        return y

    assert fold_norms(trace(function, [X])) == 0
