"""Patterns: inputs in either order, parts that may be absent, the rest, control edges;
which rule is tried before which; hints."""

from __future__ import annotations

import time
from itertools import permutations

import pytest
from mapping.toys import TO, A, B, Typing, a_side, b_side, chain, lines, there, toys

from amanda.errors import FormatError
from amanda.graph import Graph
from amanda.mapping import PlainSide, RuleMapping, RuleSet, Signature
from amanda.tensors import Tensor

BACK = "toy/a/13"


def between(text, left=A, right=B, side=PlainSide, **more):
    """A mapping by these rules; the sides are tables of signatures."""
    rules = RuleSet("mine", "toy/a", "toy/b")
    rules.equations(text, "mine.rules", **more)
    left = {
        key: kept if isinstance(kept, Signature) else kept[-1]
        for key, kept in left.items()
    }
    return RuleMapping(side(BACK, left.get), side(TO, right.get), rules)


def back(graph, mapping=None):
    done = (mapping or toys()).conversion(graph, BACK)
    assert done.graph.check() == []
    return done


# Either order


def product_and_sum(*, crossed):
    graph = Graph(TO, name="g")
    a, b, c = (graph.parameter(chain(type="float32[2, 3]").parameters[0].type, name=n)
               for n in "abc")  # fmt: skip
    dot = graph.add("dot", [a, b], name="dot").output
    order = [c, dot] if crossed else [dot, c]
    graph.result(graph.add("plus", order, name="plus").output, "y")
    return graph


@pytest.mark.parametrize("crossed", [False, True])
def test_inputs_of_a_commutative_op_match_in_either_order(crossed):
    made = back(product_and_sum(crossed=crossed)).graph
    assert lines(made) == ["plus = Gemm(g:a, g:b, g:c)"]


def tree(order):
    """plus(times(a, b), times(a, c)) with all inputs in some order."""
    graph = Graph(TO, name="g")
    values = {n: graph.parameter(name=n) for n in "abc"}
    first, second, outer = order
    left = graph.add("times", [values[n] for n in first], name="l").output
    right = graph.add("times", [values[n] for n in second], name="r").output
    graph.result(graph.add("plus", [left, right][::outer], name="p").output)
    return graph


@pytest.mark.parametrize("first", ["ab", "ba"])
@pytest.mark.parametrize("second", ["ac", "ca"])
@pytest.mark.parametrize("outer", [1, -1])
def test_what_stands_twice_is_found_in_any_order(first, second, outer):
    mapping = between("Merge(a, Merge(b, c))  <=  plus(times(a, b), times(a, c))")
    graph = tree((first, second, outer))
    [merge, top] = back(graph, mapping).graph
    names = [v.name for v in (top.inputs[0], *merge.inputs)]
    assert names[0] == "a"
    assert sorted(names[1:]) == ["b", "c"]


def test_no_order_that_does_not_fit_is_taken():
    mapping = between("Merge(a, Merge(b, c))  <=  plus(times(a, b), times(a, c))")
    graph = tree(("ab", "ab", 1))
    assert not back(graph, mapping).report.gaps  # a * b + a * b
    graph["r"].input_ports[0].connect(graph.parameters[2])
    graph["r"].input_ports[1].connect(graph.parameters[2])
    assert [gap.op for gap in back(graph, mapping).report.gaps] == [
        "times", "times", "plus",
    ]  # fmt: skip


def test_an_op_that_is_not_commutative_keeps_its_order():
    text = "Identity(x)  <=  dot(x, relu(x))\nRelu(x)  <=>  relu(x)"
    mapping = between(text)
    graph = Graph(TO, name="g")
    x = graph.parameter(name="x")
    y = graph.add("relu", [x]).output
    graph.result(graph.add("dot", [y, x], name="dot").output)
    assert [gap.op for gap in back(graph, mapping).report.gaps] == ["dot"]
    graph["dot"].input_ports[0].connect(x)
    graph["dot"].input_ports[1].connect(y)
    assert not back(graph, mapping).report.gaps


def test_constants_match_on_either_side():
    mapping = between("Identity(x)  <=  plus(x, 0)")
    for order in permutations(range(2)):
        graph = Graph(TO, name="g")
        x = graph.parameter(name="x")
        zero = graph.constant(Tensor.of(0.0, "float32")).output
        inputs = [[x, zero][i] for i in order]
        graph.result(graph.add("plus", inputs, name="p").output)
        assert lines(back(graph, mapping).graph) == ["p = Identity(g:x)"]


def with_constant(*, crossed, inside=None, outside=None):
    """plus(x, 2), perhaps with an op inside or around it, or in the other order."""
    graph = Graph(TO, name="g")
    x = graph.parameter(chain(type="float32[2, 3]").parameters[0].type, name="x")
    two = graph.constant(Tensor.of(2, "int32"), name="two").output
    inner = graph.add(inside, [x], name="inner").output if inside else x
    inputs = [two, inner] if crossed else [inner, two]
    made = graph.add("plus", inputs, name="p").output
    graph.result(graph.add(outside, [made]).output if outside else made)
    return graph


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("Softmax[13:](x, axis=v)  <=  plus(x, v)", "p = Softmax(g:x) {'axis': 2}"),
        ("Split(x, axis=v)  <=  plus(x, v)", "p = Split(g:x) {'axis': 2}"),
        ("Sum(x, axes=[v])  <=  plus(x, v)", None),  # an input of Sum since 13
        ("Merge(x, y)  <=  plus(x, y)  if is_constant(y)", "p = Merge(g:x, two:0)"),
        ("Merge(x, y)  <=  plus(x, y)  if rank(y) == 0", "p = Merge(g:x, two:0)"),
        ("Merge(y, x)  <=  plus(x, y)  if not rank(y) == 0", "p = Merge(g:x, two:0)"),
    ],
)
def test_conditions_choose_the_order_of_inputs(rule, expected, crossed):
    made = back(with_constant(crossed=crossed), between(rule)).graph
    if expected is None:
        (op,) = (op for op in made if op.type == "Sum")
        assert op.inputs[0].name == "x"
        assert op.inputs[1].op.attrs["value"].tolist() == [2]
    else:
        assert expected in lines(made)


@pytest.mark.parametrize("crossed", [False, True])
def test_conditions_choose_the_order_inside_patterns(crossed):
    mapping = between("Softmax[13:](x, axis=v)  <=  relu(plus(x, v))")
    graph = with_constant(crossed=crossed, outside="relu")
    made = back(graph, mapping).graph
    (op,) = (op for op in made if not op.is_constant)
    assert (op.inputs[0].name, op.attrs) == ("x", {"axis": 2})


@pytest.mark.parametrize("crossed", [False, True])
def test_conditions_decided_during_conversion_choose_the_order(crossed):
    """The type of the inner op is known only once it is mapped."""
    rules = "Merge(x, y)  <=  plus(x, y)  if rank(x) == 2\nRelu(x)  <=>  relu(x)"
    graph = with_constant(crossed=crossed, inside="relu")
    made = back(graph, between(rules, side=Typing)).graph
    assert "p = Merge(inner:0, two:0)" in lines(made)


def test_no_order_where_no_value_is_constant():
    mapping = between("Softmax[13:](x, axis=v)  <=  plus(x, v)")
    graph = Graph(TO, name="g")
    x, y = (graph.parameter(name=n) for n in "xy")
    graph.result(graph.add("plus", [x, y], name="p").output)
    (gap,) = back(graph, mapping).report.gaps
    assert "is not constant" in str(gap)


def test_inputs_that_a_version_lacks_are_not_invented():
    first = {"Clip": Signature(("x",))}
    mapping = between("Clip(x, lo, hi)  <=>  clamp(x, lo, hi)", left=first)
    graph = Graph(BACK, name="g")
    x = graph.parameter(name="x")
    graph.result(graph.add("Clip", [x], name="c").output)
    done = mapping.conversion(graph, TO)
    assert [gap.op for gap in done.report.gaps] == ["Clip"]
    assert "clamp needs the input lo, and lo is absent" in str(done.report.gaps[0])


def deep(depth, leaf, op):
    """A full tree of an op over leaves, as text or (with a graph) as values."""
    if depth == 0:
        return leaf()
    return op(deep(depth - 1, leaf, op), deep(depth - 1, leaf, op))


def test_hostile_patterns_end():
    """63 commutative ops over one variable and one that never fits: 2 ** 63 orders."""
    names = iter([*"x" * 31, "y"])
    pattern = deep(5, lambda: next(names), lambda a, b: f"plus({a}, {b})")
    rules = f"Merge(x, y)  <=  times(y, {pattern})\nAdd(a, b)  <=>  plus(a, b)"
    mapping = between(rules + "\nMul(a, b)  <=>  times(a, b)")
    graph = Graph(TO, name="g")
    x, y, z = (graph.parameter(name=n) for n in "xyz")
    for _ in range(20):
        leaves = iter([*[x] * 30, y, z])
        top = deep(
            5, lambda seen=leaves: next(seen),
            lambda a, b: graph.add("plus", [a, b]).output,
        )  # fmt: skip
        graph.result(graph.add("times", [y, top]).output)
    began = time.process_time()
    done = back(graph, mapping)
    assert time.process_time() - began < 10
    assert not done.report.gaps
    assert done.report.rules == {"mine.rules:2": 31 * 20, "mine.rules:3": 20}


# Parts that may be absent, and the rest

JOIN = {
    "Join": Signature(("xs",), variadic="xs"),
    "Pool": Signature(("x", "w"), optional=frozenset({"w"})),
    "Relu": Signature(("x",)),
}
OVER = {
    "merge": Signature(("x", "y")),
    "join": Signature(("xs",), variadic="xs"),
    "pool": Signature(("x", "w")),
    "relu": Signature(("x",)),
}


def joined(n, type="Join"):
    graph = Graph(BACK, name="g")
    values = [graph.parameter(name=f"x{i}") for i in range(n)]
    graph.result(graph.add(type, values, name="j").output)
    return graph


def test_a_variable_stands_for_an_input_that_is_there():
    mapping = between("Join(a, b)  <=>  merge(a, b)", JOIN, OVER)
    assert lines(there(joined(2), mapping).graph) == ["j = merge(g:x0, g:x1)"]
    for n in (1, 3):
        [gap] = mapping.conversion(joined(n), TO).report.gaps
        told = {1: "Join has fewer inputs than the 2 of the rule",
                3: "input 2 is not covered"}[n]  # fmt: skip
        assert gap.why == (f"mine.rules:1: {told}",)


def test_one_that_may_be_absent_says_so():
    mapping = between("Join(a, b?)  <=>  join(a, b?)", JOIN, OVER)
    assert lines(there(joined(1), mapping).graph) == ["j = join(g:x0)"]
    assert lines(there(joined(2), mapping).graph) == ["j = join(g:x0, g:x1)"]


def test_an_input_that_the_target_needs_must_be_there():
    mapping = between("Pool(x, w)  <=>  pool(x, w)", JOIN, OVER)
    assert not mapping.conversion(joined(2, "Pool"), TO).report.gaps
    [gap] = mapping.conversion(joined(1, "Pool"), TO).report.gaps
    assert gap.why == ("mine.rules:1: pool needs the input w, and w is absent",)


def test_the_rest_may_stand_anywhere():
    text = "Join(Relu(a), *xs, b)  =>  join(b, *xs, a)"
    mapping = between(text, JOIN, OVER)
    graph = joined(4)
    relu = graph.add("Relu", [graph.parameters[0]], name="r")
    graph["j"].input_ports[0].connect(relu.output)
    done = mapping.conversion(graph, TO)
    assert not done.report.gaps
    assert lines(done.graph) == ["j = join(g:x3, g:x1, g:x2, g:x0)"]


def test_the_rest_of_an_op_inside_a_pattern():
    mapping = between("Relu(Join(*xs))  =>  join(*xs)", JOIN, OVER)
    graph = joined(3)
    graph.remove_result(0)
    graph.result(graph.add("Relu", [graph["j"].output], name="r").output)
    assert lines(there(graph, mapping).graph) == ["r = join(g:x0, g:x1, g:x2)"]


# Control edges

CHECKED = {"Check": Signature(("c",), outputs=0), "Pass": Signature(("x",))}
CHECKS = {"check": Signature(("c",), outputs=0), "pass_": Signature(("x",))}
PASS = "Pass(x, ^Check(c))  <=>  pass_(x, ^check(c))"


def checked(*, more=False):
    graph = Graph(BACK, name="g")
    x, c = graph.parameter(name="x"), graph.parameter(name="c")
    check = graph.add("Check", [c], name="check", outputs=0)
    passed = graph.add("Pass", [x], name="pass")
    graph.control(check, passed)
    if more:
        graph.control(check, graph.add("Pass", [x], name="other"))
    graph.result(passed.output)
    return graph


def test_a_pattern_takes_in_a_control_edge():
    mapping = between(PASS, CHECKED, CHECKS)
    made = there(checked(), mapping).graph
    assert sorted(op.type for op in made) == ["check", "pass_"]
    assert [op.type for op in made["pass"].control_inputs] == ["check"]
    again = back(made, mapping).graph
    assert [op.type for op in again["pass"].control_inputs] == ["Check"]
    assert [v.name for op in again for v in op.inputs] == ["c", "x"]


def test_what_others_wait_for_is_not_taken_in():
    mapping = between(PASS, CHECKED, CHECKS)
    gaps = mapping.conversion(checked(more=True), TO).report.gaps
    assert [gap.op for gap in gaps] == ["Check", "Pass", "Pass"]
    assert gaps[1].why == (
        "mine.rules:1: check, inside the pattern, has control edges",
    )


def test_an_edge_that_the_pattern_does_not_tell_is_no_match():
    mapping = between("Pass(Pass(x), ^Check(c))  =>  pass_(x, ^check(c))",
                      CHECKED, CHECKS)  # fmt: skip
    graph = checked()
    inner = graph["pass"]
    outer = graph.add("Pass", [inner.output], name="outer")
    graph.control(graph["check"], outer)
    graph.remove_result(0)
    graph.result(outer.output)
    gaps = mapping.conversion(graph, TO).report.gaps
    assert {gap.op for gap in gaps} == {"Check", "Pass"}
    assert "2 control edges inside the pattern, not 1" in gaps[-1].why[0]


def test_an_assertion_may_be_left_out():
    text = 'Pass(x, ^Check(_))  =>  pass_(x)  losing "the check"'
    made = there(checked(), between(text, CHECKED, CHECKS))
    assert lines(made.graph) == ["pass = pass_(g:x)"]
    assert made.report.losses == ("Pass, op 'pass': the check",)


# Which rule is first


def tried(text, type="F", **more):
    rules = RuleSet("mine", "toy/a", "toy/b")
    rules.equations(text, "f.rules", **more)
    return [rule.sides(True)[1].type for rule in rules.of_type(type, forward=True)]


def test_a_rule_waits_for_those_with_a_tag():
    assert tried("F(G(x)) => a(x)  after plain\nF(x) => b(x)  @plain") == ["b", "a"]
    assert tried("F(G(x)) => a(x)\nF(x) => b(x)  @plain") == ["a", "b"]
    assert tried(
        "F(G(H(x))) => a(x)  after second  @third\n"
        "F(G(x)) => b(x)  after first  @second\n"
        "F(x) => c(x)  @first\n"
        "F(x) => d(x)"
    ) == ["c", "b", "a", "d"]  # fmt: skip


def test_a_file_waits_for_another():
    rules = RuleSet("mine", "toy/a", "toy/b")
    rules.equations("F(x) => a(x)", "base.rules")
    rules.equations("F(G(x)) => b(x)\nF(x, k=_) => c(x)", "more.rules", after=["base"])
    found = [rule.sides(True)[1].type for rule in rules.of_type("F", forward=True)]
    assert found == ["a", "b", "c"]


def test_an_unknown_tag_is_refused():
    with pytest.raises(FormatError) as caught:
        tried("F(x) => a(x)  after fusde\nF(x) => b(x)  @fused")
    assert str(caught.value) == (
        "a rule waits for 'fusde', and no rule has this tag\n"
        "  where:    f.rules:1:1\n"
        "  to do:    did you mean 'fused'?"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("F(x) => a(x)  after one  @one", "one after one"),
        (
            "F(x) => a(x)  after two  @one\nG(x) => b(x)  after one  @two",
            "two after one after two",
        ),
        ("F(x) => a(x)  after f", "f after f"),
    ],
)
def test_rounds_are_refused(text, told):
    with pytest.raises(FormatError) as caught:
        tried(text)
    assert caught.value.message == "rules wait for each other, so none of them is first"
    assert caught.value.got == told
    assert str(caught.value.where).startswith("f.rules:")


def test_a_long_chain_of_tags_is_quickly_ordered():
    n = 3000
    text = "\n".join(f"F(x) => f{i}(x)  after t{i + 1}  @t{i}" for i in range(n))
    began = time.process_time()
    made = tried(f"{text}\nF(x) => f{n}(x)  @t{n}")
    assert made == [f"f{i}" for i in range(n, -1, -1)]
    assert time.process_time() - began < 20


# Hints


def test_hints_of_a_rule_set_need_no_rule():
    rules = RuleSet("mine", "toy/a", "toy/b")
    rules.equations("Relu(x)  <=>  relu(x)")
    mapping = RuleMapping(a_side, b_side, rules)
    graph = chain(("Relu", {"vendor_mode": 3}))
    assert mapping.conversion(graph, TO).report.gaps
    rules.hint(left=["vendor_*"])
    again = RuleMapping(a_side, b_side, rules)
    assert lines(there(graph, again).graph) == ["Relu_0 = relu(g:x)"]


# What absence means


OLD = {"Pool": Signature(("x",), {"ceil": 0}, since=10)}
POOL = {"pool": Signature(("x",), {"ceil": False, "size": None})}


@pytest.mark.parametrize(
    ("rule", "attrs", "is_taken"),
    [
        ("Pool(x, ceil=flag(c))", {}, True),
        ("Pool(x, ceil=flag(c))", {"ceil": False}, True),
        ("Pool(x, ceil=flag(c))", {"ceil": True}, False),
    ],
)
def test_what_absence_means_is_left_out(rule, attrs, is_taken):
    """On a version without the attribute, the default of the other side."""
    text = rule.replace("flag(c)", "c") + "  <=>  pool(x, ceil=flag(c))"
    left = {"Pool": Signature(("x",))}
    graph = Graph(TO, name="g")
    graph.result(graph.add("pool", [graph.parameter(name="x")], attrs).output)
    done = between(text, left, POOL).conversion(graph, BACK)
    assert (not done.report.gaps) is is_taken
    if is_taken:
        assert [op.attrs for op in done.graph] == [{}]
    else:
        assert done.report.gaps[0].why == (
            f"mine.rules:1: Pool has no attribute ceil in {BACK}, to be 1",
        )
