"""Nested graphs that stand as ops: local functions of a model, or inlined."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.errors import FormatError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import parse_type

TYPE = parse_type("float32[4]")
X = np.array([1, -2, 3, 0.5], "f")
LARGE = np.linspace(-1, 1, 4 * 512, dtype="f").reshape(512, 4)


def root(opset="amanda/onnx/18"):
    graph = Graph(opset, "main")
    return graph, graph.parameter(TYPE, "x")


def nested(graph, inputs, fill, **more):
    """Add a nested graph whose results are those of `fill(inner, *parameters)`."""
    inner = Graph(None, outer=graph, **more)
    parameters = [inner.parameter(TYPE, f"p{i}") for i in range(len(inputs))]
    for i, value in enumerate(fill(inner, *parameters)):
        inner.result(value, f"r{i}")
    graph.add_graph(inner, inputs)
    return inner


def finish(graph, *values, shape="[4]"):
    """Add the results, with the types that onnx requires."""
    for i, value in enumerate(values):
        value.type = value.type or parse_type(f"float32{shape}")
        graph.result(value, f"y{i}")
    return graph


def add(graph, kind, *inputs, **attrs):
    return graph.add(kind, inputs, attrs).output


def block():
    graph, x = root()
    y = add(graph, "Relu", x)
    finish(graph, add(graph, "Exp", add(graph, "Neg", y)))
    graph.outline(list(graph)[:2], name="block", type="Block")
    return graph, [np.exp(-np.maximum(X, 0))]


def without_type():
    graph, x = root()
    inner = nested(graph, [x, x], lambda g, p, q: [add(g, "Add", p, q)])
    finish(graph, inner.outputs[0])
    return graph, [2 * X]


def named_as_an_op():
    graph, x = root()
    inner = nested(graph, [x], lambda g, p: [add(g, "Neg", p)], type="Relu")
    finish(graph, inner.outputs[0])
    return graph, [-X]


def captures():
    graph, x = root()
    twice = add(graph, "Add", x, x)
    inner = nested(graph, [], lambda g: [add(g, "Sub", twice, x)], name="inner")
    finish(graph, inner.outputs[0])
    return graph, [X]


def deep():
    """A nested graph in a nested graph that captures through both."""
    graph, x = root()

    def outer(g, p):
        inner = nested(g, [p], lambda h, q: [add(h, "Mul", add(h, "Add", q, p), x)])
        return [add(g, "Neg", inner.outputs[0])]

    one = nested(graph, [x], outer, type="Deep")
    two = nested(graph, [one.outputs[0]], outer, type="Deep")
    finish(graph, two.outputs[0])
    once = -2 * X * X
    return graph, [-2 * once * X]


def passes_through():
    graph, x = root()
    inner = nested(graph, [x, x], lambda g, p, q: [p, q, q])
    finish(graph, *inner.outputs)
    return graph, [X, X, X]


def weights():
    """A large weight and a small one."""
    graph, x = root()

    def fill(g, p):
        large = g.constant(Tensor.of(LARGE), "w").output
        small = g.constant(Tensor.of(np.float32([[1], [2], [3], [4]]))).output
        return [add(g, "MatMul", add(g, "Mul", large, p), small)]

    inner = nested(graph, [x], fill, type="Dense")
    finish(graph, inner.outputs[0], shape="[512, 1]")
    return graph, [(LARGE * X) @ np.float32([[1], [2], [3], [4]])]


def in_a_branch():
    """A nested graph in a body that captures a value of the graph around."""
    graph, x = root()
    flag = graph.constant(Tensor.of(np.array(True))).output
    bodies = {}
    for key, kind in (("then_branch", "Neg"), ("else_branch", "Exp")):
        body = Graph(outer=graph)
        inner = nested(body, [x], lambda g, p, kind=kind: [add(g, kind, p)])
        finish(body, inner.outputs[0])
        bodies[key] = body
    op = graph.add("If", [flag], bodies=bodies)
    finish(graph, op.output)
    return graph, [-X]


CASES = [block, without_type, named_as_an_op, captures, deep, passes_through,
         weights, in_a_branch]  # fmt: skip


@pytest.mark.parametrize("how", ["functions", "inline"])
@pytest.mark.parametrize("case", CASES)
def test_a_file_computes_what_the_graph_means(case, how, tmp_path):
    graph, want = case()
    file = tmp_path / "model.onnx"
    before = graph.digest(content=True, names=True)
    amanda.save(graph, file, subgraphs=how)
    assert graph.digest(content=True, names=True) == before
    onnx.checker.check_model(file)
    proto = onnx.load(file)
    assert bool(proto.functions) is (how == "functions")
    for got in (
        ReferenceEvaluator(proto).run(None, {"x": X}),
        amanda.run(amanda.load(file), [X], backend="numpy").values(),
    ):
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("case", CASES)
def test_a_graph_runs_on_every_backend(case, backend):
    pytest.importorskip("onnxruntime")
    graph, want = case()
    got = amanda.run(graph, [X], backend=backend).values()
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("to", ["amanda/std/1", "amanda/onnx/13", "amanda/onnx/21"])
def test_conversions_keep_nested_graphs(case, to):
    graph, want = case()
    made = amanda.convert(graph, to)
    count = [sum(isinstance(op, Graph) for op in g.walk()) for g in (graph, made)]
    assert count[0] == count[1] > 0
    got = amanda.run(made, [X], backend="numpy").values()
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_large_weights_of_functions_are_initializers(tmp_path):
    graph, _ = weights()
    file = tmp_path / "model.onnx"
    amanda.save(graph, file, external=True)
    [data] = tmp_path.glob("model.onnx.*.data")
    assert data.stat().st_size >= LARGE.nbytes
    assert [each.name for each in onnx.load(file).graph.initializer] == ["w"]
    assert [each.name for each in onnx.load(file).functions] == ["Dense"]


def test_an_older_ir_version_is_raised_for_functions(tmp_path):
    graph, _ = block()
    graph.namespace = "amanda/onnx/11"
    file = tmp_path / "model.onnx"
    amanda.save(graph, file)
    assert onnx.load(file).ir_version == 8
    amanda.save(graph, file, subgraphs="inline")
    assert onnx.load(file).ir_version == 6


def test_what_functions_cannot_hold_is_named(tmp_path):
    graph, x = root()
    inner = nested(graph, [x], lambda g, p: [add(g, "Neg", p)], name="inner")
    other = graph.add("Neg", [x])
    graph.control(other, inner)
    finish(graph, inner.outputs[0])
    with pytest.raises(FormatError, match=r"'inner': a subgraph .*no control edges"):
        amanda.save(graph, tmp_path / "model.onnx")
    with pytest.raises(FormatError, match="functions, inline"):
        amanda.save(graph, tmp_path / "model.onnx", subgraphs="both")
