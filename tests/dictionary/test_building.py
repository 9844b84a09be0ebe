"""Ops made by their entries: what they become, what is refused, what stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from dictionary.specimens import acme

import amanda
from amanda.dictionary import Dictionary, DictionaryHistory
from amanda.errors import AmandaError, GraphError, NamespaceError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import DType, TensorType, parse_type


@pytest.fixture
def tf(tensorflow: DictionaryHistory) -> Dictionary:
    return tensorflow.at("1.13.1")


def told(op: Op) -> dict[str, object]:
    return dict(op.attrs)


def test_tensorflow_says_what_follows_from_the_ports(tf: Dictionary) -> None:
    graph = Graph(tf.name)
    x = graph.parameter(parse_type("float64[2, 3]"), "x")
    made = tf.build(graph)
    product = made.MatMul(x, [[1.0], [2], [3]], transpose_a=False, name="product")
    assert isinstance(product, OutputPort)
    assert told(product.op) == {"transpose_a": False, "T": DType("float64")}
    assert product.op.name == "product"
    assert product.op.inputs[1].op.attrs["value"].type == parse_type("float64[3, 1]")
    joined = made.ConcatV2([product, product, product], 0)
    float64, int32 = DType("float64"), DType("int32")
    assert told(joined.op) == {"N": 3, "T": float64, "Tidx": int32}
    both = made.IdentityN([joined, np.zeros(2, np.int8)])
    assert told(both[0].op) == {"T": [float64, DType("int8")]}
    assert [port.type.dtype for port in both] == [float64, DType("int8")]
    made.Sum(joined, [0])
    assert tf.validate(graph) == []
    assert graph.check() == []


def test_onnx(onnx: DictionaryHistory) -> None:
    dictionary = onnx.at("18")
    graph = Graph(dictionary.name)
    graph.imports[""] = 18
    made = dictionary.build(graph)
    x = graph.parameter(parse_type("float32[n, 4]"), "x")
    y = made.Clip(x, max=6)
    assert y.op.inputs[1] is None
    assert y.op.inputs[2].op.attrs["value"].type == parse_type("float32[]")
    parts = made.Split(y, [1, 3], axis=1, outputs=2)
    assert len(parts) == 2
    joined = made.Concat(*parts, axis=1)
    assert [value.op.type for value in joined.op.inputs] == ["Split", "Split"]
    assert not joined.op.has_attrs or told(joined.op) == {"axis": 1}
    condition = graph.parameter(parse_type("bool[]"), "c")
    yes, no = (Graph(dictionary.name, name=name) for name in ("yes", "no"))
    for body in (yes, no):
        body.result(dictionary.build(body).Constant(value_float=1.0))
    chosen = made.If(condition, then_branch=yes, else_branch=no, outputs=1)
    assert set(chosen.op.bodies) == {"then_branch", "else_branch"}
    assert dictionary.validate(graph) == []
    assert graph.check() == []


Call = Callable[[object, OutputPort], object]

REFUSED: dict[str, tuple[Call, str]] = {
    "arity": (lambda b, x: b.MatMul(x), "expected 2 (a, b), got 1"),
    "order": (lambda b, x: b.MatMul(x, x, x), "expected 2 positional arguments, got 3"),
    "name": (
        lambda b, x: b.MatMul(x, x, transpose_aa=True),
        "no argument 'transpose_aa' (did you mean 'transpose_a'",
    ),
    "twice": (lambda b, x: b.MatMul(x, x, a=x), "got multiple values for 'a'"),
    "kind": (
        lambda b, x: b.MatMul(x, x, transpose_a=1),
        "transpose_a is 1, not a bool",
    ),
    "missing": (lambda b, x: b.Softmax(), "expected 1 (logits), got 0"),
    "required": (
        lambda b, x: b.Conv2D(x, x, padding="SAME"),
        "attribute 'strides' is missing",
    ),
    "value": (
        lambda b, x: b.Conv2D(x, x, strides=[1], padding="SOME"),
        'padding is "SOME", but allows "SAME", "VALID"',
    ),
    "type": (lambda b, x: b.BitwiseAnd(x, x), "input x is f32, but T allows"),
    "types": (
        lambda b, x: b.MatMul(x, np.zeros((3, 3), np.int32)),
        "input b is i32, but T is f32",
    ),
    "function": (
        lambda b, x: b.PartitionedCall([x], Tout=[], f="g"),
        "calls 'g', which is not a function",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_told_and_leaves_no_trace(
    tf: Dictionary, case: str
) -> None:
    call, message = REFUSED[case]
    graph = Graph(tf.name)
    x = graph.parameter(parse_type("float32[3, 3]"), "x")
    graph.add("Relu", [x], {"T": DType("float32")}, name="before")
    before = graph.digest(content=True, names=True)
    with pytest.raises(GraphError) as caught:
        call(tf.build(graph), x)
    assert message in str(caught.value)
    assert "expected: " in str(caught.value)
    assert graph.digest(content=True, names=True) == before
    assert graph.check() == []


def test_an_op_that_is_not_there(tf: Dictionary) -> None:
    with pytest.raises(NamespaceError, match="did you mean 'MatMul'"):
        tf.build(Graph(tf.name)).Matmul()
    assert "MatMul" in dir(tf.build(Graph(tf.name)))


def test_faults_come_all_at_once(tf: Dictionary) -> None:
    graph = Graph(tf.name)
    x = graph.parameter(parse_type("float32[3, 3]"), "x")
    with pytest.raises(GraphError) as caught:
        tf.build(graph).Conv2D(x, padding="SOME", strides=1)
    assert len(caught.value.problems) == 3


def test_a_body_that_gives_too_few(onnx: DictionaryHistory) -> None:
    dictionary = onnx.at("18")
    graph = Graph(dictionary.name)
    condition = graph.parameter(parse_type("bool[]"), "c")
    bodies = {key: Graph(dictionary.name) for key in ("then_branch", "else_branch")}
    with pytest.raises(GraphError, match="has 0 results, expected 1"):
        dictionary.build(graph).If(condition, **bodies, outputs=1)
    assert len(graph) == 0
    assert all(body.holder is None for body in bodies.values())


def test_arguments_of_torch() -> None:
    torch = acme(
        "pow.Scalar(attr self: number, exponent: tensor) -> (tensor)",
        "cat(*tensors: tensor >= 0, attr dim: int = 0) -> (tensor)",
        "add.out(self: tensor, other: tensor, *, alpha: number = 1, "
        "port out: tensor(a!)) -> (tensor(a!))",
    )
    graph = Graph(torch.name)
    x = graph.parameter(parse_type("float32[3]"), "x")
    made = torch.build(graph)
    power = made["pow.Scalar"](2, x)
    assert told(power.op) == {"self": 2}
    assert power.op.inputs == (x,)
    assert told(made.cat([x, x], 1).op) == {"dim": 1}
    out = made["add.out"](x, 1.0, out=power, alpha=2)
    assert out.op.inputs[2] is power
    assert torch.validate(graph) == []


def test_attributes_that_are_not_listed() -> None:
    keras = acme("Dense(tensor, *, units: int, ...) -> (tensor)")
    graph = Graph(keras.name)
    made = keras.build(graph).Dense(graph.parameter(), units=3, seed=7)
    assert told(made.op) == {"units": 3, "seed": 7}
    assert keras.validate(graph) == []


def test_numbers_take_the_type_that_the_port_has() -> None:
    x = acme("f(a: i8, b: T, c: T, d?: U) -> (T)  T in {f16, f32}, U in {f64, i32}")
    graph = Graph(x.name)
    half = graph.parameter(TensorType("float16", [2]))
    y = x.build(graph).f(3, 1, half, 5)
    types = [str(value.type) for value in y.op.inputs]
    assert types == ["int8[]", "float16[]", "float16[2]", "int32[]"]
    with pytest.raises(AmandaError):
        x.build(graph).f(3, "text", half)


# -- entries as constants of patterns, and the way back from an op -----------------


def test_entries_by_their_names(onnx: DictionaryHistory) -> None:
    dictionary = onnx.at("18")
    assert dictionary.Relu is dictionary["Relu"]
    with pytest.raises(AttributeError, match="neither an op nor a method 'relu'"):
        _ = dictionary.relu
    assert "Relu" in dir(dictionary)


def test_entries_select_and_ops_lead_back() -> None:
    try:
        onnx = amanda.namespace("onnx@18")
    except NamespaceError:
        pytest.skip("needs amanda-namespaces, installed")
    graph = Graph("amanda/onnx/18")
    x = graph.parameter()
    relu, other = graph.add("Relu", [x]), graph.add("Twice", [x])
    body = Graph(name="body")
    inner = body.add("Relu", [body.parameter()])
    graph.add("If", [x], bodies={"then_branch": body})
    assert graph.ops.select(onnx.Relu) == [relu]
    assert graph.ops.select([onnx.Relu, "Twice"], deep=True) == [relu, other, inner]
    assert relu.definition is onnx.Relu
    assert inner.definition is onnx.Relu
    assert other.definition is None
    assert graph.constant(amanda.Tensor.of([1.0])).definition is None
    assert Graph().add("Relu").definition is None
    match relu.definition:
        case onnx.Relu:
            matched = True
        case _:
            matched = False
    assert matched
