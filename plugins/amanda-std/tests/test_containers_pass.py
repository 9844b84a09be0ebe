"""The pass `containers`: reads of sequences, optionals and tuples of known elements."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.types import SequenceType, parse_type
from amanda_std import grad, ops, trace
from amanda_std.passes import containers

X = np.arange(6.0).reshape(3, 2)
ROWS = "float64[3, 2]"


def built_last(x):
    xs = ops.sequence_construct(x, ops.negative(x))
    xs = ops.sequence_insert(xs, ops.exp(x), np.int64(0))
    return ops.sequence_at(ops.sequence_erase(xs, np.int64(1)), np.int64(-1))


CASES = {
    "construct": (built_last, -X),
    "split": (lambda x: ops.sequence_at(ops.split_to_sequence(x), np.int64(1)), X[1:2]),
    "split without the axis": (
        lambda x: ops.sequence_at(
            ops.split_to_sequence(x, axis=1, keepdims=False), np.int64(-1)
        ),
        X[:, 1],
    ),
    "split by one size": (
        lambda x: ops.sequence_at(ops.split_to_sequence(x, 2), np.int64(1)),
        X[2:],
    ),
    "split by sizes": (
        lambda x: ops.sequence_at(ops.split_to_sequence(x, (1, 2)), np.int64(1)),
        X[1:],
    ),
    "concat": (
        lambda x: ops.concat_from_sequence(ops.sequence_construct(x, x), axis=1),
        np.concatenate([X, X], 1),
    ),
    "stack": (
        lambda x: ops.concat_from_sequence(
            ops.sequence_construct(x, x), axis=-1, new_axis=True
        ),
        np.stack([X, X], -1),
    ),
    "tuple": (lambda x: ops.tuple_get(ops.tuple_make(x, ops.exp(x)), index=0), X),
    "optional": (lambda x: ops.get_element(ops.optional(x)), X),
}


@pytest.mark.parametrize("name", CASES)
def test_known_elements_are_read_directly(name, run):
    function, expected = CASES[name]
    graph = trace(function, [parse_type(ROWS)])
    before = run(graph, X)[0]
    assert containers(graph) == 1
    assert not any(isinstance(p.type, SequenceType) for op in graph for p in op.outputs)
    np.testing.assert_array_equal(before, expected)
    np.testing.assert_array_equal(run(graph, X)[0], expected)


@pytest.mark.parametrize("name", CASES)
def test_gradients_flow_through_known_elements(name, run):
    function, expected = CASES[name]
    graph = trace(
        lambda x: ops.sum(ops.multiply(function(x), expected)), [parse_type(ROWS)]
    )
    graph.result(grad(graph, graph.results[0], graph.parameters)[0])
    got = run(graph, X)[1]
    step, places = 1e-6, np.arange(X.size).reshape(X.shape)
    for i, at in enumerate(np.ndindex(X.shape)):
        high, low = (run(graph, X + by * (places == i))[0] for by in (step, -step))
        assert got[at] == pytest.approx((high - low) / (2 * step), abs=1e-6)


def test_lengths_become_constants(run):
    graph = trace(
        lambda x: ops.sequence_length(ops.split_to_sequence(x)), [parse_type(ROWS)]
    )
    assert containers(graph) == 1
    assert graph.results[0].op.is_constant
    assert run(graph, X)[0] == 3


@pytest.mark.parametrize("type", ["float64[n, 2]", "float64[?, 2]"])
def test_unknown_lengths_stay(type, run):
    def function(x):
        return ops.sequence_at(ops.split_to_sequence(x), np.int64(1))

    graph = trace(function, [parse_type(type)])
    assert containers(graph) == 0
    np.testing.assert_array_equal(run(graph, X)[0], X[1:2])


def test_computed_indices_stay(run):
    def function(x, i):
        return ops.sequence_at(ops.sequence_construct(x, ops.negative(x)), i)

    graph = trace(function, [parse_type(ROWS), parse_type("int64[]")])
    assert containers(graph) == 0
    np.testing.assert_array_equal(run(graph, X, np.int64(1))[0], -X)


def test_indices_out_of_range_fail_at_run_time(run):
    def function(x):
        return ops.sequence_at(ops.sequence_construct(x), np.int64(3))

    graph = trace(function, [parse_type(ROWS)])
    assert containers(graph) == 0
    with pytest.raises(Exception, match="out of range"):
        run(graph, X)


def test_bodies_read_outer_sequences(run):
    def function(x, c):
        xs = ops.sequence_construct(x, ops.negative(x))
        return ops.if_(
            c,
            lambda: ops.sequence_at(xs, np.int64(0)),
            lambda: ops.sequence_at(xs, np.int64(1)),
        )

    graph = trace(function, [parse_type(ROWS), parse_type("bool[]")])
    assert containers(graph) == 2
    np.testing.assert_array_equal(run(graph, X, np.bool_(False))[0], -X)
