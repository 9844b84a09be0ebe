"""The engine between true dictionaries: a few rows from ONNX to the hub and back."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from amanda.graph import Graph
from amanda.mapping import PlainSide, RuleMapping, RuleSet, Side
from amanda.tensors import Tensor
from amanda.types import DType, parse_type

pytest.importorskip("amanda_std")
pytest.importorskip("amanda_namespaces")

STD = "amanda/std/1"
ROWS = """
    Relu(x)                   <=>  relu(x)
    Add(a, b)                 <=>  add(a, b)
    MatMul(a, b)              <=>  matmul(a, b)
    Softmax[13:](x, axis=a)   <=>  softmax(x, axes=only(a))
    Softmax[:12](x, axis=a)   <=>  softmax(x, axes=trailing(a, rank(x)))
    Transpose(x, perm=p)      <=>  transpose(x, perm=p)
    Cast(x, to=t)             <=>  astype(x, dtype=code(t))
    Concat(*xs, axis=a)       <=>  concat(*xs, axis=a)
    Reshape[5:](x, s)         <=>  reshape(x, s, copy_zero=True)
    Reshape[14:](x, s, allowzero=1)  <=>  reshape(x, s)
    Reshape[5:](x, s)         <=   reshape(x, nonzero(s))
    Conv(x, w, b, auto_pad="NOTSET", pads=p, strides=s, dilations=d, group=g,
         kernel_shape=_)
        <=>  conv(x, w, b, padding=pairs(p), strides=s, dilations=d, groups=g)
    ReduceSum[:12](x, axes=a, keepdims=k)  <=>  sum(x, a, keepdims=flag(k))
    ReduceSum[13:](x, a, keepdims=k)       <=>  sum(x, a, keepdims=flag(k))
    If(c, then_branch=t, else_branch=e)    <=>  if(c, then=t, otherwise=e)
    Gemm(a, b, c)             <=   add(matmul(a, b), c)  if rank(a) == 2
    Gemm(a, b, c, transB=1)   <=   add(matmul(a, transpose(b, perm=[1, 0])), c)
                                   if rank(a) == 2
"""


@cache
def onnx(name: str) -> Side:
    import amanda_namespaces

    return PlainSide.of(amanda_namespaces.onnx.at(name.rpartition("/")[2]))


@cache
def mapping() -> RuleMapping:
    from amanda_std import ops
    from amanda_std.mappings import STD_SIDE

    rules = RuleSet("onnx-std", "amanda/onnx", STD)
    rules.table("code", {1: DType("float32"), 7: DType("int64"), 10: DType("float16")})
    rules.equations(ROWS, "onnx.rules")

    @rules.read("Gemm")
    def gemm(
        a: Any,
        b: Any,
        c: Any = None,
        *,
        alpha: float,
        beta: float,
        transA: int,  # noqa: N803
        transB: int,  # noqa: N803
    ) -> Any:
        a = ops.transpose(a, perm=(1, 0)) if transA else a
        b = ops.transpose(b, perm=(1, 0)) if transB else b
        y = a @ b if alpha == 1 else a @ b * alpha
        return y if c is None else y + (c if beta == 1 else c * beta)

    return RuleMapping(onnx, STD_SIDE, rules)


def model(opset: int) -> Graph:
    graph = Graph(f"amanda/onnx/{opset}", name="model")
    x = graph.parameter(parse_type("float32[n, 3, 8, 8]"), name="x")
    make = np.random.default_rng(0).standard_normal

    def weight(*shape: int) -> Any:
        return graph.constant(Tensor.of(make(shape).astype("float32"))).output

    def add(type: str, *inputs: Any, **attrs: Any) -> Any:
        return graph.add(type, inputs, attrs, name=f"{type}_{len(graph)}").output

    attrs = {"pads": [1, 1, 1, 1], "strides": [2, 2], "kernel_shape": [3, 3]}
    y = add("Relu", add("Conv", x, weight(4, 3, 3, 3), weight(4), **attrs))
    if opset < 13:
        y = add("ReduceSum", y, axes=[3], keepdims=0)
    else:
        axes = graph.constant(Tensor.of([3], "int64")).output
        y = add("ReduceSum", y, axes, keepdims=0)
    shape = graph.constant(Tensor.of([0, 16], "int64")).output
    y = add("Reshape", y, shape)
    y = add("Gemm", y, weight(5, 16), weight(5), transB=1)
    graph.result(add("Softmax", y, axis=1), "y")
    return graph


def types(graph: Graph) -> list[str]:
    return [op.type or "" for op in graph if op.type != "constant"]


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_in_and_out_of_the_hub(opset: int) -> None:
    graph = model(opset)
    over = mapping().conversion(graph, STD)
    assert not over.report.gaps, over.report.gaps
    assert over.graph.check() == []
    assert types(over.graph) == [
        "conv", "relu", "sum", "reshape", "transpose", "matmul", "add", "softmax"
    ]  # fmt: skip
    assert str(over.graph.results[0].type) == "float32[n, 5]"  # type: ignore[union-attr]
    for target in (11, 13, 18):
        back = mapping().conversion(over.graph, f"amanda/onnx/{target}")
        assert not back.report.gaps, back.report.gaps
        assert types(back.graph) == types(graph)
        assert [op.name for op in back.graph if op.type == "Gemm"] == [
            op.name for op in graph if op.type == "Gemm"
        ]


def test_the_numbers_stay_the_same() -> None:
    from amanda_std.backends import StepRunner

    over = mapping().conversion(model(18), STD).graph
    there = mapping().conversion(over, "amanda/onnx/11").graph
    again = mapping().conversion(there, STD).graph
    x = np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype("float32")
    first, second = (StepRunner(graph).run([x])[0] for graph in (over, again))
    np.testing.assert_allclose(first, second, rtol=1e-6)
    np.testing.assert_allclose(np.sum(first, axis=1), 1, rtol=1e-5)


def test_bodies() -> None:
    graph = Graph("amanda/onnx/18")
    x = graph.parameter(parse_type("float32[2]"), name="x")
    c = graph.parameter(parse_type("bool[]"), name="c")
    bodies = {"then_branch": Graph(outer=graph), "else_branch": Graph(outer=graph)}
    for body in bodies.values():
        body.result(body.add("Relu", [x], name="r").output)
    choice = graph.add("If", [c], name="choice", bodies=bodies)
    graph.result(choice.output, "y")
    over = mapping().conversion(graph, STD)
    assert not over.report.gaps, over.report.gaps
    assert str(over.graph["choice"].output.type) == "float32[2]"
    back = mapping().conversion(over.graph, "amanda/onnx/18")
    assert not back.report.gaps, back.report.gaps
    assert sorted(back.graph["choice"].bodies) == ["else_branch", "then_branch"]
