"""The readable form: how it looks, what people may write, how it is shortened."""

from __future__ import annotations

import pytest
from text.graphs import everything

from amanda.errors import FormatError
from amanda.files.text import readable
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import DType, Shape, parse_type

LOOKS = """\
amanda 1

graph %net = Model in "amanda/std/1" ($x: float32[n, 3] @keep) -> (out, _) {
  imports {"": 18, com.example: 2}
  attrs {version: 3, note: "all"}
  %w = tensor<float32[3, 4]>(splat 0.5)
  %1 = tensor<float32[5]>(0.0, 1.0, 2.0, 3.0, 4.0)
  %dense/MatMul = matmul($x edge {cut: true}, b=%w port {layout: "IO"}) \
{axis: 1, dtype: bfloat16} : float32[n, 4] made by "fuse" from ["MatMul_1", "Add_2"]
  %cond = If(%dense/MatMul, _) : (o: opaque<"T<x>">, _) \
after %dense/MatMul edge {why: "order"}
    body then () -> (_) {
      %0 = neg(^%dense/MatMul)
      return %0
    }
    body else () -> (_) {
      %0 = neg(^%dense/MatMul)
      return %0
    }
  %h = Dense(%cond#1) in "amanda/onnx/18" graph ($hx) -> (hk) {
    %h = Relu($hx) after $
    return %h edge {e: 1} after %h edge {last: true}
  }
  %5 = Merge($x, %6) : (_, _)
  %6 = NextIteration(%5) feedback
  return %h, _
  entry serve (x=$x) -> (y=%h)
  function act (_) -> (_) {
    %0 = tanh($0)
    return %0
  }
}
"""


def test_how_it_looks() -> None:
    graph = everything()
    attrs = graph["dense/MatMul"].attrs
    attrs.clear()
    attrs.update(axis=1, dtype=DType("bfloat16"))
    graph.replace(graph.ops[1], [graph.add("x").output])
    with graph.before(graph["dense/MatMul"]):
        graph.constant(Tensor.of([0.0, 1.0, 2.0, 3.0, 4.0], "float32"))
    graph.remove(graph.ops[-1])
    assert readable.dumps(graph) == LOOKS
    assert readable.loads(LOOKS).same_as(graph)


BY_HAND = """
// what a person may write: other layout, comments, other order of clauses
amanda 1 graph(a:float32[2],"odd name")->(r){ attrs{k:[1,2.5,"x"],}
%y=add(lhs=$a,rhs=$"odd name"){t:float32,s:shape[2,n],d:dim(n + 1),u:type<token>}
   feedback in "amanda/x/1" after $
 return %y }
"""


def test_people_may_lay_it_out_otherwise() -> None:
    text = BY_HAND.replace("],}", "]}")
    graph = readable.loads(text)
    op = graph["y"]
    assert op.inputs == graph.parameters
    assert [port.name for port in op.input_ports] == ["lhs", "rhs"]
    assert op.attrs["t"] is DType("float32")
    assert op.attrs["s"] == Shape([2, op.attrs["d"] - 1])
    assert op.feedback
    assert op.own_namespace == "amanda/x/1"
    assert graph.inner_control_sources == (op,)


@pytest.mark.parametrize(
    "type_",
    [
        "float32[N=batch, C=3]",
        "int64[2] = [1, 2*n+1]",
        "int64[] = min(4, n)",
        "bool[] = true",
        "map<string, tuple<int64[], sequence<?[...]>>>",
        'opaque<"a > b, [c) \\" d">',
        "quantized<int8, float32, scale=0.5>[2]",
        'resource<"x">',
        '?["a ] b"]',
    ],
)
def test_types_end_where_they_should(type_: str) -> None:
    text = f"amanda 1 graph ($x: {type_} @keep {{a: 1}}, $y: {type_}) -> () {{}}"
    x, y = readable.loads(text).parameters
    assert str(x.type) == str(parse_type(type_)) == str(y.type)
    assert (x.attrs, x.marks) == ({"a": 1}, {"keep"})


def test_a_constant_with_more_to_tell() -> None:
    graph = Graph()
    plain = graph.constant(Tensor.of([1, 2], "int64"), "a")
    named = graph.constant(Tensor.of([1, 2], "int64"), "b")
    named.output.name = "value"
    untyped = graph.constant(Tensor.of([1, 2], "int64"), "c")
    untyped.output.type = None
    more = graph.constant(Tensor.of([1, 2], "int64"), "d")
    more.attrs["note"] = "x"
    lines = readable.dumps(graph).splitlines()[3:-1]
    assert lines == [
        "  %a = tensor<int64[2]>(1, 2)",
        "  %b = tensor<int64[2]>(1, 2) : (value: int64[2])",
        "  %c = tensor<int64[2]>(1, 2) : _",
        '  %d = constant() {value: tensor<int64[2]>(1, 2), note: "x"} : int64[2]'
        ' in "amanda/core/1"',
    ]
    assert readable.loads(readable.dumps(graph)).difference(graph) is None
    assert plain.output.type == named.output.type


def long_graph() -> Graph:
    graph = Graph(name="long")
    value = graph.constant(Tensor.of(list(range(100)), "int64"), "w").output
    for i in range(1000):
        value = graph.add("relu", [value], {"axes": list(range(50)), "doc": "a" * 99},
                          name=f"op{i}").output  # fmt: skip
    graph.result(value)
    return graph


def test_shortened() -> None:
    text = readable.dumps(long_graph(), abbreviate=True, max_ops=3)
    many = "[0, 1, 2, 3, 4, 5, 6, 7, ... 42 more]"
    doc = '"' + "a" * 60 + '"...'
    assert text == (
        "// shortened for reading\n\n"
        "graph %long () -> (_) {\n"
        "  %w = tensor<int64[100]>(...)\n"
        f"  %op0 = relu(%w) {{axes: {many}, doc: {doc}}}\n"
        "  ... 998 more ops ...\n"
        f"  %op999 = relu(%op998) {{axes: {many}, doc: {doc}}}\n"
        "  return %op999\n"
        "}\n"
    )
    with pytest.raises(FormatError, match="the text cannot be read"):
        readable.loads(text)


def test_records_of_formats_are_omitted_when_shortened() -> None:
    graph = Graph()
    graph.attrs["onnx:model"] = {"ir_version": 9}
    op = graph.add("relu", [graph.parameter("float32[2]", "x")], {"onnx:node": {}})
    op.attrs["alpha"] = 0.5
    graph.result(op.output, "y")
    graph.parameters[0].attrs["onnx:value"] = {}
    assert readable.dumps(graph, abbreviate=True) == (
        "// shortened for reading\n\n"
        "graph ($x: float32[2]) -> (y) {\n"
        "  %0 = relu($x) {alpha: 0.5}\n"
        "  return %0\n"
        "}\n"
    )
    assert "onnx:node" in readable.dumps(graph)


@pytest.mark.parametrize(("depth", "shown"), [(0, 0), (1, 1), (2, 2), (9, 3)])
def test_depth(depth: int, shown: int) -> None:
    root = graph = Graph()
    for i in range(3):
        graph = graph.add_graph(Graph(name=f"g{i}"))
        graph.add("leaf")
    text = readable.dumps(root, depth=depth)
    assert text.count("= leaf()") == shown
    assert text.count("{ ... }") == (shown < 3)


def test_what_needs_no_shortening_is_shown_whole() -> None:
    graph = everything()
    short = readable.dumps(graph, max_ops=100, depth=9)
    assert short.splitlines()[1:] == readable.dumps(graph).splitlines()[1:]
