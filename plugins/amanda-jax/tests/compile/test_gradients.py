"""Gradients through bodies and layers, compiled by XLA, as numpy has them."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_std import grad, ops, trace


def looped(x, w):
    def body(i, go, v):
        return go, ops.sin(v * w) + ops.astype(i, dtype="float32"), v

    last, rows = ops.loop(np.int64(4), None, body, x)
    return ops.sum(last) + ops.sum(rows * rows)


def scanned(x, w):
    def body(total, row):
        total = ops.tanh(total + row * w)
        return total, total

    last, rows = ops.scan(body, None, x, ops.stack(x, w, x), carried=1)
    return ops.sum(last) + ops.sum(rows)


def chosen(x, w):
    place = ops.astype(ops.sum(w), dtype="int32")
    branches = [lambda v: v * w, lambda v: ops.exp(v), lambda v: v - w]
    made = ops.case(place, branches, x)[0]
    return ops.sum(
        ops.if_(ops.less(ops.sum(x), 9.0), lambda v: v * v, ops.sin, made)[0]
    )


def layered(x, w):
    data = ops.reshape(ops.concat(x, w, x, w), (4, 1, 2))
    gates = ops.reshape(ops.concat(*[w, x] * 4), (1, 8, 2))
    return ops.sum(ops.lstm(data, gates, gates)[0])


@pytest.mark.parametrize(
    ("function", "note"),
    [(looped, "lax.scan"), (scanned, "lax.scan"), (chosen, "lax.switch"),
     (layered, "lax.scan")],
)  # fmt: skip
def test_gradients_are_those_of_numpy(function, note):
    graph = trace(function, [parse_type("float32[2]")] * 2)
    for port in grad(graph, graph.results[0], graph.parameters):
        graph.result(port)
    feeds = [np.float32([0.3, -0.7]), np.float32([0.9, 0.4])]
    compiled = amanda.compile(graph, "jax")
    got = list(compiled(feeds).values())
    want = list(amanda.run(graph, feeds, backend="numpy").values())
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    notes = compiled.executable.report().control_flow
    assert any(note in text for text in notes)
