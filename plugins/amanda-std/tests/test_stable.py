"""Stable ops in place of formulas, wherever a graph is compiled or differentiated."""

from __future__ import annotations

import math

import numpy as np
import pytest

import amanda
from amanda.errors import InvalidTypeError, NamespaceError
from amanda.types import parse_type
from amanda_std import grad, ops, trace
from amanda_std.passes import stable

LOGITS = np.float32([1000.0, 0.0, -1000.0])
TARGET = np.float32([0.0, 1.0, 0.0])
VECTOR = parse_type("float32[3]")


def softmax_as_division(x, exp=ops.exp):
    powers = exp(x)
    return powers / ops.sum(powers, (0,), keepdims=True)


def softmax_with_own_base(x):
    """No rule matches it: only a note says what it is."""
    result = softmax_as_division(x, lambda v: ops.exp2(v * math.log2(math.e)))
    return ops.schema_note(result, x, schema="softmax", attrs={"axes": (0,)})


def loss_with_note(x, t):
    loss = ops.negative(ops.sum(t * ops.log(softmax_as_division(x) + 1e-30)))
    return ops.schema_note(
        loss, x, t, schema="soft_cross_entropy", attrs={"axis": 0, "reduction": "sum"}
    )


def cross_entropy_by(softmax):
    def function(x, t):
        shares = softmax(x)  # shared: a result of its own
        return ops.negative(ops.sum(t * ops.log(shares))), shares

    return function


FORMULAS = {
    "softmax": cross_entropy_by(lambda x: ops.softmax(x, axes=(0,))),
    "division": cross_entropy_by(softmax_as_division),
    "division by a sum without the axis": cross_entropy_by(
        lambda x: ops.exp(x) / ops.expand_dims(ops.sum(ops.exp(x), (0,)), (0,))
    ),
    "division with a note": cross_entropy_by(softmax_with_own_base),
    "loss with a note": lambda x, t: (loss_with_note(x, t), ops.softmax(x, axes=(0,))),
    "element": lambda x, t: (
        -ops.sum(ops.log(ops.gather(ops.softmax(x, axes=(0,)), np.array([1])))),
        ops.softmax(x, axes=(0,)) + t * 0.0,
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_compiled_cross_entropy_is_finite_and_grad_leaves_its_value(name):
    graph = trace(FORMULAS[name], [VECTOR, VECTOR])
    types = [op.type for op in graph]
    before = list(amanda.run(graph, [LOGITS, TARGET], backend="numpy").values())
    assert [op.type for op in graph] == types, "compilation works on a copy"
    assert before[0] == 1000.0
    assert before[1].tolist() == [1.0, 0.0, 0.0]
    graph.result(grad(graph, graph.results[0], graph.parameters[:1])[0])
    after = list(amanda.run(graph, [LOGITS, TARGET], backend="numpy").values())
    for a, b in zip(before, after, strict=False):
        assert a.tobytes() == b.tobytes()
    np.testing.assert_allclose(after[2], [1.0, -1.0, 0.0], atol=1e-7)


def test_logarithms_of_a_softmax_are_finite():
    graph = trace(lambda x: ops.log(ops.softmax(x, axes=(0,))), [VECTOR])
    (y,) = amanda.run(graph, [LOGITS], backend="numpy").values()
    assert y.tolist() == [0.0, -1000.0, -2000.0]


def test_the_logarithm_of_a_written_out_sigmoid():
    def function(x):
        return ops.log(ops.reciprocal(ops.exp(-x) + 1.0)), ops.log1p(ops.exp(x))

    graph = trace(function, [VECTOR])
    got = list(amanda.run(graph, [LOGITS], backend="numpy").values())
    assert got[0].tolist() == [0.0, np.float32(-math.log(2)), -1000.0]
    assert got[1].tolist() == [1000.0, np.float32(math.log(2)), 0.0]


def test_a_gradient_with_respect_to_a_weight_takes_the_stable_path():
    graph = trace(
        lambda x: -ops.sum(TARGET * ops.log(ops.softmax(x + LOGITS, axes=(0,)))),
        [VECTOR],
    )
    (weight,) = (
        op
        for op in graph
        if op.is_constant and op.attrs["value"].numpy().tolist() == LOGITS.tolist()
    )
    graph.result(grad(graph, graph.results[0], [weight.output])[0])
    x = np.zeros(3, "float32")
    loss, slope = amanda.run(graph, [x], backend="numpy").values()
    assert loss == 1000.0
    assert slope.tolist() == [1.0, -1.0, 0.0]


def test_a_gradient_with_respect_to_a_constant_of_a_formula_is_that_of_the_formula():
    graph = trace(lambda x: ops.sum(ops.log(x + np.float32(1.0))), [VECTOR])
    (one,) = (op for op in graph if op.is_constant)
    graph.result(grad(graph, graph.results[0], [one.output])[0])
    _, slope = amanda.run(graph, [TARGET], backend="numpy").values()
    assert slope == 2.5  # 1 / (x + 1), summed
    assert not any("stable.barrier" in p.marks for op in graph for p in op.outputs)


def test_a_note_is_kept_by_the_forms_and_lowered_by_mappings(tmp_path):
    graph = trace(cross_entropy_by(softmax_with_own_base), [VECTOR, VECTOR])
    for suffix in ("amanda", "yaml"):
        path = tmp_path / f"note.{suffix}"
        amanda.save(graph, path)
        loaded = amanda.load(path)
        y = next(iter(amanda.run(loaded, [LOGITS, TARGET], backend="numpy").values()))
        assert y == 1000.0


def test_a_note_names_a_known_op():
    with pytest.raises(NamespaceError, match="no op 'softmix'"):
        trace(lambda x: ops.schema_note(x, x, schema="softmix"), [VECTOR])


def test_a_note_of_another_type_is_an_error():
    def function(x):
        return ops.schema_note(ops.sum(x), x, schema="softmax", attrs={"axes": (0,)})

    graph = trace(function, [VECTOR])
    with pytest.raises(InvalidTypeError, match="'softmax' has another type"):
        stable(graph)
