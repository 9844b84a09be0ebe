"""Calls like one before give what the first would have given, and nothing else."""

from __future__ import annotations

import math

import numpy as np
import pytest

from amanda.errors import AmandaError
from amanda.graph import Graph, Provenance
from amanda.tensors import Tensor
from amanda.types import Sym, TensorType, parse_type
from amanda_std import Value, ops, trace, tracing
from amanda_std.engine.arrays import array_type
from amanda_std.engine.call_cache import CallCache
from amanda_std.hub.mapping_side import STD_SIDE
from amanda_std.ops import OPS

X = parse_type("float32[n, 4]")


@pytest.fixture
def fresh(monkeypatch):
    """Forgets what was called before, of one operation."""
    return lambda op: monkeypatch.setattr(op, "repeats", CallCache(op))


def known(op):
    return len(op.repeats._calls)


def told(op):
    """All that a call decides about an op."""
    attrs = {k: (type(v), repr(v)) for k, v in op.attrs.items()}
    return op.type, attrs, [v.type for v in op.outputs], len(op.inputs)


def is_tensor(value):
    return isinstance(value, np.ndarray | np.generic)


def symbolic(array):
    dims = [Sym.named(f"s{d}") if d > 1 else d for d in np.shape(array)]
    return TensorType(array_type(array).dtype, dims)


@pytest.mark.parametrize("typing", [array_type, symbolic])
@pytest.mark.parametrize("name", [n for n, op in OPS.items() if not op.body_rule])
def test_each_op_twice(name, typing, fresh):
    """The second op is the first one again, on values of its own."""
    op = OPS[name]
    for sample in op.samples_rule():
        fresh(op)
        graph = Graph("amanda/std/1")
        made = []
        for _ in range(2):
            args = [
                Value(graph.parameter(typing(np.asarray(a)))) if is_tensor(a) else a
                for a in sample.args
            ]
            with tracing(graph) as into:
                try:
                    op(*args, **sample.attrs)
                except AmandaError:
                    break  # for types alone there is no such op
            made.append((into.made, args))
        if len(made) < 2 or not known(op):
            continue
        (first,), _ = made[0]
        (second,), args = made[1]
        assert told(second) == told(first)
        given = [a.port for a in args if isinstance(a, Value)]
        assert [v for v in second.inputs if v is not None] == given
        assert graph.check() == []


def test_most_ops_are_known_from_the_first(fresh):
    """The test above compares something."""
    count = 0
    for op in OPS.values():
        if (
            op.body_rule is None
            and op.form.params
            and op.form.params[0].role != "value"
        ):
            fresh(op)
            sample = next(iter(op.samples_rule()))
            graph = Graph("amanda/std/1")
            args = [
                Value(graph.parameter(array_type(np.asarray(a)))) if is_tensor(a) else a
                for a in sample.args
            ]
            with tracing(graph):
                op(*args, **sample.attrs)
            count += known(op)
    assert count > 200


@pytest.mark.parametrize("other", [(True,), [1], (-1,), (0, 1)])
def test_equal_attributes_that_are_not_the_same_stay_apart(other, fresh):
    for axes in ((1,), other, (1,)):
        graph = trace(lambda x, axes=axes: ops.softmax(x, axes=axes), [X])
        fresh(OPS["softmax"])
        alone = trace(lambda x, axes=axes: ops.softmax(x, axes=axes), [X])
        assert told(graph[0]) == told(alone[0])


def test_zeros_keep_their_sign():
    graph = trace(lambda x: [ops.nan_to_num(x, high=a) for a in (0.0, -0.0)], [X])
    plus, minus = (op.attrs["high"] for op in graph)
    assert (math.copysign(1, plus), math.copysign(1, minus)) == (1.0, -1.0)


def test_content_of_constants_decides(fresh):
    """Two constants of one type with other numbers are two calls."""
    fresh(ops.reshape)
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter(parse_type("float32[6]")))
    with tracing(graph):
        shapes = [
            Value(graph.constant(Tensor.of(np.int64(s))).output)
            for s in ([2, 3], [3, 2], [2, 3])
        ]
        found = [str(ops.reshape(x, shape).type) for shape in shapes]
    assert found == ["float32[2, 3]", "float32[3, 2]", "float32[2, 3]"]


def test_dims_that_are_made_up_are_made_up_anew(fresh):
    fresh(ops.nonzero)
    graph = trace(lambda x: (ops.nonzero(x), ops.nonzero(x)), [X])
    first, second = (value.type for value in graph.results)
    assert first != second


def test_names_places_and_sources_are_those_of_the_call():
    graph = trace(lambda x: ops.tanh(ops.tanh(x)), [X])
    last = graph.results[0].op
    origin = Provenance(("a",), "b")
    with tracing(graph, last, origin):
        between = ops.tanh(graph.parameters[0], name="mine").port.op
    assert [op.name for op in graph] == [None, "mine", None]
    assert between.provenance == origin
    assert last.provenance is None


def test_wrong_use_is_told_as_the_first_time():
    """A value of another graph, after right calls on values of its type."""
    other = trace(ops.tanh, [X])
    graph = trace(ops.tanh, [X])
    with tracing(graph), pytest.raises(AmandaError, match="cannot be read here"):
        ops.tanh(other.results[0])
    assert len(graph) == 1
    assert graph.check() == []


def test_a_value_that_was_replaced_is_followed():
    graph = trace(ops.tanh, [X])
    (old,) = graph.results
    with graph.before(old.op), tracing(graph):
        new = ops.relu(graph.parameters[0]).port
    graph.replace(old.op, [new])
    with tracing(graph):
        assert ops.tanh(old).port.op.inputs == (new,)


def test_a_side_and_a_call_may_mean_other_things(fresh):
    """What rules leave out has its default; what a call gives as None is None."""
    fresh(ops.clip)
    graph = Graph("amanda/std/1")
    x = graph.parameter(X)
    low = graph.parameter(parse_type("float32[]"))
    by_side = [STD_SIDE.build(graph, "clip", [x, low, None], {})[0] for _ in range(2)]
    with tracing(graph):
        by_call = [ops.clip(x, low, None).port for _ in range(2)]
    assert len({repr(told(v.op)) for v in (*by_side, *by_call)}) == 1
    assert {v.op.inputs for v in (*by_side, *by_call)} == {(x, low)}
