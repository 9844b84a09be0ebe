"""What validation finds in graphs made for it, and how it tells it."""

from __future__ import annotations

from typing import Any

import pytest
from dictionary.specimens import acme

import amanda
from amanda.dictionary import (
    Dictionary,
    DictionaryFolder,
    DictionaryHeader,
    DictionaryHistory,
    OpHistory,
    attribute_fault,
    check_graph,
    encode_data_file,
    parse_signature,
    validate,
)
from amanda.dictionary.attributes import cast_value, fast_check
from amanda.graph import Graph
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Shape, Sym, parse_type


@pytest.fixture
def opset(onnx: DictionaryHistory) -> Dictionary:
    return onnx.at("18")


def told(dictionary: Dictionary, graph: Graph) -> list[str]:
    assert graph.check() == []
    return [str(problem) for problem in dictionary.validate(graph)]


def model(*types: str) -> tuple[Graph, list[amanda.OutputPort]]:
    graph = Graph("amanda/onnx/18")
    values = [graph.parameter(parse_type(t), f"x{i}") for i, t in enumerate(types)]
    return graph, list(values)


def test_a_fine_graph(opset: Dictionary) -> None:
    graph, (x,) = model("float32[1, 3, 8, 8]")
    graph.imports[""] = 18
    weight = graph.constant(Tensor.splat("float32", (4, 3, 3, 3), 0.5))
    conv = graph.add("Conv", [x, weight.output, None], {"pads": [1, 1, 1, 1]})
    conv.output.type = parse_type("float32[1, 4, 8, 8]")
    graph.result(graph.add("Relu", [conv.output]).output)
    assert told(opset, graph) == []
    found = check_graph(graph, against=opset)
    assert (found.ops, found.unchecked) == (2, {})


def test_types_bind_across_ports(opset: Dictionary) -> None:
    graph, (x, y, z) = model("float32[2]", "int32[2]", "string[2]")
    add = graph.add("Add", [x, y], name="mixed")
    add.output.type = parse_type("float64[2]")
    graph.add("Relu", [z], name="words")
    assert told(opset, graph) == [
        "Add 'mixed': input B is i32, but T is f32 by input A",
        "Add 'mixed': output C is f64, but T is f32 by input A",
        "Relu 'words': input X is string, but T allows i8, i16, i32, i64, bf16, f16, "
        "f32, f64",
    ]


def test_types_that_a_port_has(opset: Dictionary) -> None:
    graph, (x, shape, items) = model("float32[4]", "int32[2]", "sequence<float32[2]>")
    graph.add("Reshape", [x, shape], name="fold")
    graph.add("Concat", [x, items], {"axis": 0}, name="join")
    graph.add("ConcatFromSequence", [items], {"axis": 0}, name="stack")
    fold, join = told(opset, graph)
    assert fold == "Reshape 'fold': input shape is i32, not i64"
    start = (
        "Concat 'join': input inputs[1] is sequence<f32>, but T allows bool, i8, i16"
    )
    assert join.startswith(start)


def test_what_is_not_known_is_not_a_fault(opset: Dictionary) -> None:
    graph, (x,) = model("?[...]")
    opaque = graph.parameter(parse_type('opaque<"anything">'))
    plain = graph.parameter()
    graph.add("Add", [x, graph.add("Relu", [opaque]).output])
    graph.add("Add", [plain, x])
    assert told(opset, graph) == []


def test_arity(opset: Dictionary) -> None:
    graph, (x,) = model("float32[2]")
    graph.add("Relu", [x, x], name="a")
    graph.add("Conv", [x], name="b")
    graph.add("Conv", [x, None, x], name="c")
    graph.add("Concat", [], {"axis": 0}, name="d")
    graph.add("Concat", [x, None], {"axis": 0}, name="e")
    graph.add("Split", [x], name="f", outputs=0)
    graph.add("Dropout", [x], name="g", outputs=3)
    graph.add("Dropout", [x, None], name="h", outputs=1)
    assert told(opset, graph) == [
        "Relu 'a': inputs: expected 1 (X), got 2",
        "Conv 'b': inputs: expected 2 to 3 (X, W, B), got 1",
        "Conv 'c': input W is missing",
        "Concat 'd': inputs: expected at least 1 (inputs), got 0",
        "Concat 'e': input inputs[1] is missing",
        "Split 'f': outputs: expected at least 1 (outputs), got 0",
        "Dropout 'g': outputs: expected 1 to 2 (output, mask), got 3",
    ]


def test_bodies(opset: Dictionary) -> None:
    graph, (condition,) = model("bool[]")
    branches = {}
    for name in ("then_branch", "else_branchs"):
        branches[name] = body = Graph(outer=graph)
        body.result(body.add("Rleu", [condition], name=f"in {name}").output)
    body.result(body.results[0])
    graph.add("If", [condition], name="choose", bodies=branches)
    bodies = [problem for problem in opset.validate(graph) if problem.location == ""]
    assert [str(problem) for problem in bodies] == [
        "If 'choose': body 'else_branch' is missing",
        "If 'choose' has no body 'else_branchs' (did you mean 'else_branch'?)",
    ]
    inner = [problem for problem in opset.validate(graph) if problem.location]
    assert str(inner[0]) == (
        "Rleu 'in then_branch', in body 'then_branch' of If 'choose', "
        "is not in onnx@18 (did you mean 'Relu'?)"
    )


def test_bodies_take_and_give_what_their_op_does(opset: Dictionary) -> None:
    graph, (n, x) = model("int64[]", "float32[2]")
    body = Graph(outer=graph)
    for i in range(2):
        body.parameter(name=f"p{i}")
    body.result(body.add("Constant", [], {"value_int": 1}).output)
    graph.add("Loop", [n, None, x], name="loop", bodies={"body": body})
    assert told(opset, graph) == [
        "Loop 'loop': body 'body' has 2 parameters, expected 3 (inputs)",
        "Loop 'loop': body 'body' has 1 results, expected 2 (outputs + 1)",
    ]


def test_domains_and_imports(opset: Dictionary, shelf: DictionaryFolder) -> None:
    graph, (x,) = model("float32[2]")
    graph.imports["ai.onnx"] = 17
    graph.add("Relu", [x])
    graph.add("Scaler", [x], {"offset": 1}, namespace="amanda/onnx.ml/3", name="scale")
    graph.add("Foo", [x], namespace="onnx/com.acme/1")
    graph.add("Bar", [x], namespace="onnx/com.acme/1")
    found = check_graph(graph, against=shelf["amanda/onnx"].at("18"))
    assert [str(problem) for problem in found.problems] == [
        "Scaler 'scale': attribute offset is 1, not a list of floats",
        "graph (unnamed): does not import ai.onnx.ml, which its ops belong to "
        "(import ai.onnx.ml 3)",
    ]
    assert found.unchecked == {"onnx/com.acme/1": 2}
    looked_up = validate(graph, lambda name: opset if name == opset.name else None)
    assert [problem.kind for problem in looked_up] == ["import"]
    assert looked_up[0].message == "imports ai.onnx 17, its ops have 18"


def test_functions_have_their_own_versions(onnx: DictionaryHistory) -> None:
    graph, (x,) = model("float32[2]")
    older = graph.add_function("acme::old", Graph("amanda/onnx/9"))
    older.add("Upsample", [x1 := older.parameter(), x1], name="up")
    older.add("Gelu", [x1], name="gelu")
    graph.add("old", [x], namespace="onnx/acme/1")
    assert told(onnx.at("18"), graph) == [
        "Gelu 'gelu', in function 'acme::old', is not in onnx@9 "
        "(it exists from onnx@20 on)"
    ]


def test_namespaces_that_are_none(opset: Dictionary) -> None:
    graph, (x,) = model("float32[2]")
    for name in ("no name", "amanda/onnx/99", "amanda/onnx", "amanda/nothing/1"):
        graph.add("Relu", [x], namespace=name)
    found = check_graph(graph, against=opset)
    assert found.problems == []
    assert sum(found.unchecked.values()) == 4


def test_many_faults_are_told_in_time(opset: Dictionary) -> None:
    graph, (x,) = model("float32[2]")
    for _ in range(20_000):
        graph.add("Rleu", [x])
    problems = opset.validate(graph)
    assert len(problems) == 20_000
    assert problems[-1].op == "Rleu #19999"


def test_deprecated_ops(onnx: DictionaryHistory, tf1: Dictionary) -> None:
    graph = Graph("amanda/onnx/10")
    graph.add("Upsample", [graph.parameter(), graph.parameter()], name="up")
    (problem,) = onnx.at("10").validate(graph)
    assert problem.kind == "deprecated"
    assert problem.message == "is deprecated in onnx@10, since 10"
    assert onnx.at("9").validate(graph) == []
    assert tf1["BatchCholesky"].deprecated is not None
    old = Graph("amanda/tensorflow/1.13.1")
    old.add("BatchCholesky", [old.parameter()])
    assert tf1.validate(old) == []  # TensorFlow still runs it


def test_functions(tf1: Dictionary) -> None:
    graph = Graph("amanda/tensorflow/1.13.1")
    graph.add_function("square", Graph("amanda/tensorflow/1.13.1"))
    x = graph.parameter()
    types = {"Tin": [DType("float32")], "Tout": [DType("float32")]}
    graph.add("PartitionedCall", [x], {**types, "f": FunctionRef("square")}, name="a")
    graph.add("PartitionedCall", [x], {**types, "f": FunctionRef("sqare")}, name="b")
    graph.add("square", [x], name="c")
    inner = graph.functions["square"].add("Foo", name="d")
    assert inner.graph is not None
    assert told(tf1, graph) == [
        "PartitionedCall 'b': attribute f calls 'sqare', which is not a function "
        "(did you mean 'square'?)",
        "Foo 'd', in function 'square', is not in tensorflow@1.13.1 "
        "(did you mean 'Foo3' or 'Foo2' or 'Foo1'?)",
    ]


def test_attributes_of_the_function_around(opset: Dictionary) -> None:
    """As the ONNX format has them: their values come with each call."""
    graph, (x,) = model("float32[2]")
    function = graph.add_function("acme::leaky", Graph("amanda/onnx/18"))
    slope = {"onnx:ref": "slope", "kind": "FLOAT"}
    function.add("LeakyRelu", [function.parameter()], {"alpha": slope}, name="l")
    graph.add("leaky", [x], {"slope": 0.1}, namespace="onnx/acme/1")
    graph.add("Relu", [x], {"onnx:notes": {"odd": 1}})
    found = check_graph(graph, against=opset)
    assert (found.problems, found.unchecked) == ([], {})


def test_what_ports_say_is_looked_at_each_time(tf1: Dictionary) -> None:
    graph = Graph("amanda/tensorflow/1.13.1")
    x = graph.parameter(parse_type("float32[2]"))
    ops = [graph.add("Relu", [x], name=f"r{i}") for i in range(3)]
    assert told(tf1, graph) == []
    ops[1].input_ports[0].attrs["type_attr"] = "U"
    ops[2].outputs[0].attrs["number_attr"] = "N"
    ops[0].outputs[0].attrs["type_attr"] = "T"
    assert told(tf1, graph) == [
        "Relu 'r1': input features has type_attr 'U', expected 'T'",
        "Relu 'r2': output activations has number_attr 'N', expected None",
    ]


def test_lists_of_types_and_numbers(tf1: Dictionary) -> None:
    graph = Graph("amanda/tensorflow/1.13.1")
    x = graph.parameter(parse_type("float32[2]"))
    i = graph.parameter(parse_type("int32[]"))
    f32, i32 = DType("float32"), DType("int32")
    graph.add("ConcatV2", [x, x, i], {"N": 2, "T": f32, "Tidx": i32}, name="fine")
    graph.add("ConcatV2", [x, x, i], {"N": 3, "T": f32}, name="three")
    graph.add("ConcatV2", [x, x, i], name="derived")
    graph.add("ConcatV2", [x, i, i], {"N": 2}, name="mixed")
    graph.add("IdentityN", [x, i], {"T": [f32, f32]}, name="listed", outputs=2)
    graph.add("IdentityN", [x, i], {"T": [f32]}, name="short", outputs=2)
    graph.add("Split", [i, x], {"num_split": 3, "T": f32}, name="split", outputs=2)
    assert told(tf1, graph) == [
        "ConcatV2 'three': inputs: expected 4 (values, axis), got 3",
        "ConcatV2 'mixed': input values[1] is i32, but T is f32 by input values[0]",
        "IdentityN 'listed': input input[1] is i32, but T has f32 there",
        "IdentityN 'short': inputs: expected 1 (input), got 2",
        "IdentityN 'short': outputs: expected 1 (output), got 2",
        "Split 'split': outputs: expected 3 (output), got 2",
    ]


@pytest.mark.parametrize("value", [1.5, None, DType("float32"), "f32"])
def test_one_value_for_a_list_of_types(tf1: Dictionary, value: Any) -> None:
    graph = Graph("amanda/tensorflow/1.13.1")
    x = graph.parameter(parse_type("float32[2]"))
    graph.add("IdentityN", [x], {"T": value}, name="one")
    found = told(tf1, graph)
    assert found
    assert all("T is" in line or "expected" in line for line in found), found


def test_core_constants(opset: Dictionary) -> None:
    graph, _ = model()
    graph.constant(Tensor.splat("int8", (1,), 1))
    odd = graph.add("variable", namespace="amanda/core/1", name="odd")
    empty = graph.constant(Tensor.splat("int8", (1,), 1), name="empty")
    del empty.attrs["value"]
    assert odd.type == "variable"
    assert told(opset, graph) == [
        "variable 'odd' is not an op of the core; 'constant' is the only one",
        "constant 'empty': attribute 'value' is missing",
    ]


def test_ops_without_a_type_and_graphs_as_ops(opset: Dictionary) -> None:
    graph, _ = model()
    graph.add(None, name="blank")
    inner = Graph(name="inner")
    inner.add("Nope", name="deep")
    graph.add_graph(inner)
    assert told(opset, graph) == [
        "op 'blank' has no type",
        "Nope 'deep', in graph 'inner', is not in onnx@18",
    ]


def test_hints_are_kept_where_the_framework_has_them(
    opset: Dictionary, tf1: Dictionary
) -> None:
    attrs = {"_output_shapes": [[1]], "_class": ["loc:@x"]}
    graph = Graph("amanda/tensorflow/1.13.1")
    graph.add("NoOp", [], attrs, outputs=0)
    assert told(tf1, graph) == []
    other, _ = model()
    other.add("Constant", [], {**attrs, "value_int": 1}, name="c")
    assert len(told(opset, other)) == 2


VALUES: list[tuple[str, Any, Any]] = [
    ("a: bool", True, 1),
    ("a: int", 3, True),
    ("a: int", -3, 1.0),
    ("a: int >= 1", 1, 0),
    ("a: int in -1..8", 8, 9),
    ("a: int = 1 in 1..8", 1, 0),
    ("a: int[] in 1..8", [1, 8], [1, 2**40]),
    ("a: int[] in 1..8", (), [-(2**62)]),
    ("a: float", 1.5, "1.5"),
    ("a: float", 1, None),
    ("a: string", "x", 3),
    ("a: string", b"x", ["x"]),
    ('a: string in {"A", "B"}', "B", "C"),
    ('a: string in {"A"}', b"A", b"B"),
    ("a: dtype", DType("int8"), 3),
    ("a: dtype", "float32", "float33"),
    ("a: dtype in {f32, f64}", DType("float64"), DType("int8")),
    ("a: dtype in {f32, f64}", "f64", "int8"),
    ("a: shape", Shape([1, 2]), "x"),
    ("a: shape", [1, -1, None, Sym.named("n")], [1.5]),
    ("a: tensor", Tensor.splat("int8", (), 1), 1),
    ("a: type", parse_type("float32[2]"), 3),
    ("a: type", "sequence<float32[2]>", "no type <"),
    ("a: function", FunctionRef("f"), 3),
    ("a: graph", FunctionRef("f"), Tensor.of(1)),
    ("a: int[]", [1, 2], 1),
    ("a: int[]", (), [1, "x"]),
    ("a: int[] >= 2", [1, 2], [1]),
    ("a: float[]", [1.0, 2], ["x"]),
    ("a: dtype[] in {f32}", ["float32"], ["int8"]),
    ("a: string[]", ["a", b"b"], [1]),
]


@pytest.mark.parametrize(("line", "good", "bad"), VALUES)
def test_values_of_attributes(line: str, good: Any, bad: Any) -> None:
    (attr,) = parse_signature(f"F(*, {line}) -> ()").attrs
    assert attribute_fault(attr, good) is None
    assert attribute_fault(attr, bad) is not None
    assert attribute_fault(attr, cast_value(attr, good)) is None
    for value in (good, bad, cast_value(attr, good)):
        assert not fast_check(attr)(value) or attribute_fault(attr, value) is None


def test_dictionaries_of_others() -> None:
    head = DictionaryHeader("acme/dialect", ("1",))
    ops = [OpHistory("Twice", "", (("1", "(x: f32) -> (y: f32)"),))]
    dictionary = DictionaryHistory(
        "acme/dialect", lambda: encode_data_file(head, ops)
    ).at("1")
    graph = Graph("acme/dialect/1")
    graph.add("Twice", [graph.parameter(parse_type("int8[]"))], {"a": 1}, name="t")
    assert told(dictionary, graph) == [
        "Twice 't' has no attribute 'a' (it has no attributes)",
        "Twice 't': input x is i8, not f32",
    ]


def test_ports_of_other_frameworks() -> None:
    """Values that may be none, without names, of types of their own; open ends."""
    torch = acme(
        "conv(tensor, weight: tensor, bias: tensor?, *, stride: int[2] = [1, 1]) -> "
        "(tensor)",
        "index(x: tensor, *indices: tensor? >= 0) -> (tensor)",
        "item(tensor) -> (any<Scalar>)",
        "any(x: any, s: sequence<tensor>) -> (y: i8)",
        "dense(tensor, *, units: int, ...) -> (tensor)",
        "case(*any >= 0, *, branches: graph[](inputs, 1)) -> (tensor)",
    )
    graph = Graph(torch.name)
    x = graph.parameter(parse_type("float32[2]"))
    row = graph.parameter(parse_type("sequence<int8[3]>"))
    graph.add("conv", [x, x])
    graph.add("conv", [x, x, None])
    graph.add("index", [x, None, x, None])
    graph.add("item", [x], outputs=1)
    graph.add("any", [row, row])
    graph.add("dense", [x], {"units": 3, "other": "y"})
    bodies = {f"branches{i}": Graph(torch.name) for i in range(2)}
    for body in bodies.values():
        body.result(body.parameter())
    graph.add("case", [x], bodies=bodies)
    assert [str(problem) for problem in torch.validate(graph)] == []

    wrong = Graph(torch.name)
    x = wrong.parameter(parse_type("float32[2]"))
    row = wrong.parameter(parse_type("sequence<int8[3]>"))
    wrong.add("conv", [x], name="a")
    wrong.add("conv", [row, None, x], {"stride": [1, 2, 3]}, name="b")
    wrong.add("any", [x, x], name="c")
    few = Graph(torch.name)
    few.parameter()
    wrong.add("case", [x], bodies={"branches0": few, "branchs1": Graph()}, name="d")
    assert [str(problem) for problem in torch.validate(wrong)] == [
        "conv 'a': inputs: expected 2 to 3 (weight, bias), got 1",
        "conv 'b': attribute stride is [1, 2, 3], not a list of 2 ints",
        "conv 'b': input weight is missing",
        "conv 'b': input #0 is sequence<i8>, not tensor",
        "any 'c': input s is f32, not sequence<tensor>",
        "case 'd': body 'branches0' has 0 results, expected 1 (1)",
        "case 'd' has no body 'branchs1' (did you mean 'branches'?)",
    ]
