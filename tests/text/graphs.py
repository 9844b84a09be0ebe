"""Graphs that several tests write and read."""

from __future__ import annotations

import numpy as np

from amanda.graph import Graph, Provenance
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Quantized, Shape, Sym, parse_type

__all__ = ["everything"]


def everything() -> Graph:
    """One of each: bodies, captures, signals, functions, values of all kinds."""
    graph = Graph("amanda/std/1", name="net", type="Model")
    graph.attrs.update(version=3, note="all")
    graph.imports.update({"": 18, "com.example": 2})
    x = graph.parameter(parse_type("float32[n, 3]"), "x")
    x.mark("keep")
    weight = graph.constant(Tensor.splat("float32", (3, 4), 0.5), "w")
    graph.constant(Tensor.of(np.arange(40, dtype="float32")))
    product = graph.add("matmul", [x, weight.output], values(), name="dense/MatMul")
    product.output.type = parse_type("float32[n, 4]")
    product.input_ports[1].set_name("b")
    product.input_ports[1].attrs["layout"] = "IO"
    product.input_ports[0].edge_attrs["cut"] = True
    product.provenance = Provenance(("MatMul_1", "Add_2"), "fuse")
    choice = graph.add("If", [product.output, None], name="cond", outputs=2)
    choice.outputs[0].name, choice.outputs[0].type = "o", parse_type('opaque<"T<x>">')
    for key in ("then", "else"):
        body = Graph(outer=graph)
        body.result(body.add("neg", [product.output]).output)
        choice.set_body(key, body)
    graph.control(product, choice, {"why": "order"})
    inner = Graph("amanda/onnx/18", name="h", type="Dense", outer=graph)
    relu = inner.add("Relu", [inner.parameter(name="hx")], name="h")
    inner.control(inner, relu)
    inner.control(relu, inner, {"last": True})
    inner.result(relu.output, "hk").edge_attrs["e"] = 1
    graph.add_graph(inner, [choice.outputs[1]])
    merge = graph.add("Merge", [x, None], outputs=2)
    back = graph.add("NextIteration", [merge.outputs[0]], feedback=True)
    merge.input_ports[1].connect(back.output)
    graph.result(inner.outputs[0], "out")
    graph.result(None)
    graph.set_entry("serve", {"x": x}, {"y": inner.outputs[0]})
    function = Graph()
    function.result(function.add("tanh", [function.parameter()]).output)
    graph.add_function("act", function)
    return graph


def values() -> dict[str, object]:
    return {
        "none": None,
        "yes": True,
        "int": 2**70,
        "floats": [1.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324, 1e16],
        "complex": [1j, complex(-0.0, float("nan")), complex(float("inf"), -0.0)],
        "texts": ["no", "1e5", "", "a: b", "\x00\x85\u2028é", "2020-01-01", "$x"],
        "bytes": b"\x00\xff",
        "dtype": DType("bfloat16"),
        "quantized": Quantized("int8", "float32", 0.5, 3),
        "shape": Shape([1, Sym.named("n")]),
        "rank": Shape(None),
        "dim": Sym.named("n") * 2 + 1,
        "type": parse_type("sequence<float32[batch, ?]>"),
        "tensor": Tensor.of(np.array([1, 2], "int64")),
        "strings": Tensor.strings(["a", b"\xff"]),
        "function": FunctionRef("act"),
        "map": {"$dtype": "text", "deep": {"a": [[], {}]}},
        "type_attr": "float32",
    }
