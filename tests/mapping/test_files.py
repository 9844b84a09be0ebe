"""Files of rules: text, YAML, protobuf and the older tables are the same rules."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from functools import partial
from importlib.util import find_spec

import pytest
from mapping.files import COMMITTED, EVERYTHING, TABLES, committed, empty
from mapping.toys import TO, A, B, chain, lines

from amanda.errors import FormatError, LimitError
from amanda.files.binary import mapping_messages
from amanda.files.binary.mapping_messages import CODEC
from amanda.formatkit import file_descriptor, message_classes
from amanda.mapping import PlainSide, RuleMapping, RuleSet, Signature
from amanda.mapping.rules import protobuf, rule_file
from amanda.mapping.rules.parser import parse_rules


def said(rules):
    """All that a set of rules consists of."""
    return {
        "rows": [row.full_text for row in rules.rows],
        "tables": {n: x.rows for n, x in rules.lenses.items() if x.rows is not None},
        "functions": [
            (f.name, str(f.term), f.forward) for f in rules.functions
        ],
        "hints": rules.hints,
    }  # fmt: skip


def alike(rules):
    """A set without rules, but with the same lenses and functions."""
    made = RuleSet(rules.name, rules.left, rules.right)
    made.lenses = {n: x for n, x in rules.lenses.items() if x.rows is None}
    made.callables = dict(rules.callables)
    return made


def everything():
    rules = empty()
    rule_file.loads(rules, EVERYTHING, "all.yaml")
    return rules


SETS = {"everything": everything} | {
    path.name: partial(committed, path) for path in COMMITTED
}


@pytest.mark.parametrize("name", SETS)
def test_forms_are_the_same_rules(name):
    rules = SETS[name]()
    assert rules.rows
    coded = protobuf.dumps(rules)
    read = alike(rules)
    protobuf.loads(read, coded, "rules.pb")
    assert said(read) == said(rules)
    assert [row.id for row in read.rows] == [row.id for row in rules.rows]
    assert protobuf.dumps(read) == coded
    text = rule_file.dumps(rules)
    again = alike(rules)
    rule_file.loads(again, text, "rules.yaml")
    assert said(again) == said(rules)
    assert rule_file.dumps(again) == text
    plain = rule_file.dumps(rules, form="text")
    assert [r.full_text for r in parse_rules(plain, rules.lenses)] == said(rules)[
        "rows"
    ]


def test_committed_files_are_there():
    assert len(COMMITTED) > 5


def test_a_file_behaves_the_same_without_what_wrote_it(tmp_path):
    text = (
        "Softmax(x, axis=a)  <=>  soft(x, axes=only(a))\nConv(x, w, b, auto=mode(m))"
        "  <=>  conv(x, w, b, groups=m)"
    )
    rules = RuleSet("mine", "toy/a", "toy/b")
    rules.table("mode", {1: "NOTSET", 2: "SAME"})
    rules.equations(text)
    (tmp_path / "r.pb").write_bytes(protobuf.dumps(rules))
    (tmp_path / "r.yaml").write_text(rule_file.dumps(rules))
    left = {key: kept[-1] for key, kept in A.items()}
    graph = chain(("Softmax", {"axis": 0}), ("Conv", {"auto": "SAME"}))
    made = []
    for file in ("r.pb", "r.yaml"):
        read = RuleSet("mine", "toy/a", "toy/b")
        read.load(tmp_path / file)
        ends = PlainSide("toy/a/13", left.get), PlainSide(TO, B.get)
        made.append(RuleMapping(*ends, read).conversion(graph, TO).graph)
    assert (
        lines(made[0])
        == lines(made[1])
        == [
            "Softmax_0 = soft(g:x) {'axes': [0]}",
            "Conv_1 = conv(Softmax_0:0) {'groups': 2}",
        ]
    )


# Tables, as ancestors had them


def test_tables_of_ancestors():
    rules = empty()
    rule_file.loads(rules, TABLES, "old.yaml")
    assert [(row.full_text, row.spot.line) for row in rules.rows[1:]] == [
        ("Relu(x)  <=>  relu(x)  @old", 5),
        (
            "Gemm[7:](a, b, c?, alpha=1.0, transB=1)  =>  "
            "plus(dot(a, swap(b, order=[1, 0])), c)  if rank(a) == 2  losing 'speed'"
            "  after old_ones  @big  @old",
            9,
        ),
        ("Concat(*xs, axis=a)  =>  join(*xs, axis=axis(a, 4))  @old", 23),
        (
            "Join(x, ^Check(_))  =>  same(three(x)[2])"
            "  losing 'the check of ${c}'  @old_ones  @old",
            25,
        ),
    ]


TABLE_FAULTS = {
    "{op: Relu, inputs: [$x]}": {
        "{op: Relu, inputs: [$1]}": "a variable is $name, a value ${...}",
        "{op: Relu, inputs: [$y]}": "the variable 'y' is on one side only",
        "{op: 'Relu(x) <=> a', inputs: []}": "a rule that cannot be read",
        "{op: Relu, inputs: $x}": "'inputs' and 'after' are lists",
        "{op: Relu, inputs: ['${x), y(x}']}": "a rule that cannot be read",
        "{op: Relu, attrs: {a b: 1}}": "an attribute is a name",
        "{op: Relu, attrs: {a: {op: b}}}": "no lens is called 'b'",
        "{op: Relu, outputs: 1}": "no op has a 'outputs'",
        "[]": "op must be a map",
        "{op: Relu, output: -1}": "'output' is the number of an output",
    },
    "${axis(a, 4)}": {"${axes(a, 4}": "a rule that cannot", "${onyl(a)}": "no lens"},
    "guard: ${rank(a) == 2}": {"guard: ${rank(a) == 2 @x}": "a rule that cannot"},
    "    both: true": {"    noth: true": "no rule has a 'noth'"},
    "dst_namespace": {"dst_namespaze": "rule tables have no key 'dst_namespaze'"},
    "tags: [old]": {"tags: [o l d]": "'tags' has a value of the wrong type"},
    "dst_namespace: toy/b": {"dst_namespace: toy/c": "rules of another target"},
}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [(a, b, c) for a, changes in TABLE_FAULTS.items() for b, c in changes.items()],
)
def test_faulty_tables(old, new, told):
    rules = empty()
    before = said(rules)
    with pytest.raises(FormatError) as caught:
        rule_file.loads(rules, TABLES.replace(old, new, 1), "old.yaml")
    assert caught.value.message.startswith(told)
    assert str(caught.value.where).startswith("old.yaml")
    assert said(rules) == before


# Protobuf


def test_every_class_has_the_fields_of_its_message():
    assert set(CODEC.classes) == set(CODEC.schema.messages)
    for name, kind in CODEC.classes.items():
        assert [item.name for item in fields(kind)] == list(CODEC.schema[name].fields)


def test_the_protobuf_library_reads_and_writes_the_same():
    data = protobuf.dumps(everything())
    theirs = message_classes(CODEC.schema)["RuleFile"].FromString(data)
    assert theirs.magic == "amanda rules"
    assert [rule.arrow for rule in theirs.rules[:3]] == ["<=>", "<=>", "<=>"]
    assert theirs.SerializeToString(deterministic=True) == data
    assert CODEC.proto.name == "mapping.proto"


def test_protoc_takes_it(tmp_path):
    if find_spec("grpc_tools") is None:
        pytest.skip("grpcio-tools not there")
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    out = tmp_path / "set"
    folder = f"-I{CODEC.proto.parent}"
    protoc = (sys.executable, "-m", "grpc_tools.protoc")  # not beside other libraries
    arguments = (folder, f"--descriptor_set_out={out}", CODEC.proto.name)
    subprocess.run([*protoc, *arguments], check=True)
    (made,) = FileDescriptorSet.FromString(out.read_bytes()).file
    assert file_descriptor(CODEC.schema, CODEC.proto.name) == made


def changed(change):
    """A file in protobuf form with something changed."""
    read = protobuf.decode_file(protobuf.dumps(everything()))
    change(read)
    return mapping_messages.write(read)


def nested(file):
    part = file.rules[1].parts[0]
    file.rules[1].parts = [
        mapping_messages.RulePart("op", "Relu", 1) for _ in range(5000)
    ]
    file.rules[1].parts.append(part)


def values(file):
    file.tables[0].left = [mapping_messages.RuleValue(list=1) for _ in range(5000)]


BROKEN = {
    "magic": (lambda f: setattr(f, "magic", "x"), "no file of rules"),
    "major": (lambda f: setattr(f, "major", 2), "a file of rules of another major"),
    "end": (lambda f: setattr(f, "target", "toy/c"), "rules of another end"),
    "arrow": (lambda f: setattr(f.rules[1], "arrow", "->"), "a rule has an arrow"),
    "name": (
        lambda f: setattr(f.rules[1].parts[1], "name", "x) <=> y(x"),
        "'variable' has a name",
    ),
    "lens": (
        lambda f: [setattr(p, "name", "onyl") for r in f.rules for p in r.parts
                   if p.form == "lens"],
        "no lens is called 'onyl'",
    ),
    "form": (lambda f: setattr(f.rules[1].parts[1], "form", "eval"), "a rule has no"),
    "short": (lambda f: f.rules[1].parts.pop(), "a rule ends too early"),
    "many": (lambda f: setattr(f.rules[1].parts[0], "parts", 1 << 60), "a rule ends"),
    "function": (
        lambda f: setattr(f.functions[0], "name", "os.system"),
        "no function 'os.system' is registered",
    ),
    "tag": (lambda f: setattr(f.rules[1], "tags", ["a b"]), "a tag is a word"),
    "one side": (
        lambda f: setattr(f.rules[1].parts[1], "name", "y"),
        "the variable 'y' is on one side only",
    ),
    "table": (lambda f: f.tables[0].left.pop(), "a table has as many values"),
    "table name": (lambda f: setattr(f.tables[0], "name", "a b"), "'a b' is not a valid"),  # noqa: E501
    "number": (
        lambda f: [
            setattr(v, "digits", "1e9")
            for r in f.rules for p in r.parts for v in p.value if v.digits
        ],
        "no whole number",
    ),
    "nested": (nested, "a rule is nested too deep"),
    "values": (values, "a value is nested too deep"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files(case):
    change, told = BROKEN[case]
    rules = alike(everything())
    with pytest.raises((FormatError, LimitError)) as caught:
        protobuf.loads(rules, changed(change), "f.pb")
    assert caught.value.message.startswith(told)
    assert caught.value.where is not None
    assert not rules.rows
    assert not rules.functions


def test_functions_of_one_name_keep_apart():
    rules = RuleSet("mine", "toy/a", "toy/b")

    def made(k):
        def drop(o, x, **_):
            return k

        return drop

    one, other = made(1), made(2)
    rules.read("A")(one)
    rules.read("B", "C")(other)
    assert [f.name for f in rules.functions] == ["drop", "drop_", "drop_"]
    read = alike(rules)
    protobuf.loads(read, protobuf.dumps(rules))
    assert [f.call for f in read.functions] == [one, other, other]


def test_functions_of_any_attributes_take_those_of_the_signature():
    rules, taken = RuleSet("mine", "toy/a", "toy/b"), []

    @rules.read("Drop")
    def drop(o, x, **attrs):
        taken.append(attrs)
        return x

    source = PlainSide("toy/a/13", {key: kept[-1] for key, kept in A.items()}.get)
    mapping = RuleMapping(source, PlainSide(TO, B.get), rules)
    graph = chain(("Drop", {"ratio": 0.1}), ("Drop", {"to": 6}))
    [gap] = mapping.conversion(graph, TO, keep_foreign=True).report.gaps
    assert taken == [{"ratio": 0.1}]
    assert "the attribute to=6 is not covered" in str(gap)


def test_a_signature_knows_whether_order_matters():
    assert not Signature(("a", "b")).commutative
