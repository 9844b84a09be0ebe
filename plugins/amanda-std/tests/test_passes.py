"""Passes, decomposition and gradients over graphs."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.errors import InvalidTypeError, UsageError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import TensorType, parse_type
from amanda_std import expand, grad, lower, ops, trace, tracing
from amanda_std.hub.expansion import is_not_composite
from amanda_std.ops import OPS
from amanda_std.passes import (
    channels_first,
    channels_last,
    drop,
    fold,
    infer,
    share,
    sink,
)
from amanda_std.passes.pointwise import is_pointwise

X = parse_type("float32[n, 4]")


def kinds(graph):
    return [op.type for op in graph]


# -- lowering --------------------------------------------------------------------


def test_what_a_target_takes_is_left_whole():
    graph = trace(lambda x: ops.softmax(ops.gelu(x)), [X])
    assert lower(graph, lambda op: op.type == "softmax" or is_not_composite(op)) == []
    assert kinds(graph).count("softmax") == 1
    assert "erf" in kinds(graph)


def test_names_and_sources_survive():
    graph = Graph("amanda/std/1")
    x = graph.parameter(X)
    with tracing(graph):
        y = ops.softmax(x, name="probabilities").port
    y.name = "out"
    graph.result(y)
    lower(graph, is_not_composite)
    (value,) = graph.results
    assert (value.op.name, value.name, value.op.type) == (
        "probabilities",
        "out",
        "divide",
    )
    assert {op.provenance for op in graph} == {(("probabilities",), "lower")}
    assert y.resolve() is value


def test_a_target_may_bring_meanings_of_its_own():
    graph = trace(ops.relu, [X])
    rules = {"relu": lambda x: ops.clip(x, 0.0)}
    assert lower(graph, lambda op: op.type == "clip", rules) == []
    assert kinds(graph) == ["constant", "clip"]


def test_what_stays_is_told_with_the_reason():
    graph = trace(lambda x: ops.erf(x), [X])
    (left,) = lower(graph, lambda op: "no erf here")
    assert str(left) == "erf #0: no erf here"


def test_bodies_are_lowered_too(run):
    def function(c, x):
        return ops.if_(c, ops.relu, ops.silu, x)[0]

    graph = trace(function, [parse_type("bool[]"), X])
    assert lower(graph, is_not_composite) == []
    then, otherwise = graph[0].bodies.values()
    assert "relu" not in kinds(then)
    assert "silu" not in kinds(otherwise)
    x = np.float32([[-1, 2, 3, 4]])
    np.testing.assert_array_equal(run(graph, np.bool_(True), x)[0], np.maximum(x, 0))


def test_an_expansion_that_fails_leaves_the_graph_as_it_was():
    graph = trace(lambda x: ops.layer_norm(x, axis=1), [parse_type("float32[...]")])
    before = graph.clone()
    with pytest.raises(Exception, match="rank"):
        expand(graph[0])
    assert graph.difference(before) is None


# -- infer, fold, share, drop ----------------------------------------------------


def test_infer_follows_a_changed_type():
    graph = trace(lambda x: ops.reshape(x, [x.shape[0] * 2, 2]), [X])
    assert str(graph.results[0].type) == "float32[2*n, 2]"
    graph.parameters[0].type = parse_type("float32[3, 4]")
    infer(graph)
    assert str(graph.results[0].type) == "float32[6, 2]"


def test_infer_looks_at_what_changed_only():
    graph = trace(lambda x, y: (ops.exp(x), ops.relu(ops.exp(y))), [X, X])
    graph.parameters[0].type = parse_type("float32[3, 4]")
    assert infer(graph, [graph.parameters[0]]) == 1
    assert infer(graph, [graph.parameters[0]]) == 0


def test_fold_computes_what_is_constant_and_small():
    graph = trace(lambda x: x + ops.exp(ops.zeros_like(x)), [parse_type("float32[4]")])
    lower(graph, is_not_composite)
    fold(graph)
    drop(graph)
    assert kinds(graph) == ["constant", "add"]
    assert graph[0].attrs["value"].tolist() == [1.0] * 4
    large = trace(
        lambda x: x + ops.exp(ops.zeros_like(x)), [parse_type("float32[4096, 64]")]
    )
    lower(large, is_not_composite)
    fold(large)
    assert "exp" in kinds(large)


def test_fold_knows_what_the_types_tell():
    graph = trace(ops.shape_of, [parse_type("float32[2, 3]")])
    assert fold(graph) == 1
    assert graph.results[0].op.attrs["value"].tolist() == [2, 3]


def test_share_finds_equal_ops_with_operands_in_any_order():
    graph = trace(lambda x, y: (x + y) * (y + x) - (x - y) * (y - x), [X, X])
    assert share(graph) == 1
    assert kinds(graph).count("add") == 1
    assert kinds(graph).count("subtract") == 3


def test_share_tells_attributes_apart():
    def function(x):
        return ops.leaky_relu(x, slope=0.0), ops.leaky_relu(x, slope=-0.0)

    assert share(trace(function, [X])) == 0


@pytest.mark.parametrize("move", [sink, channels_last, channels_first])
def test_transposes_of_others_are_not_moved(move):
    """A kept op of another framework may be called so, and be anything."""
    graph = Graph("amanda/std/1")
    x = graph.parameter(X)
    foreign = graph.add("transpose", [x], {"perm": "ab"}, outputs=2)
    foreign.namespace = "acme/ops/1"
    foreign.outputs[0].type = X
    graph.result(graph.add("relu", [foreign.outputs[0]]).output)
    before = graph.clone()
    move(graph)
    assert graph.same_as(before)


@pytest.mark.parametrize("name", OPS)
def test_every_op_is_pointwise_or_not(name):
    """Whatever is given of what it takes, and however few axes an example has."""
    operation = OPS[name]
    for count in range(1, 8):
        try:
            operation.form.params_of(count)
        except UsageError:
            continue
        found = is_pointwise(operation, {}, [True] * count)
        assert found is False or name not in ("lstm", "gru", "softmax", "matmul")


def test_drop_keeps_what_is_marked():
    graph = trace(lambda x: x, [X])
    with tracing(graph):
        kept = ops.exp(graph.parameters[0])
        ops.relu(kept)
    kept.port.mark("keep")
    assert drop(graph) == 1
    assert kinds(graph) == ["exp"]


def test_drop_removes_constants_that_others_wait_for():
    """A constant has no effect; another op that is waited for stays."""
    graph = trace(lambda x: ops.relu(x), [X])
    with tracing(graph):
        waited_for = ops.exp(graph.parameters[0])
    relu = graph.results[0].op
    constant = graph.constant(np.zeros(2))
    graph.control(constant, relu)
    graph.control(waited_for.port.op, relu)
    assert drop(graph) == 1
    assert sorted(kinds(graph)) == ["exp", "relu"]


# -- gradients -------------------------------------------------------------------


def test_a_gradient_reads_like_the_loss(run):
    graph = trace(lambda x: ops.sum(x * x), [parse_type("float64[3]")])
    graph.result(*grad(graph, graph.results[0], graph.parameters))
    loss, slope = run(graph, np.array([1.0, 2.0, 3.0]))
    assert (loss.item(), slope.tolist()) == (14.0, [2.0, 4.0, 6.0])


def test_symbolic_dims_are_summed_at_run_time(run):
    """Whether an axis was broadcast is not known: sum_to decides when it runs."""
    types = [parse_type("float64[n, 3]"), parse_type("float64[m, 3]")]
    graph = trace(lambda x, y: ops.sum(x * y), types)
    for value in grad(graph, graph.results[0], graph.parameters):
        graph.result(value)
    x, y = np.ones((4, 3)), np.full((1, 3), 2.0)
    _, to_x, to_y = run(graph, x, y)
    assert (to_x.tolist(), to_y.tolist()) == ([[2.0] * 3] * 4, [[4.0] * 3])


def test_what_a_loss_does_not_read_has_a_gradient_of_zeros(run):
    types = [parse_type("float64[2]")] * 2
    graph = trace(lambda x, _: ops.sum(x), types)
    graph.result(grad(graph, graph.results[0], [graph.parameters[1]])[0])
    assert run(graph, np.ones(2), np.ones(2))[1].tolist() == [0.0, 0.0]


def test_stop_gradient_stops_it(run):
    graph = trace(
        lambda x: ops.sum(x * ops.stop_gradient(x)), [parse_type("float64[2]")]
    )
    graph.result(grad(graph, graph.results[0], graph.parameters)[0])
    assert run(graph, np.array([3.0, 4.0]))[1].tolist() == [3.0, 4.0]


def test_no_gradient_says_why():
    def function(x):
        return ops.sum(
            ops.while_(lambda v: ops.all(ops.less(v, 3.0)), lambda v: v + v, x)[0]
        )

    graph = trace(function, [parse_type("float32[2]")])
    with pytest.raises(UsageError, match="unbounded loop") as caught:
        grad(graph, graph.results[0], graph.parameters)
    assert "stop_gradient" in str(caught.value)
    ints = trace(lambda x: x + x, [TensorType("int32", [2])])
    with pytest.raises(InvalidTypeError, match="real numbers"):
        grad(ints, ints.results[0], ints.parameters)


def test_large_transposed_constants_are_copied_when_they_are_read():
    weight = np.arange(300 * 200, dtype="float32").reshape(300, 200)
    graph = Graph("amanda/std/1")
    constant = graph.constant(weight).output
    graph.result(graph.add("transpose", [constant], {"perm": (1, 0)}).output)
    infer(graph)
    assert fold(graph) == 1
    folded = graph.results[0].op.attrs["value"]
    assert folded.is_lazy
    np.testing.assert_array_equal(folded.numpy(), weight.T)


@pytest.mark.parametrize("is_repeated", [False, True])
def test_what_tied_weights_are_used_for_is_not_folded(is_repeated):
    """The tensor would be there twice. Two constants of one tensor are like one."""
    weight = Tensor.of(np.ones((300, 200), "float32"))
    graph = Graph("amanda/std/1")
    x = graph.parameter(TensorType("int32", [4]))
    first = graph.constant(weight).output
    second = graph.constant(weight).output if is_repeated else first
    with tracing(graph):
        graph.result(ops.gather(first, x, axis=0).port)
        graph.result(ops.transpose(second, perm=(1, 0)).port)
    infer(graph)
    assert fold(graph) == 0
