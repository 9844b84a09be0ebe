"""An entry is a line of text: what it says, that it is read back, what is refused."""

from __future__ import annotations

import dataclasses

import pytest

from amanda.dictionary import History, OpDef, Shelf, parse_signature
from amanda.dictionary.literals import float32_of
from amanda.errors import FormatError
from amanda.types import DType, SequenceType, TensorType

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
]


@pytest.mark.parametrize("line", LINES)
def test_what_is_read_is_written(line: str) -> None:
    assert parse_signature(line).signature == line


def test_every_definition_that_we_have_is_read_back(shelf: Shelf) -> None:
    count = 0
    for history in map(shelf.__getitem__, shelf):
        for name in history.names:
            record = history.record(name)
            assert record is not None
            for i, (_, text) in enumerate(record.block.steps):
                if text != "gone":
                    count += 1
                    assert record.entry(i).signature == name + text
    assert count > 4000


def test_parts() -> None:
    entry = parse_signature(LINES[8])
    assert [port.form for port in entry.inputs] == ["optional", "each"]
    (body,) = entry.bodies
    assert body.body == ("inputs", "outputs + 1")
    values = entry.variables[0].allowed
    assert values[0].parts == (SequenceType(TensorType("float32")),)
    fill = parse_signature(LINES[10])
    assert fill.attr("b").default == float32_of(1e-05) != 1e-05
    assert fill.attr("a").default is None
    assert not fill.attr("a").required
    assert fill.attr("h").default.numpy().tolist() == [255, 0]
    assert fill.outputs[0].type == "f"
    assert parse_signature(LINES[13]).inputs[0].type is DType("resource")


def test_entries_are_values(onnx: History) -> None:
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
    "  expected: what 'T' is, which port 'x' has\n  got:      the end",
    "Relu(x: f32, *, a: num) -> ()": "  who:      Relu\n  where:    character 19\n"
    "  expected: a kind: bool, int, float, string, dtype, shape, tensor, sparse, type, "
    "graph, function, any\n  got:      'num) -> ()'",
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
    assert str(caught.value) == f"a signature cannot be read\n{REFUSED[line]}"
