"""An entry is a line of text: what it says, that it is read back, what is refused."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from amanda.dictionary import (
    DictionaryFolder,
    DictionaryHistory,
    OpDef,
    attribute_fault,
    decode_op_def,
    encode_op_def,
    parse_signature,
    round_to_float32,
)
from amanda.dictionary.attributes import fast_check
from amanda.errors import FormatError
from amanda.files.binary.messages import message_classes
from amanda.types import DType, SequenceType, Sym, TensorType

pytestmark = pytest.mark.install_independent

LINES = [
    "Nothing() -> ()",
    "MatMul(a: T, b: T, *, transpose_a: bool = false) -> (product: T)  T in {f16, f32}",
    "Clip(x: T, low?: T, high?: T) -> (y: T)  T in {i8, f8e4m3fn, qint8, string}",
    "Sum(*xs: T) -> (y: T)  T in {f32}",
    "Mix(*xs: any T >= 0) -> (*ys: any T >= 2)  T in {f32, sequence<f32>}",
    "Concat(values: N * T, axis: I) -> (y: T)  N: int >= 2, T: type, I = i32 in {i32}",
    "Call(args: *Tin, *, Tout: dtype[] >= 0, f: function) -> (out: *Tout)  "
    "Tin: type[] >= 0",
    "Assign(ref: ref<T>, value: T) -> (out: ref<T>)  T: type  [uninitialized_input]",
    "Loop(n?: i64, *v: any V >= 0, *, body: graph(inputs, outputs + 1)) -> "
    "(*o: any V >= 0)  V in {optional<sequence<f32>>, map<i64, f32>}",
    'Pool(x: f32, *, pad: string = "SAME" in {"SAME", "VALID"}, k: int[] >= 4) -> '
    "(y: f32)",
    "Fill(*, a?: float, b: float = 1e-05, c: float = -inf, d: shape = [...], "
    "e: shape = [1, ?], f: dtype = f64 in {f32, f64}, g: string[] = [], "
    "h: tensor = u8[2] x ff00, i: float[] = [0.5, 2.0]) -> (y: f)",
    'Old(x: f32) -> (y: f32)  [commutative, stateful]  deprecated 9 "use \\"New\\""',
    'Free(*, a?: any, b: any = {"k": [1, 2]}, c: any = "x") -> ()',
    "Odd>Name(resource: resource, string: string) -> (variant: variant)",
    "aten.add.out(self: tensor, other: tensor, *, alpha: number = 1, "
    "port out: tensor(a!)) -> (tensor(a!))  #pointwise",
    "aten.sum.IntList(self: tensor, attr dim: int[1]?, attr keepdim: bool = false, *, "
    "dtype?: dtype) -> (tensor)  #core #reduction",
    "aten.pow.Scalar(attr self: number, exponent: tensor) -> (tensor)",
    "aten.index.Tensor(self: tensor, *indices: tensor? >= 0, weight: tensor?) -> "
    "(y: tensor(a -> *), any<Dict(str, t)>, *tensor >= 0)",
    "ADD(lhs: tensor, rhs: tensor, *, act: enum<ActivationFunctionType> = NONE in "
    "{NONE = 0, RELU = 1}, wide: bool = true) -> (tensor)  #code=0 #options=AddOptions",
    "compare(a: tensor, b: tensor, *, way: enum<Way> in {EQ, NE}, p: enum<P>[] = [X] "
    "in {X, Y = -4}) -> (tensor)",
    "Conv2D(x: tensor[N, H, W, C], w: f32[O, ...], *, size: dim[2] = [1, 1], "
    "pads: int[][] = [[0, 0], [1, 1]], ...) -> (y: tensor[N, H, W, C])",
    "kinds(*, a: number?[] = [none, 1, 1.0, true, 1+2j], b: double = "
    '0.3333333333333333, c: complex = -0+2j, d: any<Device>?, e: any = {"ü": [1]}, '
    "f: bool? = true, g: dim = -1, h: double = inf, i: number = 1e-05) -> ()",
    "Blocks(x: f32, *, size: int in 1..32768, low: int = -1 in -1..8, "
    "pads?: int[] in -2147483647..2147483647) -> (y: f32)",
    "while(*operand: any >= 0, *, cond: graph(inputs, 1), branches: "
    "graph[](inputs, outputs)) -> (*any >= 0)",
    'Old(sequence<tensor>) -> (any)  #a  deprecated 9 "why" use New',
    "open(*, ...) -> ()",
]


@pytest.mark.parametrize("line", LINES)
def test_what_is_read_is_written(line: str) -> None:
    assert parse_signature(line).signature == line


@pytest.mark.parametrize("line", LINES)
def test_what_is_encoded_is_decoded(line: str) -> None:
    entry = parse_signature(line)
    again = decode_op_def(encode_op_def(entry))
    assert again == entry
    assert [port.keyword for port in again.inputs] == [
        port.keyword for port in entry.inputs
    ]
    theirs = message_classes()["Definition"].FromString(encode_op_def(entry))
    assert theirs.name == entry.name
    assert len(theirs.attrs) == len(entry.attrs)
    assert theirs.SerializeToString(deterministic=True) == encode_op_def(entry)


def test_every_definition_that_we_have_is_read_back(shelf: DictionaryFolder) -> None:
    """Through its text and through its message, of every version."""
    count = 0
    for history in map(shelf.__getitem__, shelf):
        for name in history.names:
            record = history.record(name)
            assert record is not None
            for i, (_, text) in enumerate(record.block.steps):
                if text != "gone":
                    count += 1
                    entry = record.definition(i)
                    assert entry.signature == name + text
                    again = decode_op_def(encode_op_def(entry))
                    assert again.signature == name + text
                    assert again.docs == entry.docs
                    assert again.since == entry.since
                    assert again.until == entry.until
                    assert again.doc == entry.doc
    assert count > 10_000


def test_parts() -> None:
    entry = parse_signature(LINES[8])
    assert [port.form for port in entry.inputs] == ["optional", "each"]
    (body,) = entry.bodies
    assert body.body == ("inputs", "outputs + 1")
    values = entry.variables[0].allowed
    assert values[0].parts == (SequenceType(TensorType("float32")),)
    fill = parse_signature(LINES[10])
    assert fill.attr("b").default == round_to_float32(1e-05) != 1e-05
    assert fill.attr("a").default is None
    assert not fill.attr("a").required
    assert fill.attr("h").default.numpy().tolist() == [255, 0]
    assert fill.outputs[0].type == "f"
    assert parse_signature(LINES[13]).inputs[0].type is DType("resource")


def test_arguments_and_where_they_stand() -> None:
    entry = parse_signature(
        "f(attr a: int, x: tensor, attr b: bool, *, c?: int, port out: tensor(a!)) "
        "-> ()"
    )
    assert [part.name for part in entry.arguments()] == ["a", "x", "b"]
    assert [attr.position for attr in entry.attrs] == [0, 2, None]
    assert [port.keyword for port in entry.inputs] == [False, True]
    assert [port.is_written for port in entry.inputs] == [False, True]
    assert entry.effects
    assert not parse_signature("f(x: tensor(a)) -> (tensor(a))").effects


def test_tags_and_members() -> None:
    entry = parse_signature(
        "RELU(tensor, *, k: enum<K> = B in {A = 0, B = 7}) -> (tensor)  #code=19 #core"
    )
    assert entry.tag("code") == "19"
    assert (entry.tag("core"), entry.tag("other")) == ("", None)
    (attr,) = entry.attrs
    assert attr.default == "B"
    assert [(str(m), m.number) for m in attr.allowed] == [("A", 0), ("B", 7)]
    assert pickle.loads(pickle.dumps(attr.allowed[1])).number == 7


@pytest.mark.parametrize(
    ("kind", "fine", "faulty"),
    [
        ("enum<K> in {A = 0, B = 7}", ["A", 7], ["C", 1, 1.0, None]),
        ("enum<K>[] in {A = 0, B = 7}", [[], ["A", 7]], ["A", ["A", "C"]]),
        ("number", [1, 1.5, True, 1j], ["1", None, [1]]),
        ("complex", [1, 1.5, 1j], ["1", True]),
        ("double", [0.1, 3], ["0.1", True, 1j]),
        ("dim", [3, Sym.unknown()], [1.0, "n"]),
        ("int?", [3, None], ["3", 3.0]),
        ("number?[]", [[None, 1], []], [None, ["x"]]),
        ("int[2]", [[1, 2], (1, 2), 1], [[1], [1, 2, 3], ["a", "b"], "ab"]),
        ("int[][]", [[[1], []], []], [[1], 1, [["a"]]]),
        ("any<Device>", ["cpu", 0, [1]], [None]),
        ("any?", [None, 3], []),
    ],
)
def test_values_of_a_kind(kind: str, fine: list[object], faulty: list[object]) -> None:
    (attr,) = parse_signature(f"f(*, a: {kind}) -> ()").attrs
    quick = fast_check(attr)
    for value in fine:
        assert attribute_fault(attr, value) is None, value
    for value in faulty:
        told = attribute_fault(attr, value)
        assert told is not None, value
        assert told.startswith("a is "), told
        assert not quick(value)


@pytest.mark.parametrize("change", [{"form": "some"}, {"kind": "num"}, {"list": 3}])
def test_messages_that_say_nothing_known(change: dict[str, object]) -> None:
    told = encode_op_def(parse_signature("f(x: f32, *, a: int = 3) -> ()"))
    message = message_classes()["Definition"].FromString(told)
    ((name, value),) = change.items()
    held = {
        "form": message.inputs[0],
        "kind": message.attrs[0],
        "list": message.attrs[0].default[0],
    }
    setattr(held[name], name, value)
    with pytest.raises(FormatError):
        decode_op_def(message.SerializeToString())


def test_entries_are_values(onnx: DictionaryHistory) -> None:
    line = LINES[1]
    one, other = parse_signature(line), parse_signature(line)
    assert one == other
    assert hash(one) == hash(other)
    assert one != parse_signature(LINES[2])
    assert one != line
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "Other"  # type: ignore[misc]
    assert onnx.at("18")["Relu"] is onnx.at("17")["Relu"]


def test_traits() -> None:
    entry = parse_signature("Next(x: T) -> (y: T)  T: type  [feedback, stateful]")
    assert (entry.effects, entry.feedback) == (True, True)
    assert not OpDef("Relu").effects


REFUSED = {
    "Relu": "  who:      Relu\n  where:    character 4\n  expected: '('\n"
    "  got:      the end",
    "Relu(x: T) -> (y: T)": "  who:      Relu\n  where:    character 20\n"
    "  expected: a type for port 'x'; 'T' is unknown\n  got:      the end",
    "Relu(x: f32, *, a: num) -> ()": "  who:      Relu\n  where:    character 19\n"
    "  expected: a kind: bool, int, float, double, complex, number, dim, string, "
    "dtype, shape, tensor, sparse, type, graph, function, enum, any\n"
    "  got:      'num) -> ()'",
    "F(x: map<sequence<f32>, f32>) -> ()": "  who:      F\n"
    "  where:    character 28\n"
    "  expected: an element type as the key of a map\n  got:      ') -> ()'",
    "F() -> () extra ~": "  who:      F\n  where:    character 16\n"
    "  expected: ','\n  got:      '~'",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_read(line: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_signature(line)
    assert str(caught.value) == f"a signature cannot be parsed\n{REFUSED[line]}"
