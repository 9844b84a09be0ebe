"""Each of the 28 types of rules: what it becomes, what it does, and whether it leads
back; and files that are no rule sets."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import amanda
from amanda.errors import AmandaError, FormatError, NamespaceError
from amanda.graph import Graph
from amanda.mapping import Decline, RuleSet, constant_of
from amanda.mapping.lenses.lens import Lens, equivalent_values
from amanda.tensors import Tensor
from amanda.testing import MappingSample, MappingSuite
from amanda.types import DType, parse_type
from amanda_nd4j import lenses
from amanda_nd4j.mapping import TENSORFLOW, Nd4jMapping
from amanda_nd4j.meanings import MEANINGS, meaning_table
from amanda_nd4j.namespace import ND4J, VARIABLE, from_file
from amanda_nd4j.rulesets import RULES, read_declarations

_KINDS = {
    "i": "INT64",
    "d": "DOUBLE",
    "b": "BOOL",
    "t": "DATA_TYPE",
    "x": "INPUT_TENSOR",
}


def ops_text(*rows: str) -> str:
    """Descriptors: `op: x0=input i0=size`, kinds by letter."""
    found = []
    for row in rows:
        name, _, rest = row.partition(": ")
        arguments = [
            f'argDescriptor {{ name: "{each.partition("=")[2]}" '
            f"argType: {_KINDS[each[0]]} argIndex: {each[1]} }}"
            for each in rest.split()
        ]
        found.append(f'opList {{ name: "{name}" {" ".join(arguments)} }}')
    return "\n".join(found)


def rule(name: str, pairs: str = "", *given: str, key: str = "") -> str:
    """A rule: `k=v` pairs, and what it is given, as text."""
    told = [pair.split("=") for pair in pairs.split()]
    maps = [f'inputToOutput {{ key: "{k}" value: "{v}" }}' for k, v in told]
    args = " ".join(f"transformerArgs {{ {each} }}" for each in given)
    if given:
        maps.append(f'transformerArgs {{ key: "{key or told[0][0]}" {args} }}')
    return f'rule {{ ruleName: "{name}" {" ".join(maps)} }}'


def declared(framework: str, source: str, target: str, *rules: str) -> str:
    return (
        f'mappings {{ frameworkName: "{framework}" opName: "{target}" '
        f'inputFrameworkOpName: "{source}" {" ".join(rules)} }}'
    )


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a mapping of texts."""

    def make(framework: str, ops: str, rules: str) -> Nd4jMapping:
        (tmp_path / "ops.pbtxt").write_text(ops)
        (tmp_path / "rules.pbtxt").write_text(rules)
        monkeypatch.setenv(VARIABLE, str(tmp_path / "ops.pbtxt"))
        monkeypatch.setenv(RULES, str(tmp_path / "rules.pbtxt"))
        history = from_file(tmp_path / "ops.pbtxt")
        monkeypatch.setitem(ND4J.__dict__, "history", history)
        return Nd4jMapping(framework)

    return make


def word(text: str) -> str:
    return f'stringValue: "{text}"'


def where(true: int, false: int, of: str) -> tuple[str, ...]:
    return (
        'name: "targetValue" stringValue: "NCHW"',
        f'name: "trueIndex" int64Value: {true}',
        f'name: "falseIndex" int64Value: {false}',
        f'name: "attributeNameOfListAttribute" stringValue: "{of}"',
    )


class Case(NamedTuple):
    """A type of rules in use: an op, the rule, and what nd4j must be told by its
    meaning; `constants` are the inputs that must be made of attributes."""

    framework: str
    op: str
    inputs: str  # f: of float32, or the content of a constant
    attrs: dict[str, Any]
    takes: str
    rules: list[str]
    told: dict[str, Any]
    back: bool = True
    constants: tuple[Any, ...] = ()


ALL = rule("passthrough")
IN = rule("ndarraymapping", "a=input b=filter")
LIST = {"squeeze_dims": [2, 3, 4]}
CASES = {
    "ndarraymapping": Case("tensorflow", "Sub", "f f", {}, "x0=a x1=b",
        [rule("ndarraymapping", "b=x a=y")], {}),
    "multiinputindex": Case("tensorflow", "AddN", "f f f", {"N": 3}, "x0=all",
        [rule("multiinputindex", "all=inputs")], {}),
    "passthrough": Case("tensorflow", "Sub", "f f", {}, "x0=a x1=b", [ALL], {}),
    "argdescriptorconstant": Case("tensorflow", "Neg", "f", {}, "x0=a b0=p d0=r",
        [ALL, rule("argdescriptorconstant", "", 'name: "p" argType: BOOL',
                   'name: "r" argType: DOUBLE doubleValue: 1.5', key="value")],
        {"p": False, "r": 1.5}),
    "valuemapping": Case("tensorflow", "LeakyRelu", "f", {"alpha": 0.5}, "x0=a d0=rate",
        [ALL, rule("valuemapping", "rate=alpha")], {"rate": 0.5}),
    "invertbooleannumber": Case("tensorflow", "Cumsum", "f f", {"reverse": True},
        "x0=a x1=b i0=e i1=r",
        [ALL, rule("invertbooleannumber", "r=reverse e=exclusive")],
        {"r": 1, "e": 0}),
    "stringequals": Case("tensorflow", "BiasAdd", "f f", {"data_format": "NCHW"},
        "x0=a x1=b b0=nchw",
        [ALL, rule("stringequals", "nchw=data_format", word("NCHW"))], {"nchw": True}),
    "stringnotequalsadapterrule": Case("tensorflow", "BiasAdd", "f f", {},
        "x0=a x1=b i0=c",
        [ALL, rule("stringnotequalsadapterrule", "c=data_format", word("NCHW"))],
        {"c": 1}),
    "stringcontains": Case("onnx", "Conv", "f f", {"auto_pad": "SAME_UPPER"},
        "x0=a x1=b i0=same",
        [ALL, rule("stringcontains", "same=auto_pad", word("SAME"))],
        {"same": 0}, back=False),
    "stringtoindex": Case("tensorflow", "MirrorPad", "f f", {"mode": "SYMMETRIC"},
        "x0=a x1=b i0=mode",
        [ALL, rule("stringtoindex", "mode=mode", word("REFLECT"), word("SYMMETRIC"))],
        {"mode": 1}),
    "mapstringtoindex": Case("onnx", "RNN", "f f f", {"activations": ["Elu"]},
        "x0=X x1=W x2=R i0=act",
        [ALL, rule("mapstringtoindex", "act=activations", 'name: "Relu" int64Value: 1',
                   'name: "Elu" int64Value: 8').replace("transformerArgs { key",
                   'transformerArgs { key: "index" transformerArgs { name: "index" } } '
                   "transformerArgs { key", 1)],
        {"act": 8}),
    "conditionalfieldvalueintindex": Case("tensorflow", "Conv2D", "f f",
        {"strides": [1, 1, 5, 6], "padding": "VALID", "data_format": "NCHW"},
        "x0=a x1=b i0=h i1=w i2=same i3=c",
        [IN, rule("stringequals", "same=padding", 'argIndex: 2 ' + word("SAME")),
         rule("stringequals", "c=data_format", "argIndex: 3 " + word("NCHW")),
         rule("conditionalfieldvalueintindex", "h=data_format",
              *where(2, 1, "strides")),
         rule("conditionalfieldvalueintindex", "w=data_format",
              *(f"{each} argIndex: 1" for each in where(3, 2, "strides")))],
        {"h": 5, "w": 6, "same": 0, "c": 1}),
    "conditionalfieldvalueintindexndarray": Case("tensorflow", "MaxPoolV2",
        "f 1,2,3,1 1,5,6,1", {"padding": "SAME"},
        "x0=a i0=h i1=w i2=same i3=kh i4=kw i5=c",
        [rule("ndarraymapping", "a=input"),
         rule("stringequals", "c=data_format", "argIndex: 5 " + word("NCHW")),
         rule("stringequals", "same=padding", 'argIndex: 2 ' + word("SAME")),
         *(rule("conditionalfieldvalueintindexndarray", f"{name}=data_format",
                *(f"{each} argIndex: {at}" for each in where(two, two - 1, of)))
           for name, at, two, of in [("h", 0, 2, "strides"), ("w", 1, 3, "strides"),
                                     ("kh", 3, 2, "ksize"), ("kw", 4, 3, "ksize")])],
        {"h": 5, "w": 6, "kh": 2, "kw": 3, "same": 1, "c": 0}),
    "listattributevaluelookuptoindex": Case("onnx", "Conv", "f f",
        {"strides": [2, 3]}, "x0=a x1=b i0=h i1=w i2=d",
        [ALL,
         *(rule("listattributevaluelookuptoindex", f"{name}={of}",
                f'name: "index" int64Value: {index} argType: INT64 argIndex: {at}',
                f'name: "{of}" int64Value: 1 argType: INT64')
           for name, of, index, at in [("h", "strides", 0, 0), ("w", "strides", 1, 1),
                                       ("d", "dilations", 0, 2)])],
        {"h": 2, "w": 3, "d": 1}),
    "listnumbertolistnumber": Case("tensorflow", "Squeeze", "f", LIST, "x0=a i0=dims",
        [ALL, rule("listnumbertolistnumber", "dims=squeeze_dims")],
        {"dims": [2, 3, 4]}),
    "listnumbertondarray": Case("onnx", "Transpose", "f", {"perm": [1, 0]}, "x0=a x1=b",
        [rule("ndarraymapping", "a=data"), rule("listnumbertondarray", "b=perm")],
        {}, constants=([1, 0],)),
    "convertinputnumberlisttondarray": Case("onnx", "Transpose", "f", {"perm": [1, 0]},
        "x0=a x1=b",
        [rule("ndarraymapping", "a=data"),
         rule("convertinputnumberlisttondarray", "b=perm")], {}, constants=([1, 0],)),
    "attributescalarndarrayattribute": Case("onnx", "LeakyRelu", "f", {"alpha": 0.5},
        "x0=a x1=b",
        [rule("ndarraymapping", "a=X"),
         rule("attributescalarndarrayattribute", "b=alpha")], {}, constants=([[0.5]],)),
    "convertinputstringtondarray": Case("tensorflow", "CheckNumerics", "f",
        {"message": "why"}, "x0=a x1=b",
        [rule("ndarraymapping", "a=tensor"),
         rule("convertinputstringtondarray", "b=message")], {}, constants=(b"why",)),
    "ndarrayinputtondarray": Case("tensorflow", "Const", "",
        {"value": Tensor.of([1.5], "float32"), "dtype": DType("float32")}, "x0=a t0=t",
        [rule("ndarrayinputtondarray", "a=value"), rule("valuemapping", "t=dtype")],
        {"t": DType("float32")}, back=False, constants=([1.5],)),
    "ndarrayinputtonumericalattribute": Case("tensorflow", "TopKV2", "f 3", {},
        "x0=a i0=k",
        [rule("ndarraymapping", "a=input"),
         rule("ndarrayinputtonumericalattribute", "k=k")], {"k": 3}),
    "ndarraytointattributevalue": Case("tensorflow", "ReverseV2", "f 0,2", {},
        "x0=a i0=dims",
        [rule("ndarraymapping", "a=tensor"),
         rule("ndarraytointattributevalue", "dims=axis")], {"dims": [0, 2]}),
    "attributendarraytoscalarattribute": Case("onnx", "ConstantOfShape", "f",
        {"value": Tensor.of([1.5], "float32")}, "x0=a d0=v",
        [ALL, rule("attributendarraytoscalarattribute", "v=value")], {"v": 1.5}),
    "ndarrayextractscalarvalue": Case("onnx", "ConstantOfShape", "f",
        {"value": Tensor.of([2.5], "float32")}, "x0=a d0=v",
        [ALL, rule("ndarrayextractscalarvalue", "v=value")], {"v": 2.5}),
    "ndarraysizeat": Case("tensorflow", "MatMul", "f 7,8,9", {}, "x0=a x1=b i0=n",
        [rule("ndarraymapping", "a=a b=b"),
         rule("ndarraysizeat", "n=b", 'name: "b" int64Value: 0')], {"n": 3}),
    "datatypetoint": Case("tensorflow", "Cast", "f", {"DstT": DType("int64")},
        "x0=a i0=to", [ALL, rule("datatypetoint", "to=DstT")], {"to": 10}),
    "flattendims": Case("tensorflow", "Squeeze", "f", LIST, "x0=a i0=d",
        [ALL, rule("flattendims", "d=squeeze_dims", "int64Value: 1")],
        {"d": [2, 12]}, back=False),
    "sizethresholdarrayint": Case("tensorflow", "Squeeze", "f", LIST, "x0=a i0=d",
        [ALL, rule("sizethresholdarrayint", "d=squeeze_dims",
                   'name: "index" int64Value: 2', 'name: "sizeThreshold" int64Value: 3',
                   'name: "fallbackIndex" int64Value: 0')], {"d": 4}, back=False),
}  # fmt: skip


def test_there_is_a_case_for_each_type() -> None:
    assert set(CASES) == set(MEANINGS)
    assert len(MEANINGS) == 28


@pytest.mark.parametrize("type", sorted(CASES))
def test_what_a_type_of_rules_does(type: str, published: Any) -> None:
    case = CASES[type]
    made = published(
        case.framework,
        ops_text(f"target: {case.takes}"),
        declared(case.framework, case.op, "target", *case.rules),
    )
    graph = graph_of(case)
    done = made.conversion(graph, "amanda/nd4j/1")
    assert [str(gap) for gap in done.report.gaps] == []
    [op] = [each for each in done.graph if each.type == "target"]
    for key, value in case.told.items():
        assert equivalent_values(op.attrs[key], value), key
    assert set(op.attrs) == set(case.told)
    made_of = [c for v in op.inputs if v and (c := constant_of(v)) is not None]
    if case.constants:
        assert [each.tolist() for each in made_of] == list(case.constants)
    comes_back(made, graph, done.graph, expected=case.back)


def comes_back(
    made: Nd4jMapping, graph: Graph, there: Graph, *, expected: bool
) -> None:
    assert graph.namespace is not None
    back = made.conversion(there, graph.namespace)
    if not expected:
        assert len(back.report.gaps) == 1
        return
    assert [str(gap) for gap in back.report.gaps] == []
    [old] = [op for op in graph if op.name == "it"]
    [new] = [op for op in back.graph if op.name == "it"]
    assert new.type == old.type
    defaults = {a.name: a.default for a in amanda.namespace(graph.namespace)[
        old.type or ""].attrs}  # fmt: skip
    for key in {*old.attrs, *new.attrs} - {"N", "activations", "T"}:
        pair = [op.attrs.get(key, defaults.get(key)) for op in (old, new)]
        assert equivalent_values(*pair), key
    assert [content(v) for v in new.inputs] == [content(v) for v in old.inputs]


def content(value: Any) -> Any:
    tensor = constant_of(value)
    return value.index if tensor is None else (str(tensor.dtype), tensor.tolist())


def graph_of(case: Case) -> Graph:
    graph = Graph("amanda/tensorflow/2.21.0" if case.framework[0] == "t" else
                  "amanda/onnx/17")  # fmt: skip
    values = []
    for each in case.inputs.split():
        if each == "f":
            values.append(graph.parameter(parse_type("float32[...]")))
            continue
        items = [int(item) for item in each.split(",")]
        tensor = Tensor.of(items if "," in each else items[0], "int32")
        values.append(graph.constant(tensor).output)
    op = graph.add(case.op, values, case.attrs, name="it")
    graph.result(op.output)
    return graph


def test_the_table_in_the_readme() -> None:
    text = Path(__file__).parents[1].joinpath("README.md").read_text("utf-8")
    assert meaning_table() in text


# -- lenses ----------------------------------------------------------------------------


def own_lenses() -> dict[str, Lens]:
    rules = RuleSet("toys", "acme/a", "acme/b")
    known = set(rules.lenses)
    lenses.add_lenses(rules)
    return {name: lens for name, lens in rules.lenses.items() if name not in known}


@pytest.mark.parametrize("name", sorted(own_lenses()))
def test_lenses_keep_the_laws(name: str) -> None:
    lens = own_lenses()[name]
    chance = random.Random(name)
    for _ in range(50):
        value, *context = lens.draw(chance)
        there = lens.forth(value, context)
        if lens.partial == "undo: anything":
            with pytest.raises(Decline, match="nothing tells what"):
                lens.back(there, context)
            continue
        back = lens.back(there, context)
        assert equivalent_values(lens.forth(back, context), there)
        if lens.exact:
            assert equivalent_values(back, value)


@pytest.mark.parametrize(
    ("name", "value", "context", "there"),
    [
        ("type_code", DType("bfloat16"), [], 17),
        ("first", [[3, 4], [5]], [], 3),
        ("positive", 7, [], True),
        ("dim", -1, [[4, 5], 1], 5),
        ("within", "AM", ["SAME"], True),
        ("stated", [1, 1], [[1, 1]], None),
        ("item_or", [7], [1, 2, 0], 7),
        ("flat_dims", [2, 3, 4], [2], [6, 4]),
    ],
)
def test_what_lenses_do(name: str, value: Any, context: list[Any], there: Any) -> None:
    assert equivalent_values(own_lenses()[name].forth(value, context), there)


@pytest.mark.parametrize(
    ("name", "value", "context", "back"),
    [
        ("stated", None, [[1, 1]], [1, 1]),
        ("dim", 5, [[4, 5], 1], -1),
        ("number", [[9]], ["int32"], 9),
        ("text_tensor", "a", [], "a"),
    ],
)
def test_what_lenses_undo(name: str, value: Any, context: list[Any], back: Any) -> None:
    assert equivalent_values(own_lenses()[name].back(value, context), back)


@pytest.mark.parametrize(
    ("name", "value", "context"),
    [("first", [], []), ("dim", 6, [[4, 5], 1]), ("within", False, ["SAME"]),
     ("one_element", Tensor.of([1.0, 2.0], "float32"), ["float32"])],
)  # fmt: skip
def test_what_lenses_do_not_undo(name: str, value: Any, context: list[Any]) -> None:
    lens = own_lenses()[name]
    with pytest.raises(Decline):
        (lens.forth if name == "first" else lens.back)(value, context)


# -- rows ------------------------------------------------------------------------------


def test_rows_of_a_declaration(published: Any) -> None:
    made = published(
        "tensorflow",
        ops_text("target: x0=a x1=b i0=axis"),
        declared("tensorflow", "GatherV2", "target",
                 rule("ndarraymapping", "a=params b=indices"),
                 rule("ndarraytointattributevalue", "axis=axis")),
    )  # fmt: skip
    assert made.translation.rows["GatherV2"] == (
        "GatherV2(params, indices, axis)  =>  target(params, indices, axis=axis)"
        '  if dtype(axis) == "int32"',
        'GatherV2(params, indices, numbers(axis, "int32"))'
        "  <=  target(params, indices, axis=axis)",
        "GatherV2(params, indices, axis, batch_dims=_)"
        "  =>  target(params, indices, axis=axis)"
        '  losing "batch_dims, the element type of axis"',
    )
    assert made.rules.rows[0].id == "rules.pbtxt, GatherV2:1"


def test_one_that_loses_nothing_comes_back(published: Any) -> None:
    """AddV2 is declared behind Equal, which has an attribute that nd4j is not told."""
    same_op = rule("ndarraymapping", "a=x b=y")
    made = published(
        "tensorflow",
        ops_text("target: x0=a x1=b"),
        declared("tensorflow", "Equal", "target", same_op)
        + declared("tensorflow", "AddV2", "target", same_op),
    )
    assert [row.left.type for row in made.rules.of_type("target", forward=False)] == [
        "AddV2", "Equal",
    ]  # fmt: skip


def test_what_is_left_says_why(published: Any) -> None:
    made = published(
        "tensorflow",
        ops_text("target: x0=a"),
        declared("tensorflow", "Sub", "target")
        + declared("tensorflow", "NoSuchOp", "target", ALL)
        + declared("tensorflow", "Neg", "nothing", ALL),
    )
    assert made.translation.left == {
        "Sub": "it has no rules: its import is code",
        "NoSuchOp": "no version of tensorflow has it",
        "Neg": "nd4j has no op nothing",
    }
    assert made.rules.rows == []


def test_a_constant_behind_an_identity(published: Any) -> None:
    case = CASES["ndarraytointattributevalue"]
    made = published(
        "tensorflow",
        ops_text("target: x0=a i0=dims", "same: x0=a"),
        declared("tensorflow", case.op, "target", *case.rules)
        + declared("tensorflow", "Identity", "same", ALL),
    )
    graph = graph_of(case)
    op = graph.ops["it"]
    through = graph.add("Identity", [op.inputs[1]], name="through")
    op.input_ports[1].connect(through.output)
    done = made.conversion(graph, "amanda/nd4j/1")
    assert done.report.gaps == ()
    assert done.graph.ops["it"].attrs == {"dims": [0, 2]}
    assert [*done.report.losses] == [
        "ReverseV2, op 'it': that a constant was behind Identity"
    ]
    assert op.inputs[1] is through.output


# -- files and settings ----------------------------------------------------------------


def test_no_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RULES, raising=False)
    with pytest.raises(NamespaceError) as caught:
        assert Nd4jMapping("onnx").rules
    assert str(caught.value) == (
        "the rules of nd4j are read from files of yours, and none is named\n"
        f"  to do:    set {RULES} to the onnx-mapping-ruleset.pbtxt of Deeplearning4j"
    )


def test_a_file_about_another_framework(published: Any) -> None:
    made = published(
        "onnx", ops_text("a: x0=a"), declared("tensorflow", "Neg", "a", ALL)
    )
    with pytest.raises(NamespaceError, match=f"no file that {RULES} names is for onnx"):
        assert made.rules


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no rule sets"),
        ("mappings { opName: 3 }", "not as it should be"),
        ("mappings: 3", "not as it should be"),
        (declared("onnx", "A", "a") * 2, "declared twice"),
        (declared("onnx", "A", "a", "rule { ruleName: 3 }"), "not as it should be"),
        (declared("onnx", "A", "a", "rule: 3"), "not as it should be"),
        ("mappings {", "no protocol buffer as text"),
    ],
)
def test_no_such_rule_sets(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "rules.pbtxt"
    file.write_text(text)
    with pytest.raises(FormatError, match=why) as caught:
        read_declarations(file)
    assert "rules.pbtxt" in str(caught.value)
    with pytest.raises(AmandaError, match="cannot be read"):
        read_declarations(tmp_path / "none.pbtxt")


TARGETED = 'name: "targetValue" stringValue: "NCHW"'
LISTED = 'name: "attributeNameOfListAttribute" stringValue: "ksize"'


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (rule("stringequals", "i=padding"), "has no arguments for 'i'"),
        (rule("conditionalfieldvalueintindex", "i=data_format", TARGETED, LISTED,
              'name: "falseIndex"', 'name: "trueIndex" int64Value: "1"'),
         "'trueIndex' of a rule has no value of its kind"),
        (rule("conditionalfieldvalueintindex", "i=data_format", 'name: "targetValue"'),
         "'targetValue' of a rule has no value of its kind"),
        (rule("argdescriptorconstant", "", 'name: "a" argType: DOUE', key="value"),
         "constant 'a' is of a kind that has no values"),
        (rule("listattributevaluelookuptoindex", "i=ksize",
              'name: "i" argType: STRING stringValue: "x"'),
         "'i' of a rule has no value of its kind"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_reported(
    published: Any, row: str, why: str
) -> None:
    made = published(
        "tensorflow",
        ops_text("target: x0=a i0=i"),
        declared("tensorflow", "MaxPool", "target", row),
    )
    with pytest.raises(FormatError, match="invalid declarations") as caught:
        assert made.rules
    assert re.search(why, str(caught.value)), str(caught.value)


def test_rules_that_mean_nothing_are_told_together(published: Any) -> None:
    made = published(
        "tensorflow",
        ops_text("target: x0=a"),
        declared("tensorflow", "Neg", "target", rule("telepathy"))
        + declared("tensorflow", "Abs", "target", rule("clairvoyance")),
    )
    with pytest.raises(FormatError) as caught:
        assert made.rules
    told = str(caught.value)
    for name in ("telepathy", "clairvoyance", "rules.pbtxt, Neg", "rules.pbtxt, Abs"):
        assert re.search(name, told), told


# -- the kit ---------------------------------------------------------------------------


class TestNd4jTensorflow(MappingSuite):
    """On a rule set of two declarations."""

    mapping = "nd4j-tensorflow"

    def samples(self) -> dict[str, Callable[[], MappingSample]]:
        return {"there": there, "back": back}

    @pytest.fixture(autouse=True)
    def _rules(self, published: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        case = CASES["ndarraytointattributevalue"]
        made = published(
            "tensorflow",
            ops_text("reverse: x0=a i0=dims"),
            declared("tensorflow", case.op, "reverse", *case.rules),
        )
        monkeypatch.setitem(TENSORFLOW.__dict__, "translation", made.translation)
        monkeypatch.setattr(TENSORFLOW, "_rules", made.rules)
        monkeypatch.setattr(TENSORFLOW, "_programs", {})


def there() -> MappingSample:
    graph = graph_of(CASES["ndarraytointattributevalue"])
    return MappingSample(graph, "amanda/nd4j/1", _reverse())


def back() -> MappingSample:
    return MappingSample(_reverse(), "amanda/tensorflow/2.21.0")


def _reverse() -> Graph:
    graph = Graph("amanda/nd4j/1")
    x = graph.parameter(parse_type("float32[...]"))
    op = graph.add("reverse", [x], {"dims": [0, 2]}, name="it")
    graph.result(op.output)
    return graph
