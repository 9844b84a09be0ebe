"""Which rules are tried for an op: those that the ops around it leave, in order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from amanda.graph import Graph
from amanda.mapping import PlainSide, RuleMapping, RuleSet, Signature
from amanda.tensors import Tensor

HERE, THERE, OTHER = "near/a/1", "near/b/1", "near/other/1"

INPUTS = {
    "One": Signature(("x",)),
    "Two": Signature(("a", "b")),
    "Sum": Signature(("a", "b"), commutative=True),
    "Maybe": Signature(("x", "y"), optional=frozenset({"y"})),
    "Parts": Signature(("x",), outputs=2),
    "Join": Signature(("xs",), variadic="xs"),
}
KNOWN = INPUTS | {f"other.{type}": known for type, known in INPUTS.items()}
MADE = {"made": Signature(("x",)), "all": Signature(("xs",), variadic="xs")}


class Domains(PlainSide):
    """A side with ops of two namespaces, as ONNX has domains."""

    def type_of(self, op):
        return f"other.{op.type}" if op.own_namespace == OTHER else None


def mapping(*texts):
    rules = RuleSet("near", "near/a", "near/b")
    for text in texts:
        rules.equations(text)
    return RuleMapping(Domains(HERE, KNOWN.get), PlainSide(THERE, MADE.get), rules)


def choice(texts, type):
    return mapping(*texts).program(HERE, THERE).candidates(type)


@st.composite
def terms(draw, depth=3):
    """A pattern: ops inside ops, anything else where they end."""
    type = draw(st.sampled_from(sorted(KNOWN)))
    signature = KNOWN[type]
    parts = [
        draw(terms(depth - 1)) if depth and draw(st.booleans()) else "_"
        for _ in range(2 if signature.variadic else len(signature.inputs))
    ]
    if depth and draw(st.integers(0, 4)) == 0:
        parts.append(f"^{draw(terms(depth - 1)).removesuffix('[1]')}")
    at = draw(st.integers(0, 1)) if signature.outputs == 2 else 0
    return f"{type}({', '.join(parts)})" + ("[1]" if at else "")


@st.composite
def graphs(draw):
    graph = Graph(HERE)
    values = [graph.parameter(name="x"), graph.constant(Tensor.of(1.0)).output]
    ops = []
    for _ in range(draw(st.integers(3, 12))):
        type = draw(st.sampled_from(sorted(INPUTS)))
        known = INPUTS[type]
        count = draw(st.integers(0, 4)) if known.variadic else len(known.inputs)
        inputs = [draw(st.sampled_from(values[-6:])) for _ in range(count)]
        if type == "Maybe" and draw(st.booleans()):
            inputs[1] = None
        space = OTHER if draw(st.integers(0, 2)) == 0 else None
        outputs = known.outputs or 1
        op = graph.add(type, inputs, outputs=outputs, namespace=space)
        if ops and draw(st.integers(0, 3)) == 0:
            graph.control(draw(st.sampled_from(ops)), op)
        ops.append(op)
        values += op.outputs
    return graph, ops


def called(op):
    return f"other.{op.type}" if op.own_namespace == OTHER else op.type


@st.composite
def seen(draw, op, depth=4):
    """A pattern as the ops behind an op have it."""
    parts = []
    for value in op.inputs:
        deep = value is not None and value.op.type in INPUTS and depth
        if deep and draw(st.integers(0, 2)):
            at = f"[{value.index}]" if value.index else ""
            parts.append(draw(seen(value.op, depth - 1)) + at)
        else:
            parts.append("_")
    if op.type == "Sum" and draw(st.booleans()):
        parts.reverse()
    waits = [f"^{draw(seen(one, depth - 1))}" for one in op.control_inputs if depth]
    if op.type == "Join" and draw(st.booleans()):
        start = draw(st.integers(0, len(parts)))
        parts[start : draw(st.integers(start, len(parts)))] = ["*xs"]
    return f"{called(op)}({', '.join([*parts, *waits])})"


@st.composite
def cases(draw):
    """A graph, and rules of which some take ops of it."""
    graph, ops = draw(graphs())
    some = st.one_of(terms(), *(seen(op) for op in ops))
    texts = draw(st.lists(some, min_size=1, max_size=8, unique=True))
    rules = []
    for text in texts:
        made = "all(*xs)" if "*xs" in text else "made(1.0)"
        rules.append(f"{text.removesuffix('[1]')}  =>  {made}")
    return rules, graph, ops


def taking(ways, op):
    return [rule for rule in ways if rule.match(op, [None] * rule.width, []) is None]


@settings(max_examples=examples(60), deadline=None)
@given(cases())
def test_what_is_not_tried_would_not_have_matched(case):
    texts, _, ops = case
    program = mapping(*texts).program(HERE, THERE)
    for op in ops:
        found = program.candidates(called(op))
        tried, near = found.for_op(op), found.near(op)
        assert taking(tried, op) == taking(found.rules, op) == taking(near, op)
        order = {rule: i for i, rule in enumerate(found.rules)}
        for some in (tried, near):
            assert [order[rule] for rule in some] == sorted(
                order[rule] for rule in some
            )


FITTING = {
    "an input": ("Two(_, One(_))", "Two(_, One(x))"),
    "the other order": ("Sum(One(_), Join(_))", "Sum(Join(x), One(x))"),
    "behind an input": ("One(Two(_, Sum(_, One(_))))", "One(Two(x, Sum(x, One(x))))"),
    "another namespace": ("One(other.One(_))", "One(other.One(x))"),
    "far behind an input": (
        "One(One(One(One(One(Maybe(_, _))))))",
        "One(One(One(One(One(Maybe(x, x))))))",
    ),
}


def built(text, graph):
    """An op, and what it reads, as a pattern writes them."""
    head, _, inside = text.partition("(")
    if not inside:
        return graph.parameters[0]
    parts, depth, part = [], 0, ""
    for sign in inside[:-1]:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            parts.append(part)
            part = ""
        else:
            part += sign
    inputs = [built(one.strip(), graph) for one in [*parts, part]]
    space, _, type = head.rpartition(".")
    return graph.add(type, inputs, namespace=OTHER if space else None).output


@pytest.mark.parametrize("case", FITTING)
def test_patterns_are_found_among_many(case):
    """The others stand around the same op, and want what is not there."""
    pattern, text = FITTING[case]
    root = pattern.partition("(")[0]
    first = {"One": "{}", "Two": "{}, _", "Sum": "{}, _"}[root]
    middle = (
        "Parts(_)",
        "Maybe(Join(_), _)",
        "other.Parts(_)",
        "other.Join(Two(_, _))",
    )
    others = [f"{root}({first.format(one)})  =>  made(1.0)" for one in middle]
    graph = Graph(HERE)
    graph.parameter(name="x")
    op = built(text, graph).op
    found = choice([*others, f"{pattern}  =>  made(1.0)"], root)
    assert len(found.rules) == len(others) + 1
    [rule] = found.for_op(op)
    assert rule.text.startswith(pattern)


def test_an_op_before_another_by_a_control_edge():
    text = "One(_, ^Join(_))  =>  made(1.0)"
    found = choice([text, "One(_, ^Two(_, _))  =>  made(2.0)"], "One")
    graph = Graph(HERE)
    x = graph.parameter(name="x")
    first, op = graph.add("Join", [x]), graph.add("One", [x])
    assert not found.for_op(op)
    graph.control(first, op)
    [rule] = found.for_op(op)
    assert rule.text == text


def test_a_pattern_over_ops_of_two_namespaces_is_taken():
    graph = Graph(HERE)
    x = graph.parameter(name="x")
    inner = graph.add("One", [x], namespace=OTHER, name="inner").output
    graph.result(graph.add("Two", [inner, x], name="outer").output)
    done = mapping(
        "Two(other.One(x), x)  =>  made(x)", "Two(One(x), x)  =>  all(x)"
    ).conversion(graph, THERE)
    assert not done.report.gaps
    assert Counter(op.type for op in done.graph) == {"made": 1}
    assert sorted(done.graph["outer"].provenance.sources) == ["inner", "outer"]


def test_a_gap_tells_what_came_near_though_it_was_not_tried():
    """Its first op stands there, the one behind that does not."""
    graph = Graph(HERE)
    x = graph.parameter(name="x")
    one = graph.add("One", [x], name="one").output
    graph.result(graph.add("Two", [one, x], name="two").output)
    done = mapping(
        "Two(One(Join(_)), _)  =>  made(1.0)",
        "Two(Join(_), _)  =>  made(1.0)",
        "One(x)  =>  made(x)",
    ).conversion(graph, THERE)
    [gap] = done.report.gaps
    assert gap.nearest == "Two(One(Join(_)), _)  =>  made(1.0)"
    assert len(gap.why) == 1


@pytest.mark.parametrize("count", [1, 2, 4])
def test_what_stands_behind_the_rest_has_no_place_of_its_own(count):
    found = choice(["Join(*xs, One(_))  =>  all(*xs)"], "Join")
    graph = Graph(HERE)
    x = graph.parameter(name="x")
    one = graph.add("One", [x]).output
    op = graph.add("Join", [x] * (count - 1) + [one])
    assert taking(found.for_op(op), op) == list(found.rules)


@pytest.mark.parametrize("count", [2, 40])
def test_places_before_the_rest_are_told_apart(count):
    texts = [
        f"Join({first}One(_), *xs)  =>  all(*xs)" for first in ("", "_, ", "_, _, ")
    ]
    found = choice(texts, "Join")
    graph = Graph(HERE)
    x = graph.parameter(name="x")
    op = graph.add("Join", [x, graph.add("One", [x]).output, *[x] * count])
    assert [rule.text for rule in found.for_op(op)] == [texts[1]]
    assert taking(found.for_op(op), op) == list(found.for_op(op))
