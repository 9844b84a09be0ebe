"""The engine on toy namespaces: what is mapped, carried, kept and told."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from mapping.toys import TEXT, a_side, b_side, chain, lines, there, toys

from amanda.graph import Graph
from amanda.mapping import Decline, PlainSide, RuleMapping, RuleSet
from amanda.tensors import Tensor
from amanda.types import parse_type


def both_ways(graph, mapping=None):
    """Through b and back; what b had, and the graph that came back."""
    mapping = mapping or toys()
    over = there(graph, mapping)
    assert not over.report.gaps, over.report.gaps
    back = mapping.conversion(over.graph, graph.namespace)
    assert not back.report.gaps, back.report.gaps
    assert back.graph.check() == []
    assert lines(back.graph) == lines(graph)
    return lines(over.graph)


ROWS = {
    "plain": ([("Relu", {})], ["Relu_0 = relu(g:x)"]),
    "default": ([("Softmax", {})], ["Softmax_0 = soft(g:x) {'axes': [-1]}"]),
    "lens": (
        [("Sum", {"keep": 0})],
        ["Sum_0 = total(g:x) {'keep': False}"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
def test_rows_run_both_ways(case):
    ops, expected = ROWS[case]
    assert both_ways(chain(*ops)) == expected


def test_a_row_with_everything():
    graph = Graph("toy/a/13")
    x, w = (graph.parameter(name=n) for n in "xw")
    attrs = {"pads": [1, 2, 3, 4], "strides": [2, 2], "group": 2}
    graph.result(graph.add("Conv", [x, w], attrs, name="c").output)
    assert both_ways(graph) == [
        "c = conv(graph:x, graph:w) "
        "{'padding': [[1, 3], [2, 4]], 'steps': [2, 2], 'groups': 2}"
    ]


def test_versions_choose_the_row():
    old = chain(("Softmax", {}), namespace="toy/a/12", type="float32[2, 3, 4]")
    assert lines(there(old).graph) == ["Softmax_0 = soft(g:x) {'axes': [1, 2]}"]
    new = chain(("Softmax", {}), namespace="toy/a/13", type="float32[2, 3, 4]")
    assert lines(there(new).graph) == ["Softmax_0 = soft(g:x) {'axes': [-1]}"]


def test_context_is_asked_when_the_inputs_are_mapped():
    """The value between has no type in a, but b infers one."""
    graph = chain(("Relu", {}), ("Softmax", {}), namespace="toy/a/12")
    assert lines(there(graph).graph)[1] == "Softmax_1 = soft(Relu_0:0) {'axes': [1]}"


def test_attributes_become_inputs_and_back():
    mapping = toys()
    graph = chain(("Clip", {"lo": 0.0, "hi": 6.0}), namespace="toy/a/10")
    over = there(graph, mapping).graph
    clip = over["Clip_0"]
    held = [value.op.attrs["value"].item() for value in clip.inputs[1:]]
    assert held == [0.0, 6.0]
    assert str(clip.inputs[1].type) == "float32[]"
    back = mapping.conversion(over, "toy/a/10").graph
    assert lines(back) == lines(graph)
    newer = mapping.conversion(over, "toy/a/11").graph
    assert [op.type for op in newer] == ["constant", "constant", "Clip"]


def test_inputs_that_must_be_constant_and_are_not():
    graph = Graph("toy/b/1")
    x, axes = graph.parameter(name="x"), graph.parameter(name="axes")
    graph.result(graph.add("total", [x, axes], name="t").output)
    mapping = toys()
    assert lines(mapping.conversion(graph, "toy/a/13").graph) == [
        "t = Sum(graph:x, graph:axes)"
    ]
    report = mapping.conversion(graph, "toy/a/12").report
    [gap] = report.gaps
    assert gap.why[0] == "toys.rules:8: graph:axes is not constant"


def test_variadic_and_many_outputs():
    graph = Graph("toy/a/13")
    x = graph.parameter(name="x")
    split = graph.add("Split", [x], {"axis": 1}, name="s", outputs=3)
    graph.result(graph.add("Concat", split.outputs, {"axis": 1}, name="j").output)
    assert both_ways(graph) == [
        "s = parts(graph:x) {'axis': 1}",
        "j = join(s:0, s:1, s:2) {'axis': 1}",
    ]


def test_what_no_side_names_must_be_default():
    report = there(chain(("Conv", {"dilation": 2}))).report
    [gap] = report.gaps
    assert gap.why == ("toys.rules:10: the attribute dilation=2 is not covered",)
    assert gap.nearest is not None
    assert gap.nearest.startswith("Conv(x, w, b, pads=p")
    hinted = chain(("Conv", {"cudnn": True, "_class": ["loc"]}))
    assert not there(hinted).report.gaps
    wrong = chain(("Conv", {"auto": "SAME"}))
    assert there(wrong).report.gaps[0].why == (
        "toys.rules:10: auto: 'SAME' is not 'NOTSET'",
    )
    more = chain(("Relu", {}))
    more["Relu_0"].add_input(more.parameters[0])
    assert there(more).report.gaps[0].why == ("toys.rules:2: input 1 is not covered",)


# Patterns


def gemm_like(swap=False, type="float32[2, 2]"):
    graph = Graph("toy/b/1")
    a, b, c = (graph.parameter(parse_type(type), name=n) for n in "abc")
    if swap:
        b = graph.add("swap", [b], {"order": [1, 0]}, name="t").output
    dot = graph.add("dot", [a, b], name="d").output
    dot.type = parse_type(type)
    graph.result(graph.add("plus", [dot, c], name="p").output, "y")
    return graph


def back(graph, mapping=None, **options):
    done = (mapping or toys()).conversion(graph, "toy/a/13", **options)
    assert done.graph.check() == []
    return done


def test_the_biggest_pattern_wins():
    assert lines(back(gemm_like()).graph) == ["p = Gemm(graph:a, graph:b, graph:c)"]
    done = back(gemm_like(swap=True))
    assert lines(done.graph) == ["p = Gemm(graph:a, graph:b, graph:c) {'transB': 1}"]
    [op] = done.graph
    assert op.provenance.sources == ("p", "d", "t")
    assert op.provenance.by == "toys.rules:20"


def test_a_guard_that_says_no_leaves_the_parts():
    text = TEXT + "\n    Mul(a, b)  <=  dot(a, b)"
    done = back(gemm_like(type="float32[2, 2, 2]"), toys(text))
    assert lines(done.graph) == [
        "d = Mul(graph:a, graph:b)",
        "p = Add(d:0, graph:c)",
    ]


def test_a_guard_that_only_mapping_decides():
    """No types in the graph that is matched: both are candidates until types come."""
    text = """
        Mul(a, b)     <=  times(a, b)
        Relu(x)       <=  relu(x)
        Gemm(a, b)    <=  times(relu(a), b)  if rank(a) == 2
        Add(a, b)     <=  times(relu(a), b)  if rank(a) == 3
    """
    for type, expected in {
        "float32[2, 2]": ["m = Gemm(graph:x, graph:x)"],
        "float32[2, 2, 2]": ["m = Add(graph:x, graph:x)"],
        "float32[2]": ["r = Relu(graph:x)", "m = Mul(r:0, graph:x)"],
        None: ["r = Relu(graph:x)", "m = Mul(r:0, graph:x)"],
    }.items():
        graph = Graph("toy/b/1")
        x = graph.parameter(parse_type(type) if type else None, name="x")
        relu = graph.add("relu", [x], name="r").output
        graph.result(graph.add("times", [relu, x], name="m").output)
        assert lines(back(graph, toys(text)).graph) == expected


def test_candidates_within_candidates():
    """Undecided patterns over each other; no rule but those for single ops holds."""
    text = """
        Relu(x)  <=  relu(x)
        Identity(x)  <=  relu(relu(x))  if rank(x) == 7
    """
    graph = Graph("toy/b/1")
    value = graph.parameter(name="x")
    n = 3 * sys.getrecursionlimit()
    for _ in range(n):
        value = graph.add("relu", [value]).output
    graph.result(value)
    done = back(graph, toys(text))
    assert len(done.graph) == n
    assert done.report.rules == {"toys.rules:2": n}


BUSY = {
    "used elsewhere": lambda graph, dot: graph.result(dot),
    "marked": lambda graph, dot: dot.mark("keep"),
    "in an entry": lambda graph, dot: graph.set_entry("e", {}, {"d": dot}),
    "waited for": lambda graph, dot: graph.control(
        dot.op, graph.add("relu", [graph.parameters[0]])
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BUSY)
def test_what_a_pattern_takes_in_must_not_be_needed(case):
    graph = gemm_like()
    BUSY[case](graph, graph["d"].output)
    [gap] = back(graph).report.gaps
    assert gap.op == "dot"


def test_a_value_that_a_body_reads_is_needed():
    graph = gemm_like()
    bodies = {}
    for key in ("yes", "no"):
        bodies[key] = Graph(outer=graph)
        bodies[key].result(graph["d"].output)
    op = graph.add("choose", [graph.parameters[0]], bodies=bodies)
    graph.result(op.output)
    assert [gap.op for gap in back(graph).report.gaps] == ["dot"]


def test_equal_variables_must_be_equal():
    text = TEXT + "\n    Mul(x, x)  =>  relu(x)"
    graph = Graph("toy/a/13")
    x, y = graph.parameter(name="x"), graph.parameter(name="y")
    graph.result(graph.add("Mul", [x, x], name="square").output)
    graph.result(graph.add("Mul", [x, y], name="product").output)
    assert lines(there(graph, toys(text)).graph) == [
        "square = relu(graph:x)",
        "product = times(graph:x, graph:y)",
    ]


# Functions


def test_functions_get_inputs_attributes_and_the_builder():
    graph = Graph("toy/a/13")
    a, b, c = (graph.parameter(name=n) for n in "abc")
    graph.result(graph.add("Gemm", [a, b, c], {"transB": 1}, name="g").output, "y")
    done = there(graph)
    assert [op.type for op in done.graph] == ["swap", "dot", "plus"]
    assert done.graph["g"].type == "plus"
    assert {op.provenance for op in done.graph} == {(("g",), "toys:gemm")}
    assert done.report.rules == {"toys:gemm": 1}


def test_functions_decline_and_leave_nothing_behind():
    mapping = toys()

    @mapping.rules.read("Relu")
    def late(o, x):
        raise AssertionError("the row comes first")

    @mapping.rules.read("Drop")
    def drop(o, x, *, ratio):
        o.relu(o.relu(x))
        raise_decline("not today")

    done = there(chain(("Relu", {}), ("Drop", {"ratio": 0.1}), ("Relu", {})), mapping)
    assert [gap.why for gap in done.report.gaps] == [("toys:drop: not today",)]
    assert [op.type for op in done.graph] == ["relu"]


def raise_decline(why):
    raise Decline(why)


def test_functions_that_are_given_what_they_do_not_name():
    mapping = toys()

    @mapping.rules.read("Drop")
    def drop(o, x):
        return x

    done = there(chain(("Drop", {"ratio": 0.1})), mapping)
    assert done.report.gaps[0].why == (
        "toys:drop: the attribute ratio=0.1 is not covered",
    )
    done = there(chain(("Drop", {"ratio": 0.5}), ("Relu", {})), mapping)
    assert lines(done.graph) == ["Relu_1 = relu(g:x)"]


def test_an_output_that_is_used_must_be_given():
    mapping = toys()

    @mapping.rules.read("Drop")
    def drop(o, x):
        return o.same(x), None

    graph = Graph("toy/a/13")
    op = graph.add("Drop", [graph.parameter(name="x")], name="d", outputs=2)
    graph.result(op.outputs[0])
    assert lines(there(graph, mapping).graph) == ["d = same(graph:x)"]
    graph.result(op.outputs[1])
    done = there(graph, mapping)
    assert done.report.gaps[0].why == ("toys:drop: it does not return output 1",)
    assert len(done.graph) == 0


def test_a_function_with_a_bug_says_where():
    mapping = toys()

    @mapping.rules.read("Drop")
    def drop(o, x):
        return 1 / 0

    with pytest.raises(ZeroDivisionError) as caught:
        there(chain(("Drop", {})), mapping)
    assert caught.value.__notes__ == ["while toys:drop mapped op 'Drop_0'"]


def test_a_pattern_that_the_target_refuses_leaves_its_parts():
    """Nothing is open while covering, and building the pattern's op declines."""

    class Refusing(PlainSide):
        def build(self, graph, type, args, attrs, **more):
            if type == "Gemm":
                super().build(graph, "Relu", args[:1], {})
                raise Decline("no Gemm today")
            return super().build(graph, type, args, attrs, **more)

    fused, *parts = (
        "Gemm(a, b, c)  <=  plus(dot(a, b), c)\n",
        "Add(a, b)  <=  plus(a, b)\n",
        "Mul(a, b)  <=  dot(a, b)\n",
    )
    side = Refusing("toy/a/13", a_side("toy/a/13").signature)
    for known, expected in ((parts, []), (parts[:1], ["dot"])):
        rules = RuleSet("toys", "toy/a", "toy/b")
        rules.equations(fused + "".join(known))
        done = back(gemm_like(), RuleMapping(side, b_side, rules))
        assert [gap.op for gap in done.report.gaps] == expected
        if not expected:
            assert lines(done.graph) == [
                "d = Mul(graph:a, graph:b)",
                "p = Add(d:0, graph:c)",
            ]


# What comes along


def test_constants_come_when_they_are_needed():
    graph = Graph("toy/a/13")
    x = graph.parameter(parse_type("float32[2, 3]"), name="x")
    tensor = Tensor.lazy(lambda: np.ones((2, 3), "float32"), "float32", (2, 3))
    weight = graph.constant(tensor, name="w")
    axes = graph.constant(Tensor.of([1], "int64"), name="axes")
    alone = graph.constant(Tensor.of([7]), name="alone")
    y = graph.add("Add", [x, weight.output], name="a").output
    graph.result(graph.add("Sum", [y, axes.output], name="s").output)
    done = there(graph)
    assert [op.name for op in done.graph] == ["w", "a", "axes", "s", "alone"]
    assert done.graph["w"].attrs["value"] is tensor
    assert alone.output.type == done.graph["alone"].output.type
    text = TEXT.replace("total(x, a, keep", "total(x, axes=reversed(a), keep")
    done = there(graph, toys(text))
    assert done.report.carried == 2  # the content of `axes` went into another constant
    assert "axes" not in done.graph


def test_everything_around_the_ops_comes_along():
    graph = chain(("Relu", {}), ("Split", {}))
    graph.attrs["producer"] = "somebody"
    graph.imports["a.b"] = 3
    x = graph.parameters[0]
    x.attrs["layout"] = "NC"
    x.mark("calibrate")
    relu = graph["Relu_0"].output
    relu.name, relu.type = "r:0", parse_type("float32[2, 3]")
    relu.attrs["scale"] = 2
    relu.mark("keep")
    graph.outputs[0].attrs["unit"] = "m"
    graph.set_entry("serve", {"in": x}, {"out": relu})
    result = there(graph).graph
    assert (result.name, result.attrs, result.imports) == (
        "g", {"producer": "somebody"}, {"a.b": 3}
    )  # fmt: skip
    assert result.parameters[0].attrs == {"layout": "NC"}
    assert result.parameters[0].marks == {"calibrate"}
    value = result["Relu_0"].output
    assert (value.name, value.attrs, value.marks) == ("r:0", {"scale": 2}, {"keep"})
    assert result.outputs[0].attrs == {"unit": "m"}
    assert result.entries["serve"].outputs["out"] is value
    assert result.outputs[0].name == "y"


def test_control_edges_come_along():
    graph = chain(("Relu", {}), ("Gemm", {"transB": 1}), ("Relu", {}))
    graph["Gemm_1"].add_input(graph.parameters[0])
    graph["Gemm_1"].add_input(graph.parameters[0])
    other = graph.add("Relu", [graph.parameters[0]], name="other")
    last = graph.add("Relu", [graph.parameters[0]], name="last")
    graph.control(other, graph["Gemm_1"], {"why": "order"})
    graph.control(graph["Gemm_1"], last)
    graph.control(graph, other)
    graph.control(last, graph)
    graph.control(graph.constant(Tensor.of([1]), name="c"), other)
    result = there(graph).graph
    edges = [repr(edge) for edge in result.control_edges]
    assert "c.^control -> other.^control" in edges
    assert "g.^control -> other.^control" in edges
    assert "last.^control -> g.^control" in edges
    assert "Gemm_1.^control -> last.^control" in edges
    assert "other.^control -> swap.^control" in edges
    assert len(edges) == 5


class WithBodyTypes(PlainSide):
    """Bodies get the type of their op's input, and later another one of rank 2."""

    def parameter_types(self, op, inputs):
        return inputs

    def wider_parameter_types(self, op, inputs, bodies):
        known = [port.type for body in bodies.values() for port in body.parameters]
        if all(type.shape.rank == 2 for type in known):
            return None
        return [parse_type("float32[?, 4]")]


def test_bodies_are_mapped_again_with_wider_types():
    plain = toys()

    def side(name):
        return WithBodyTypes(name, a_side(name).signature)

    mapping = RuleMapping(side, b_side, plain.rules)
    graph = Graph("toy/a/12")
    x = graph.parameter(parse_type("float32[2, 3, 4]"), name="x")
    bodies = {key: Graph(outer=graph, name=key) for key in ("then", "else")}
    for body in bodies.values():
        value = body.parameter(name="v")
        value = body.add("Softmax", [value], {"axis": 1}, name="soft").output
        inner = Graph(outer=body)
        inner.result(inner.add("Relu", [value], name="relu").output)
        nested = body.add("If", [value], bodies={"then": inner, "else": inner.clone()})
        body.result(nested.output)
    graph.result(graph.add("If", [x], name="if", bodies=bodies).output, "y")
    choose = there(graph, mapping).graph["if"]
    for body in choose.bodies.values():
        assert str(body.parameters[0].type) == "float32[?, 4]"
        assert body["soft"].attrs == {"axes": [1]}
        assert [op.type for op in body.walk()] == ["soft", "choose", "relu", "relu"]


def test_bodies_and_captures():
    graph = Graph("toy/a/12", name="g")
    x = graph.parameter(parse_type("float32[2, 3, 4]"), name="x")
    weight = graph.constant(Tensor.of(np.ones(3, "float32")), name="w").output
    held = graph.add("Relu", [x], name="held").output
    bodies = {}
    for key in ("then", "else"):
        bodies[key] = body = Graph(outer=graph, name=key)
        value = body.add("Add", [held, weight], name="in").output
        value = body.add("Softmax", [value], {"axis": 2}, name="soft").output
        body.result(value, f"{key}_out")
    graph.result(graph.add("If", [x], name="if", bodies=bodies).output, "y")
    result = there(graph).graph
    choose = result["if"]
    assert sorted(choose.bodies) == ["no", "yes"]
    yes = choose.bodies["yes"]
    assert lines(yes) == ["in = plus(held:0, w:0)", "soft = soft(in:0) {'axes': [2]}"]
    assert yes.namespace == "toy/b/1"
    assert yes.outputs[0].name == "then_out"
    assert result["w"].graph is result
    back = toys().conversion(result, "toy/a/12").graph
    assert sorted(lines(back)) == sorted(lines(graph))
    assert lines(back["if"].bodies["then"]) == lines(bodies["then"])


def test_depth_is_no_matter():
    depth = 2 * sys.getrecursionlimit()
    root = at = Graph("toy/a/13")
    x = root.parameter(name="x")
    for _ in range(depth):
        inner, other = Graph(outer=at), Graph(outer=at)
        other.result(x)
        op = at.add("If", [x], bodies={"then": inner, "else": other})
        at.result(op.output)
        at = inner
    at.result(at.add("Relu", [x], name="deep").output)
    result = there(root).graph
    assert sum(1 for _ in result.graphs()) == 2 * depth + 1


def test_graphs_as_ops_and_functions():
    graph = chain(("Relu", {}))
    inner = Graph(name="inner", type="block")
    inner.result(inner.add("Relu", [inner.parameter(name="p")], name="r").output, "o")
    sub = graph.add_graph(inner, [graph["Relu_0"].output])
    graph.result(sub.outputs[0])
    function = Graph(name="f")
    function.result(function.add("Relu", [function.parameter()], name="fr").output)
    graph.add_function("twice", function)
    result = there(graph).graph
    assert [op.type for op in result.walk()] == ["relu", "block", "relu", "relu"]
    assert result["inner"].inputs == (result["Relu_0"].output,)
    assert result["inner"].outputs[0].name == "o"
    assert lines(result.functions["twice"]) == ["fr = relu(f:0)"]


def test_loops_of_the_first_kind():
    graph = Graph("toy/a/13")
    x = graph.parameter(name="x")
    merge = graph.add("Merge", [x, None], name="merge")
    body = graph.add("Relu", [merge.output], name="body")
    turn = graph.add("Next", [body.output], name="next", feedback=True)
    merge.input_ports[1].connect(turn.output)
    graph.result(body.output)
    result = there(graph).graph
    assert lines(result) == [
        "merge = merge(graph:x, next:0)",
        "body = relu(merge:0)",
        "next = next(body:0)",
    ]


def test_names_stay_and_are_free():
    graph = chain(("Relu", {}), ("Relu", {}))
    graph.rename(graph["Relu_0"], None)
    result = there(graph).graph
    assert [op.name for op in result] == [None, "Relu_1"]
    first = next(iter(result))
    assert first.provenance.sources == ("Relu",)
