"""Gaps, foreign ops, reports, and steps between versions of one framework."""

from __future__ import annotations

import pytest
from mapping.toys import TEXT, TO, a_side, b_side, chain, lines, there, toys

import amanda
from amanda.errors import ConversionError, PluginBrokenError
from amanda.graph import Graph
from amanda.host import Host
from amanda.mapping import PlainSide, RuleMapping, RuleSet, Signature
from amanda.mapping.rules.checks import unread_inputs
from amanda.types import parse_type

# Gaps


def strangers():
    graph = Graph("toy/a/13", name="g")
    x = graph.parameter(name="x")
    odd = graph.add("Odd", [x], {"k": 1}, name="odd").output
    after = graph.add("Relu", [odd], name="after").output
    bodies = {"then": Graph(outer=graph), "else": Graph(outer=graph)}
    value = bodies["then"].add("Rellu", [after]).output
    bodies["then"].result(bodies["then"].add("Relu", [value], name="late").output)
    bodies["else"].result(after)
    graph.result(graph.add("If", [x], name="if", bodies=bodies).output, "y")
    deep = Graph(outer=graph)
    deep.result(deep.add("Odd", [x], name="deep").output)
    graph.add("Odd", [x], name="third", bodies={"in": deep})
    return graph


GAPS = """\
4 ops have no mapping from toy/a/13 to toy/b/1
  to do:    map them by rules of your own, or keep them: keep_foreign=True
  - Odd, op 'odd': no rule maps it
  - Rellu, op #0 in the body 'then' of 'if': no rule maps it \
(nearest: Relu(x)  <=>  relu(x))
  - Odd, op 'deep' in the body 'in' of 'third': no rule maps it
  - Odd, op 'third': no rule maps it"""


def test_all_gaps_are_told_at_once():
    with pytest.raises(ConversionError) as caught:
        toys().apply(strangers(), TO, keep_foreign=False, gap_met=lambda **_: None)
    assert str(caught.value) == GAPS
    stubs = [gap.stub for gap in caught.value.gaps]
    assert stubs[0] == "Odd(x0, k=k)  <=>  ...(x0, k=k)"


def test_a_stub_is_made_of_the_signature():
    graph = chain(("Drop", {}), ("Concat", {"axis": 0}))
    mapping = toys(TEXT.replace("Concat(*xs", "Concat[:3](*xs"))
    drop, concat = there(graph, mapping).report.gaps[0], None
    assert drop.stub == "Drop(x, ratio=ratio)  <=>  ...(x, ratio=ratio)"
    concat = there(chain(("Concat", {"axis": 0})), toys("Relu(x) <=> relu(x)"))
    [gap] = concat.report.gaps
    assert gap.stub == "Concat(*xs, axis=axis)  <=>  ...(*xs, axis=axis)"


def test_versions_and_targets_that_do_not_fit_are_told():
    text = "Softmax[:12](x, axis=_) => soft(x, axes=[0])\nRelu(x) <=> swish(x)"
    done = there(chain(("Softmax", {}), ("Relu", {})), toys(text))
    assert [gap.why for gap in done.report.gaps] == [
        (
            "toys.rules:1: toy/a/13 has Softmax as of version 13, "
            "the rule is for Softmax[:12]",
        ),
        ("toys.rules:2: toy/b/1 has no op swish",),
    ]


def test_attributes_that_the_target_does_not_have():
    text = "Softmax(x, axis=a) => relu(x, axis=a)"
    done = there(chain(("Softmax", {"axis": 2})), toys(text))
    assert done.report.gaps[0].why == (
        "toys.rules:1: relu has no attribute axis in toy/b/1, to be 2",
    )


@pytest.mark.parametrize("held", ["as a body", "as an op"])
def test_what_comes_out_of_a_graph_with_a_gap_is_no_gap(held):
    graph = Graph("toy/a/12", name="g")
    x = graph.parameter(parse_type("float32[2, 3]"), name="x")
    inner = Graph(name="inner") if held == "as an op" else Graph(outer=graph)
    inner.result(inner.add("Odd", [inner.parameter() if not inner.outer else x]).output)
    if held == "as an op":
        graph.add_graph(inner, [x])
        value = inner.output
    else:
        other = Graph(outer=graph)
        other.result(other.add("Relu", [x]).output)
        bodies = {"then": inner, "else": other}
        value = graph.add("If", [x], bodies=bodies).output
    soft = graph.add("Softmax", [value], {"axis": 1}, name="soft")  # asks the rank
    graph.result(soft.output)
    report = there(graph).report
    assert [gap.op for gap in report.gaps] == ["Odd"]


def test_foreign_ops_are_kept_whole():
    graph = strangers()
    mapping = toys()
    done = there(graph, mapping, keep_foreign=True)
    kept = {
        op.name: op.namespace for op in done.graph.walk() if op.type in ("Odd", "Rellu")
    }
    assert kept == dict.fromkeys(("odd", None, "third", "deep"), "toy/a/13")
    assert done.report.kept == 3
    assert [gap.op for gap in done.report.gaps] == ["Odd", "Rellu", "Odd"]
    assert done.graph["odd"].attrs == {"k": 1}
    assert done.graph["after"].type == "relu"
    assert lines(done.graph["third"].bodies["in"]) == ["deep = Odd(g:x)"]
    again = mapping.conversion(done.graph, "toy/a/13")
    assert not again.report.gaps
    assert again.graph["odd"].own_namespace is None
    assert lines(again.graph) == lines(graph)
    other = mapping.conversion(done.graph, "toy/a/12").report
    assert all(gap.foreign for gap in other.gaps)
    assert other.gaps[0].why == ("it is of toy/a/13",)


def test_what_was_kept_is_mapped_later():
    """`convert` to where a graph is: a mapping that can now takes what was kept."""

    def host(text):
        made = Host(())
        manifest = {"from": "toy/a/1..", "to": TO}
        made.register_mapping("toys", toys(text), manifest=manifest)
        return made

    graph = chain(("Relu", {}), ("Identity", {}), ("Relu", {}))
    less = host("Identity(x) <=> same(x)")
    kept = amanda.convert(graph, TO, keep_foreign=True, host=less)
    assert [op.type for op in kept] == ["Relu", "same", "Relu"]
    as_it_is = amanda.convert(kept, TO, host=less)
    assert as_it_is.same_as(kept)
    more = host("Relu(x) <=> relu(x)")
    assert str(amanda.plan(kept, TO, host=more).route) == (
        "toy/b/1 -> toy/b/1 (by toys)"
    )
    done = amanda.convert(kept, TO, host=more)
    assert [op.type for op in done] == ["relu", "same", "relu"]
    assert amanda.plan(done, TO, host=more).steps == ()


def test_a_listener_fills_gaps():
    def fill(op, why, build, inputs):
        if op.type == "Odd":
            return [build.add("relu", inputs).output]
        return None

    done = there(strangers(), gap_met=fill)
    assert [gap.op for gap in done.report.gaps] == ["Rellu"]
    assert done.report.filled == 3
    with pytest.raises(PluginBrokenError, match="filled op 'odd' with too many"):
        there(strangers(), gap_met=lambda **_: [])


def test_the_graph_is_left_as_it_was():
    for graph in (strangers(), chain(("relu", {}), namespace="toy/b/1")):
        copy = graph.clone()
        to = {"toy/a/13": TO, "toy/b/1": "toy/a/13"}[graph.namespace]
        toys().conversion(graph, to, keep_foreign=True)
        assert graph.difference(copy) is None
        assert graph.check() == []


def test_a_mapping_says_between_what_it_maps():
    with pytest.raises(ConversionError) as caught:
        toys().conversion(Graph("toy/c/1"), TO)
    assert str(caught.value) == (
        "toys does not map from toy/c/1 to toy/b/1\n"
        "  expected: a graph of toy/a or toy/b, to the other"
    )


def test_the_report_counts_and_traces():
    graph = chain(("Relu", {}), ("Relu", {}), ("Softmax", {}))
    report = there(graph, trace=True).report
    assert str(report) == "toy/a/13 -> toy/b/1: 3 mapped"
    assert report.rules == {"toys.rules:2": 2, "toys.rules:6": 1}
    assert report.trace[2] == ("Softmax", "Softmax_2", "toys.rules:6")


# Versions of one framework


STEPS = """
    Relu(x)                  <=>  Relu(x)
    Softmax[:12](x, axis=a)   =>  Softmax[13:](x, axis=a)  if rank(x) == 2
    Softmax[13:](x, axis=a)   =>  Softmax[:12](x, axis=a)  if a == -1
    Sum[:12](x, axes=a, keep=k)  <=>  Sum[13:](x, a, keep=k)
    Clip[:10](x, lo=l, hi=h)  <=>  Clip[11:](x, l, h)
    Drop[1:](x, ratio=_)      =>  Identity(x)  losing "the ratio"
"""


def steps():
    rules = RuleSet("steps", "toy/a", "toy/a")
    rules.equations(STEPS)
    return RuleMapping(a_side, a_side, rules)


def test_up_and_down():
    graph = chain(("Sum", {"axes": [1]}), ("Add", {}), namespace="toy/a/9")
    graph["Add_1"].add_input(graph.parameters[0])
    mapping = steps()
    up = mapping.conversion(graph, "toy/a/18")
    assert not up.report.gaps
    assert [op.type for op in up.graph] == ["constant", "Sum", "Add"]
    down = mapping.conversion(up.graph, "toy/a/9")
    assert not down.report.gaps
    assert lines(down.graph) == lines(graph)
    assert down.graph.namespace == "toy/a/9"


def test_losses_are_declared():
    graph = chain(("Drop", {"ratio": 0.1}), namespace="toy/a/12")
    report = steps().conversion(graph, "toy/a/13").report
    assert report.losses == ("Drop, op 'Drop_0': the ratio",)


def test_an_op_that_changed_needs_a_rule():
    graph = chain(("Softmax", {}), namespace="toy/a/9", type="float32[1, 2, 3]")
    [gap] = steps().conversion(graph, "toy/a/18").report.gaps
    assert gap.why[0] == "steps:3: not rank(x) == 2"


# Any two sides


def test_sides_may_be_given_as_they_are():
    rules = RuleSet("ab", "toy/a", "toy/b")
    rules.equations("Relu(x) <=> relu(x)")
    mapping = RuleMapping(a_side("toy/a/13"), b_side(), rules)
    assert lines(there(chain(("Relu", {})), mapping).graph) == ["Relu_0 = relu(g:x)"]


def test_the_core_knows_what_a_signature_says():
    assert Signature(("x",)).attrs == {}


def test_whether_a_rule_takes_an_op():
    program = toys().program("toy/a/12", TO)
    ops = [("Relu", {}), ("Softmax", {}), ("Conv", {"auto": "SAME"}), ("Odd", {})]
    graph = chain(*ops, namespace="toy/a/12", type=None)
    assert [program.takes(op) for op in graph] == [
        True,
        True,  # the rank is not known, so it may
        "toys.rules:10: auto: 'SAME' is not 'NOTSET'",
        "no rule is for Odd",
    ]
    op = graph.add("Odd", [], namespace="toy/z/1")
    assert program.takes(op) == "it is of toy/z/1"


def test_an_op_with_a_fault_is_told_and_no_rule_is_asked():
    """By its side, in one sentence, whatever rules there are; and it may be kept."""

    class Careful(PlainSide):
        def fault(self, op):
            even = op.attrs.get("axis", 0) % 2 == 0
            return None if even else f"axis={op.attrs['axis']}: an even one expected"

    def side(name):
        plain = a_side(name)
        return Careful(name, plain.signature)

    rules = RuleSet("toys", "toy/a", "toy/b")
    rules.equations("Softmax(x, axis=_) => relu(x)\nRelu(x) <=> relu(x)")
    mapping = RuleMapping(side, b_side, rules)
    graph = chain(("Softmax", {"axis": 3}), ("Softmax", {"axis": 2}), ("Relu", {}))
    done = mapping.conversion(graph, TO)
    assert [str(gap) for gap in done.report.gaps] == [
        "Softmax, op 'Softmax_0': toy/a/13: axis=3: an even one expected"
    ]
    odd, even = [op for op in graph if op.type == "Softmax"]
    program = mapping.program("toy/a/13", TO)
    assert program.takes(odd) == "axis=3: an even one expected"
    assert program.takes(even) is True
    kept = mapping.conversion(graph, TO, keep_foreign=True)
    assert [op.type for op in kept.graph] == ["Softmax", "relu", "relu"]


# What functions do not look at


def test_attributes_that_a_function_takes_and_does_not_look_at():
    rules = RuleSet("toys", "toy/a", "toy/b")

    @rules.read("Op")
    def named(o, x, *, used, idle, deleted, inner, count=1, outputs=1):
        del deleted
        return [o.relu(x, used=used, order=(lambda: inner)(), count=count)] * outputs

    @rules.read("Op")
    def all_of_them(o, x, **told):
        return o.relu(x)

    @rules.read("Op")
    def handed_on(o, x, *, used, **told):
        return o.relu(x, **told)

    signature = Signature(
        ("x",), dict.fromkeys(("used", "idle", "deleted", "inner", "count", "more"))
    )
    assert [sorted(unread_inputs(f, signature)) for f in rules.functions] == [
        ["deleted", "idle"],
        ["count", "deleted", "idle", "inner", "more", "used"],
        ["used"],
    ]
