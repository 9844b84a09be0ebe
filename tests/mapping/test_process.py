"""One op on its own, values of foreign types, contexts, and what was kept before."""

from __future__ import annotations

from fractions import Fraction

import pytest
from mapping.toys import TEXT, TO, a_side, b_side, chain, lines, there, toys

from amanda.errors import ConversionError, UsageError
from amanda.graph import Graph
from amanda.mapping import Process, RuleMapping, RuleSet, adapter
from amanda.mapping.engine.adapters import convert_value, remove_adapter
from amanda.tensors import Tensor

HERE = "toy/a/13"


def applied(process, graph, name):
    """An op of a graph, mapped alone into a new one."""
    op = graph[name]
    made = Graph(process.target, name="m")
    inputs = dict.fromkeys(op.inputs)
    values = {v: made.parameter(v.type, name=v.name) for v in inputs}
    for port in process(op, made, values):
        made.result(port)
    assert made.check() == []
    return made


def test_a_process_maps_one_op():
    process = Process.of(toys(), "Softmax", HERE, TO)
    graph = chain(("Softmax", {"axis": -1}), ("Relu", {}))
    made = applied(process, graph, "Softmax_0")
    assert lines(made) == ["soft(m:x) {'axes': [-1]}"]
    back = process.reverse()
    assert str(back) == f"soft: {TO} -> {HERE}"
    [op] = made
    made.rename(op, "s")
    assert lines(applied(back, made, "s")) == ["Softmax(m:x)"]


def test_a_process_is_saved_and_loaded():
    process = Process.of(toys(), "Softmax", HERE, TO)
    assert len(process.rules.rows) == 2
    read = Process.loads(process.dumps(), toys(), "Softmax", HERE, TO)
    assert [r.full_text for r in read.rules.rows] == [
        r.full_text for r in process.rules.rows
    ]
    graph = chain(("Softmax", {"axis": 0}))
    assert lines(applied(read, graph, "Softmax_0")) == ["soft(m:x) {'axes': [0]}"]
    made = Process.loads(
        Process.of(toys(), "Gemm", HERE, TO).dumps(), toys(), "Gemm", HERE, TO
    )
    graph = chain(("Gemm", {}))
    graph["Gemm_0"].add_input(graph.parameters[0])
    assert lines(applied(made, graph, "Gemm_0")) == ["dot(m:x, m:x)"]


def test_a_process_tells_why_it_takes_an_op_not():
    process = Process.of(toys(), "Conv", HERE, TO)
    graph = chain(("Conv", {"auto": "SAME"}))
    with pytest.raises(ConversionError) as caught:
        applied(process, graph, "Conv_0")
    assert caught.value.problems == (
        "toys.rules:10: auto: 'SAME' is not 'NOTSET'",
    ) or list(caught.value.problems) == ["toys.rules:10: auto: 'SAME' is not 'NOTSET'"]
    with pytest.raises(ConversionError, match="toys has no rule for Odd"):
        Process.of(toys(), "Odd", HERE, TO)
    one_way = Process.of(toys("Relu(x)  =>  relu(x)"), "Relu", HERE, TO)
    with pytest.raises(
        ConversionError, match="no rule for Relu runs in the opposite direction"
    ):
        one_way.reverse()


def test_a_mapping_says_what_it_takes():
    graph = chain(("Relu", {}), ("Conv", {"auto": "SAME"}))
    mapping = toys()
    assert mapping.takes(graph["Relu_0"], TO) is True
    assert mapping.takes(graph["Conv_1"], TO) == (
        "toys.rules:10: auto: 'SAME' is not 'NOTSET'"
    )


# Values of foreign types


@pytest.fixture
def fractions():
    @adapter(Fraction)
    def as_float(value):
        return float(value)

    yield
    remove_adapter(Fraction)


class Half(Fraction):
    """A type under one that there is an adapter for."""


def halving(value):
    rules = RuleSet("mine", "toy/a", "toy/b")

    @rules.read("Relu")
    def relu(o, x):
        return o.soft(x, axes=value)

    return RuleMapping(a_side, b_side, rules)


@pytest.mark.parametrize("value", [Fraction(1, 2), [Half(1, 2), 1]])
def test_an_adapter_says_what_a_value_is(fractions, value):
    made = there(chain(("Relu", {})), halving(value)).graph
    assert made["Relu_0"].attrs["axes"] in (0.5, [0.5, 1])


def test_without_an_adapter_it_is_told():
    with pytest.raises(UsageError) as caught:
        convert_value({"k": (1, Fraction(1, 2))})
    assert str(caught.value) == (
        "a graph cannot hold a value of type fractions.Fraction\n"
        "  expected: numbers, strings, lists of these, Tensors, types\n"
        "  to do:    declare an adapter: @amanda.mapping.adapter(Fraction)"
    )
    gap = halving(Fraction(1, 3)).conversion(chain(("Relu", {})), TO).report.gaps[0]
    assert "a graph cannot hold a value of type fractions.Fraction" in gap.why[0]


def test_there_is_one_adapter_for_a_type(fractions):
    with pytest.raises(UsageError, match="there is an adapter for Fraction already"):
        adapter(Fraction)(float)


# What functions know


def test_the_context_of_a_function():
    rules = RuleSet("mine", "toy/a", "toy/b")
    seen = {}

    @rules.read("Add")
    def add(o, a, b, *, context):
        seen["version"] = (o.version, context.version)
        seen["content"] = (o.content(a), o.content(b))
        seen["type"] = str(o.type(a))
        seen["graph"] = context.source_graph
        return o.plus(a, b)

    graph = chain(("Relu", {}), namespace=HERE)
    rules.equations("Relu(x) => relu(x)")
    two = graph.constant(Tensor.of([2.0, 3.0], "float32")).output
    op = graph.add("Add", [graph["Relu_0"].output, two], name="add")
    graph.result(op.output)
    there(graph, RuleMapping(a_side, b_side, rules))
    assert seen["version"] == ("1", "1")
    assert seen["content"] == (None, [2.0, 3.0])
    assert seen["type"] == "float32[2, 3]"
    assert seen["graph"] is graph


# What an earlier conversion kept


def test_a_later_mapping_takes_what_was_kept():
    graph = chain(("Relu", {}), ("Drop", {"ratio": 0.1}), ("Relu", {}))
    body = Graph(outer=graph)
    body.result(body.add("Drop", [graph.parameters[0]], name="inner").output)
    other = Graph(outer=graph)
    other.result(graph.parameters[0])
    op = graph.add("If", [graph.parameters[0]], name="if",
                   bodies={"then": body, "else": other})  # fmt: skip
    graph.result(op.output)
    x = graph.parameters[0]
    graph.result(graph.add("Strange", [x], name="s", namespace="toy/z/1").output)
    kept = there(graph, keep_foreign=True).graph
    own = {op.name: op.own_namespace for op in kept.walk()}
    assert own == {
        "Relu_0": None, "Drop_1": HERE, "Relu_2": None, "if": None, "inner": HERE,
        "s": "toy/z/1",
    }  # fmt: skip
    later = toys(TEXT + "    Drop(x, ratio=_)  =>  same(x)\n")
    done = later.conversion(kept, TO)
    assert not done.report.gaps
    assert done.graph.check() == []
    made = {op.name: (op.type, op.own_namespace) for op in done.graph.walk()}
    assert made["Drop_1"] == made["inner"] == ("same", None)
    assert made["s"] == ("Strange", "toy/z/1")
    assert [op.type for op in kept.walk()].count("Drop") == 2  # as it was
    still = toys().conversion(kept, TO)
    assert [gap.op for gap in still.report.gaps] == ["Drop", "Drop"]
    whole = there(chain(("Relu", {}))).graph
    assert toys().conversion(whole, TO).graph.same_as(whole)
