"""Rule texts: what they may say, what is refused and how that is told, files."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapping.toys import A, B, a_side, chain, lines, toys
from strategies import examples

from amanda.errors import AmandaError, FormatError, LimitError, UsageError
from amanda.mapping import PlainSide, RuleMapping, RuleSet, Signature
from amanda.mapping.lenses.builtin import LENSES
from amanda.mapping.rules.parser import MAX_DEPTH, parse_rules
from amanda.mapping.rules.tokenizer import MAX_TEXT

SAID = [
    "Relu(x)  <=>  relu(x)",
    "Softmax[:12](x, axis=a)  <=>  softmax(x, axes=trailing(a, rank(x)))",
    "Softmax[13:](x, axis=a)  <=>  softmax(x, axes=only(a))",
    "Softmax[7:7](x)  =>  softmax(x)",
    "Concat(*xs, axis=a)  <=>  concat(*xs, axis=a)",
    "Conv(x, strides=[1, *s, 1], auto='NOTSET', kernel=_)"
    "  <=>  conv(x, strides=seq(s, rank(x), 2))",
    "Gemm(a, b, c, transB=1)"
    "  <=  add(matmul(a, transpose(b, perm=[1, 0])), c)  if rank(a) == 2",
    "Moments(x)  =>  mean(Split(x)[1])",
    "aten::add.Tensor(a, b, alpha=1)  <=>  add(a, b)",
    "Clip(x, lo=-1.5, hi=inf)  <=>  clip(x, -1.5, None)",
    "A(x, k=k)  =>  a(x)"
    "  if kind(x) in ['int', 'uint'] and not (k == 1 or given(x)) and k < 3",
    "A(x, k=unpaired(reversed(k)))  <=>  a(x, k=k)",
    "Loop(m?, c?, *v)  <=>  loop(m, c, *v)",
    "Join(x, *xs, y, axis=0)  <=>  join(*xs, x, y)",
    "Pass(x, ^Assert(c, *data))  <=>  checked(x, ^check(c, *data))",
    r"""A(x, k='\t\\\n', l="it's", m='\x00\u2028')  =>  a(x)""",
]  # fmt: skip


@pytest.mark.parametrize("text", SAID)
def test_what_is_said_is_written_again(text):
    [row] = parse_rules(text, LENSES)
    assert row.text == text
    [again] = parse_rules(row.text, LENSES)
    assert again.text == row.text
    end = "  losing 'all'" if row.arrow != "<=>" else ""
    [row] = parse_rules(text + end + "  after base, norms  @fast @small", LENSES)
    assert (row.after, row.tags) == (("base", "norms"), ("fast", "small"))
    assert row.full_text == text + end + "  after base, norms  @fast  @small"


def test_rows_continue_while_they_are_indented():
    text = """
        # a comment
        Relu(x)     # another
            <=>
            relu(x)

        Add(a,
            b) <=> add(a, b)"""
    rows = parse_rules(text, (), "toys.rules")
    assert [row.text for row in rows] == [
        "Relu(x)  <=>  relu(x)",
        "Add(a, b)  <=>  add(a, b)",
    ]
    assert [row.id for row in rows] == ["toys.rules:3", "toys.rules:7"]


REFUSED = {
    "Softmax(x, axis=a) <=> softmax(x)": (
        "the variable 'a' is on one side only\n"
        "  where:    f:1:17\n"
        "  got:      Softmax(x, axis=a)  <=>  softmax(x)\n"
        "  to do:    write _ for a part that may be anything"
    ),
    "Relu(x) => relu(y)": (
        "the variable 'x' is on one side only\n"
        "  where:    f:1:6\n"
        "  got:      Relu(x)  =>  relu(y)\n"
        "  to do:    write _ for a part that may be anything"
    ),
    "Relu(x) relu(x)": (
        "a rule that cannot be read\n"
        "  where:    f:1:9\n"
        "  expected: <=> or => or <=\n"
        "  got:      'relu'"
    ),
    "Relu(x) <=>\n  relu(x": (
        "a rule that cannot be read\n"
        "  where:    f:2:9\n"
        "  expected: ,\n"
        "  got:      the end of the rule"
    ),
    "Softmax(x, axis=onyl(a)) <=> softmax(x, axes=a)": (
        "no lens is called 'onyl'\n"
        "  where:    f:1:17\n"
        "  to do:    did you mean 'only'?"
    ),
    "Relu(x) <=> relu(x) if rnak(x) == 2": (
        "a rule that cannot be read\n"
        "  where:    f:1:24\n"
        "  expected: a question: one of rank, dtype, kind, shape, size, content, "
        "is_constant, given, length\n"
        "  got:      'rnak'"
    ),
    "Relu(x) <=> relu(x) if rank(y) == 2": (
        "'y' is read, but no op of the rule has it\n"
        "  where:    f:1:29\n"
        "  got:      Relu(x)  <=>  relu(x)  if rank(y) == 2"
    ),
    "Relu(x, y) => relu(x) if __import__('os')": (
        "a rule that cannot be read\n"
        "  where:    f:1:26\n"
        "  expected: a question: one of rank, dtype, kind, shape, size, content, "
        "is_constant, given, length\n"
        "  got:      '__import__'"
    ),
    "Relu(x) <=> relu(x); print(1)": (
        "a character that no rule has\n  where:    f:1:20\n  got:      ';'"
    ),
    "Relu(x, mode='a) <=> relu(x)": (
        "a character that no rule has\n"
        "  where:    f:1:14\n"
        "  got:      'a) <=> relu(x): a string that does not end on its line"
    ),
    "Relu(mode=m, x) <=> relu(x, mode=m)": (
        "a rule that cannot be read\n"
        "  where:    f:1:14\n"
        "  expected: an attribute: inputs come before attributes\n"
        "  got:      'x'"
    ),
    "Relu[13:7](x) <=> relu(x)": (
        "a rule that cannot be read\n"
        "  where:    f:1:6\n"
        "  expected: versions in order\n"
        "  got:      '13'\n"
        "  to do:    write [from:to]"
    ),
    "Concat(*xs, *ys) => concat(*xs, *ys)": (
        "a rule that cannot be read\n"
        "  where:    f:1:13\n"
        "  expected: one with *, and *xs takes the rest\n"
        "  got:      '*'"
    ),
    "Relu(x, ^NoOp()[1]) => relu(x)": (
        "a control edge comes from an op, not from one of its outputs\n"
        "  where:    f:1:10\n"
        "  got:      NoOp()[1]"
    ),
    "Relu(x) => relu(x) @if": (
        "a rule that cannot be read\n"
        "  where:    f:1:21\n"
        "  expected: a tag, which 'if' is not\n"
        "  got:      'if'"
    ),
    "Relu(x, k=a?) => relu(x, k=a)": (
        "a rule that cannot be read\n"
        "  where:    f:1:12\n"
        "  expected: ,\n"
        "  got:      '?'"
    ),
    r"Relu(x, k='\ud800') => relu(x)": (
        "an escape for no character\n  where:    f:1:11\n  got:      ud800"
    ),
    "Relu(x)[1] => relu(x)": (
        "a whole side of a rule stands for all outputs of its op\n"
        "  where:    f:1:1\n"
        "  got:      Relu(x)[1]"
    ),
    'Relu(x, k=_) <=> relu(x) losing "k"': (
        "a rule that loses something runs one way\n"
        "  where:    f:1:1\n"
        "  expected: => or <=\n"
        "  got:      <=>"
    ),
    "Conv(x, s=s) => conv(x, s=[_, s])": (
        "_ does not define what is built\n"
        "  where:    f:1:27\n"
        "  got:      [_, s]"
    ),
    "Concat(*xs) => concat(xs)": (
        "'xs' is one value on one side and many on the other\n"
        "  where:    f:1:23\n"
        "  got:      Concat(*xs)  =>  concat(xs)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(text):
    with pytest.raises(FormatError) as caught:
        parse_rules(text, LENSES, "f")
    assert str(caught.value) == REFUSED[text]


def test_all_faults_are_told_at_once():
    with pytest.raises(FormatError) as caught:
        parse_rules("A(x) <=> a(y)\nB(x) <=> b(x)\nC(x <=> c(x)", (), "f")
    assert str(caught.value) == (
        "2 rules of f are faulty\n"
        "  where:    f:1:3\n"
        "  - f:1:3: the variable 'x' is on one side only; got A(x)  <=>  a(y)\n"
        "  - f:3:5: a rule that cannot be read; expected ,; got '<=>'"
    )


DEEP = {
    "terms": "R(" * 5000 + "x" + ")" * 5000 + " => r(x)",
    "lenses": "R(x, k=" + "only(" * 5000 + "a" + ")" * 5000 + ") => r(x, k=a)",
    "lists": "R(x, k=" + "[" * 5000 + "]" * 5000 + ") => r(x)",
    "guards": "R(x) => r(x) if " + "(" * 5000 + "rank(x)" + ")" * 5000,
    "wide": f"R({', '.join(f'O(x{i})' for i in range(200))}) => "
    f"r({', '.join(f'x{i}' for i in range(200))})",
    "number": f"R(x, k={'9' * 5000}) => r(x)",
}


@pytest.mark.parametrize("case", DEEP)
def test_absurd_texts_are_refused_in_time(case):
    began = time.process_time()
    with pytest.raises(LimitError):
        parse_rules(DEEP[case], LENSES)
    assert time.process_time() - began < 2


def test_absurdly_long_texts_are_refused():
    with pytest.raises(LimitError, match="the rules are absurdly long"):
        parse_rules("#" * (MAX_TEXT + 1), ())
    text = "R(x) => r(x) if " + "not " * 100_000 + "rank(x)"
    [row] = parse_rules(text, ())
    assert row.text.endswith("if rank(x)")
    assert MAX_DEPTH <= 64


PIECES = st.sampled_from(
    [*"()[],:=*_", "<=>", "=>", "<=", "if", "and", "not", "in", "x", "y", "Relu",
     "only", "rank", "1", "-2.5", "'t'", "\n", " ", "#", "losing", "::", "\\", "é",
     "?", "^", "@", "after"]
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_is_read_or_refused(text):
    with suppress(AmandaError):
        for row in parse_rules(text, LENSES):
            assert parse_rules(row.full_text, LENSES)[0].full_text == row.full_text


# Rule sets


def test_own_lenses_and_tables():
    rules = RuleSet("mine", "toy/a", "toy/b")
    rules.table("groups", {1: 1, 2: 20})
    rules.lens("twice", lambda v: v * 2, lambda v: v // 2, lambda r: (3,), "double")
    rules.equations("Conv(x, w, b, group=g, pads=p) <=> "
                    "conv(x, w, b, groups=groups(g), padding=pairs(p))")  # fmt: skip
    mapping = RuleMapping(a_side, PlainSide("toy/b/1", B.get), rules)
    graph = chain(("Conv", {"group": 2}))
    over = mapping.conversion(graph, "toy/b/1").graph
    assert lines(over) == ["Conv_0 = conv(g:x) {'groups': 20}"]
    assert lines(mapping.conversion(over, "toy/a/13").graph) == lines(graph)
    gap = mapping.conversion(chain(("Conv", {"group": 3})), "toy/b/1").report.gaps[0]
    assert gap.why == ("mine:1: 3 is not in the table groups: 1, 2",)
    with pytest.raises(UsageError, match="there is a lens 'twice' already"):
        rules.table("twice", {1: 2})
    with pytest.raises(UsageError, match="'rank' is not a valid name of a lens"):
        rules.table("rank", {1: 2})


def test_a_faulty_text_adds_no_rule():
    rules = RuleSet("mine", "toy/a", "toy/b")
    with pytest.raises(FormatError):
        rules.equations("A(x) <=> a(x)\nB(x) <=> b(y)")
    assert rules.rows == []


def test_the_more_specific_rule_is_first_wherever_it_stands():
    rules = RuleSet("mine", "toy/a", "toy/b")
    rules.equations("""
        F(x, k=k) => f(x, k=k)
        F(x, k=k) => e(x, k=k)  if k > 1
        F(G(x), k=_) => g(x)
        F(x, k=1) => h(x)
        F(x, k=_) => i(x) losing "k"
    """)
    found = [rule.sides(True)[1].type for rule in rules.of_type("F", forward=True)]
    assert found == ["g", "e", "h", "f", "i"]


# Files

FILE = """\
# rules of toys
source: toy/a
target: toy/b@1
tags: [toys]
tables:
  group: {one: 1, two: 2}
  flags: [[0, no], [1, yes]]
read:
  "Drop[1:]": drop
rules: |
  Relu(x)  <=>  relu(x)

  Softmax[13:](x, axis=a)
    <=>  soft(x, axes=only(a))
  Conv(x, w, group=group(g))  <=>  conv(x, w, groups=g)
"""


def filed():
    rules = RuleSet("mine", "toy/a", "toy/b")

    @rules.function
    def drop(o, x, *, ratio):
        return x

    return rules


def test_a_file_of_rules(tmp_path):
    file = tmp_path / "toys.yaml"
    file.write_text(FILE)
    rules = filed()
    rules.load(file)
    assert [row.id for row in rules.rows] == [f"toys.yaml:{n}" for n in (11, 13, 15)]
    assert {row.tags for row in rules.rows} == {("toys",)}
    mapping = RuleMapping(a_side, PlainSide("toy/b/1", B.get), rules)
    graph = chain(("Relu", {}), ("Drop", {"ratio": 0.2}), ("Softmax", {}))
    assert lines(mapping.conversion(graph, "toy/b/1").graph) == [
        "Relu_0 = relu(g:x)",
        "Softmax_2 = soft(Relu_0:0) {'axes': [-1]}",
    ]
    plain = tmp_path / "more.rules"
    plain.write_text("Add(a, b)  <=>  plus(a, b)\n")
    rules.load(plain)
    assert rules.rows[-1].id == "more.rules:1"


FAULTY = {
    ("target: toy/b@1", "target: toy/c"): (
        "rules of another target\n"
        "  where:    f.yaml, line 3, column 1\n"
        "  expected: toy/b\n"
        "  got:      toy/c"
    ),
    ("target: toy/b@1", "tarket: toy/b"): (
        "rule files have no key 'tarket'\n"
        "  where:    f.yaml, line 3, column 1\n"
        "  to do:    did you mean 'target'?"
    ),
    ("target: toy/b@1\n", ""): "a rule file needs the key 'target'\n  where:    f.yaml",
    ("[toys]", "toys"): (
        "'tags' has a value of the wrong type\n"
        "  where:    f.yaml, line 4, column 1\n"
        "  expected: a list"
    ),
    (": drop", ": os.system"): (
        "no function 'os.system' is registered\n  where:    f.yaml, line 8, column 1"
    ),
    ("relu(x)", "relu(y)"): (
        "the variable 'x' is on one side only\n"
        "  where:    f.yaml:11:8\n"
        "  got:      Relu(x)  <=>  relu(y)\n"
        "  to do:    write _ for a part that may be anything"
    ),
    ("{one: 1, two: 2}", "5"): (
        "the table 'group' has a value of the wrong type\n"
        "  where:    f.yaml, line 5, column 1\n"
        "  expected: a map, or a list of pairs, of numbers and texts"
    ),
}


@pytest.mark.parametrize("change", FAULTY, ids=range(len(FAULTY)))
def test_faulty_files(change):
    from amanda.mapping.rules.rule_file import loads

    rules = filed()
    with pytest.raises(FormatError) as caught:
        loads(rules, FILE.replace(*change), "f.yaml")
    assert str(caught.value) == FAULTY[change]
    assert rules.rows == []
    assert "group" not in rules.lenses


# Nothing is dropped silently

VALUES = st.one_of(st.none(), st.integers(0, 3), st.sampled_from(["NOTSET", "SAME"]),
                   st.lists(st.integers(0, 2), max_size=4))  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sampled_from(sorted(A)),
    st.dictionaries(
        st.sampled_from(["axis", "axes", "keep", "pads", "group", "auto", "alpha",
                         "transB", "odd", "ratio"]),
        VALUES, max_size=3,
    ),
)  # fmt: skip
def test_every_attribute_is_covered_default_or_told(type, attrs):
    """What comes back has every attribute that is no default; or there is a gap."""
    mapping = toys()
    graph = chain((type, attrs))
    over = mapping.conversion(graph, "toy/b/1")
    if over.report.gaps:
        assert [gap.op for gap in over.report.gaps] == [type]
        return
    signature = a_side("toy/a/13").signature(type)
    assert isinstance(signature, Signature)
    back = mapping.conversion(over.graph, "toy/a/13")
    if back.report.gaps or type == "Gemm":
        return
    [op] = (op for op in back.graph if op.type == type)
    for key, value in attrs.items():
        default = signature.attrs.get(key)
        came = op.attrs.get(key, default)
        if key in signature.inputs:  # held in place of an input, which it became
            continue
        assert (default if value is None else value) == came, (key, value, op.attrs)
