"""Nesting: subgraphs, bodies, captures, functions, control edges at a boundary."""

import pytest

from amanda.errors import (
    CycleError,
    DuplicateNameError,
    ForeignPortError,
    GraphError,
    InUseError,
)
from amanda.graph import ControlPort, Edge, Graph, InputPort, Op
from amanda.passes import inline
from amanda.types import parse_type

pytestmark = pytest.mark.install_independent


def layer() -> Graph:
    """hk = h(hx, hy): a graph with two ports in, one out."""
    h = Graph(name="h", type="Layer")
    hx, hy = h.parameter(name="hx"), h.parameter(name="hy")
    f = h.add("f", [hx, hy], name="f", outputs=2)
    g = h.add("g", [f.outputs[0]], name="g")
    h.result(g.output, "hk")
    return h


def branch(graph: Graph) -> tuple[Op, Graph, Graph]:
    """if cond: then(x) else: other(x), where both bodies read x of `graph`."""
    cond, x = graph.parameter(name="cond"), graph.parameter(name="x")
    a = graph.add("a", [x], name="a")
    then, other = Graph(outer=graph), Graph(outer=graph)
    then.result(then.add("t", [a.output], name="t").output)
    other.result(x)
    op = graph.add("If", [cond], name="if", bodies={"then": then, "else": other})
    graph.result(op.output)
    return op, then, other


def test_a_graph_is_an_op_of_another() -> None:
    outer = Graph("amanda/std/1", "outer")
    x = outer.parameter()
    h = outer.add_graph(layer(), [x, x])
    assert isinstance(h, Graph)
    assert outer["h"] is h
    assert (h.type, h.graph, h.namespace) == ("Layer", outer, "amanda/std/1")
    assert [p.name for p in h.input_ports] == ["hx", "hy"]
    assert [p.name for p in h.outputs] == ["hk"]
    assert h.inputs == (x, x)
    outer.result(h.output)
    assert h["f"].inputs == h.parameters
    assert h.result_ports == [InputPort(h, 0, True)]
    assert h.result_ports[0].name == "hk"
    assert x.users == [InputPort(h, 0), InputPort(h, 1)]
    assert h.input_port("hy") == InputPort(h, 1)
    assert outer.check() == []


def test_ports_of_a_held_graph_grow_on_both_sides() -> None:
    outer = Graph()
    x = outer.parameter()
    h = outer.add_graph(layer(), [x])
    assert h.inputs == (x, None)
    h.add_input(x, "hz")
    assert h.parameters[2].name == "hz"
    assert h.inputs == (x, None, x)
    out = h.add_output("extra")
    h.result_ports[1].connect(h["f"].outputs[1])
    assert h.results[1] is h["f"].outputs[1]
    assert out.name == "extra"
    h.remove_parameter(2)
    assert h.inputs == (x, None)
    h.remove_result(1)
    assert outer.check() == []


def test_holding_rules() -> None:
    outer = Graph(name="outer")
    h = outer.add_graph(layer())
    with pytest.raises(GraphError, match="is in another graph already"):
        outer.add_graph(h)
    with pytest.raises(DuplicateNameError):
        outer.add_graph(layer())
    with pytest.raises(GraphError, match="cannot take 3 inputs"):
        Graph().add_graph(layer(), [None] * 3)
    with pytest.raises(GraphError, match="would contain itself"):
        h.add_graph(outer)
    with pytest.raises(GraphError, match="would contain itself"):
        outer.add_graph(outer)
    stranger = Graph(outer=Graph(name="elsewhere"))
    with pytest.raises(GraphError, match="was built for graph 'elsewhere'"):
        outer.add("If", bodies={"then": stranger})
    twice = Graph()
    with pytest.raises(GraphError, match="is in another graph already"):
        outer.add("If", bodies={"then": twice, "else": twice})
    assert twice.holder is None
    outer.add("If", bodies={"then": twice})
    assert outer.check() == []


def test_bodies_capture_values() -> None:
    graph = Graph("amanda/onnx/18", "main")
    op, then, other = branch(graph)
    a, x = graph["a"], graph.parameters[1]
    assert op.bodies == {"then": then, "else": other}
    assert then.holder is op
    assert then.body_name == "then"
    assert then.captures == [a.output]
    assert other.captures == [x]
    assert then.namespace == then["t"].namespace == "amanda/onnx/18"
    assert a.output.users == [InputPort(then["t"], 0)]
    assert InputPort(other, 0, True) in x.users
    assert list(graph.walk()) == [a, op, then["t"]]
    assert list(graph.graphs()) == [graph, then, other]
    assert list(op.depends_on()) == [a]
    assert graph.upstream(op) == [a, op]
    assert graph.downstream(a) == [a, op]
    assert graph.check() == []


def test_a_capture_orders_the_holder() -> None:
    graph = Graph(name="main")
    body = Graph(outer=graph)
    op = graph.add("Loop", bodies={"body": body}, name="loop")
    late = graph.add("late", name="late")
    inner = body.add("use", [late.output])
    assert list(graph) == [late, op]
    after = graph.add("after", [op.output], name="after")
    with pytest.raises(CycleError):
        inner.add_input(after.output)
    assert len(inner.inputs) == 1
    with pytest.raises(ForeignPortError, match="cannot be read here"):
        graph.add("bad", [inner.output])
    with pytest.raises(ForeignPortError):
        graph.add("bad", [body.parameter()])
    assert graph.check() == []


def test_a_body_added_before_another_op_orders_what_it_captures() -> None:
    graph = Graph()
    first = graph.add("first", name="first")
    value = graph.add("value", name="value")
    body = Graph(outer=graph)
    body.add("use", [value.output])
    with graph.before(first):
        op = graph.add("If", bodies={"then": body}, name="if")
    assert [o.name for o in graph] == ["value", "if", "first"]
    last = graph.add("last", [op.output], name="last")
    other = Graph(outer=graph)
    other.add("use", [last.output])
    with pytest.raises(CycleError):
        op.set_body("else", other)
    assert graph.check() == []


def test_replace_and_remove_reach_into_bodies() -> None:
    graph = Graph()
    op, then, _ = branch(graph)
    a, x = graph["a"], graph.parameters[1]
    with pytest.raises(InUseError, match="t 't' reads it"):
        graph.remove(a)
    graph.replace(a, [x])
    assert then["t"].inputs == (x,)
    graph.remove_result(0)
    graph.remove(op)
    assert x.users == []
    assert graph.check() == []


def test_removing_a_deep_body_frees_what_it_reads() -> None:
    graph = Graph()
    x = graph.parameter()
    outer, inner = Graph(outer=graph), Graph()
    holder = graph.add("If", bodies={"then": outer})
    inner.outer = outer
    deep = outer.add("If", bodies={"then": inner})
    inner.add("use", [x])
    sub = outer.add_graph(layer())
    sub["f"].add_input(x)
    assert len(x.users) == 2
    outer.remove(deep)
    assert len(x.users) == 1
    graph.remove(holder)
    assert x.users == []
    assert graph.check() == []


def test_control_edges_at_the_boundary() -> None:
    outer = Graph(name="outer")
    h = outer.add_graph(layer())
    f, g = h
    first = outer.add("first", name="first")
    outer.control(first, h, {"n": 1})
    h.control(h, f, {"in": 1})
    h.control(g, h, {"out": 1})
    assert h.inner_control_sources == (f,)
    assert h.inner_control_sinks == (g,)
    assert f.control_inputs == g.control_outputs == ()
    edges = list(h.control_edges)
    assert edges == [
        Edge(ControlPort(h, "in", True), ControlPort(f, "in")),
        Edge(ControlPort(g, "out"), ControlPort(h, "out", True)),
    ]
    assert [e.attrs for e in edges] == [{"in": 1}, {"out": 1}]
    assert [e.attrs for e in outer.control_edges] == [{"n": 1}]
    twin = outer.clone()
    assert twin.same_as(outer)
    assert [e.attrs for e in twin["h"].control_edges] == [{"in": 1}, {"out": 1}]  # type: ignore[attr-defined]
    between = h.insert(edges[0], "wait")
    assert h.inner_control_sources == (between,)
    assert f.control_inputs == (between,)
    after = h.insert(edges[1], "wait")
    assert h.inner_control_sinks == (after,)
    h.uncontrol(after, h)
    assert h.inner_control_sinks == ()
    assert outer.check() == []


def test_functions_belong_to_the_root() -> None:
    root = Graph("amanda/onnx/18", "root")
    f = root.add_function("f", layer())
    assert root.functions == {"f": f}
    assert f.namespace == "amanda/onnx/18"
    assert f.root is root
    with pytest.raises(DuplicateNameError):
        root.add_function("f", layer())
    with pytest.raises(GraphError, match="is in another graph already"):
        root.add_graph(f)
    with pytest.raises(ForeignPortError):
        f.add("use", [root.parameter()])
    inner = root.add_graph(Graph(name="inner"))
    with pytest.raises(GraphError, match="is not a root graph"):
        inner.add_function("g", layer())
    with pytest.raises(GraphError, match="only a root graph may"):
        inner.add_graph(root.clone())
    assert [op.type for op in root.walk()] == [None, "f", "g"]
    assert root.clone().same_as(root)
    assert root.remove_function("f") is f
    with pytest.raises(GraphError, match="has no function 'f'"):
        root.remove_function("f")
    assert root.check() == []


def test_entries_name_values_of_the_root() -> None:
    graph = layer()
    hx, hy = graph.parameters
    graph.set_entry("serve", {"a": hx, "b": hy}, {"out": graph["g"].output})
    assert graph.entries["serve"].inputs["a"] is hx
    with pytest.raises(ForeignPortError, match="who:      entry 'bad'"):
        graph.set_entry("bad", {"a": layer().parameters[0]}, {})
    assert list(graph.entries) == ["serve"]
    twin = graph.clone()
    assert twin.entries["serve"].outputs["out"] is twin["g"].output
    assert twin.same_as(graph)
    graph.remove_entry("serve")
    with pytest.raises(GraphError, match="has no entry 'serve'"):
        graph.remove_entry("serve")
    assert not twin.same_as(graph)


@pytest.mark.parametrize("inside_out", [True, False])
def test_no_recursion_limit_in_depth(inside_out: bool) -> None:
    depth = 5_000  # the limit is 1,000
    root = Graph("amanda/std/1", "root")
    if inside_out:
        body = Graph()
        for _ in range(depth):
            outer = Graph()
            outer.add("if", bodies={"then": body})
            body = outer
        root.add("if", bodies={"then": body})
    else:
        at = root
        for _ in range(depth):
            body = Graph(outer=at)
            at.add("if", bodies={"then": body})
            at = body
        at.add("use", [root.parameter()])
    assert sum(1 for _ in root.walk()) >= depth
    assert sum(1 for _ in root.graphs()) >= depth
    twin = root.clone()
    assert twin.same_as(root)
    assert twin.digest() == root.digest()
    assert len(root.captures) == 0
    leaf = list(root.graphs())[-1]
    assert leaf.namespace == "amanda/std/1"
    assert len(root.upstream(root[0])) == 1
    root.remove(root[0])
    del leaf, twin, body


def test_a_chain_has_no_recursion_limit() -> None:
    graph = Graph()
    value = first = graph.parameter()
    for _ in range(50_000):
        value = graph.add("f", [value]).output  # type: ignore[assignment]
    graph.result(value)
    ops = list(graph)
    assert graph.upstream(value) == ops
    assert graph.downstream(first) == ops
    handle = ops[0].output
    for op in ops:
        graph.replace(op, [first])
    assert handle.resolve() is first
    assert len(graph) == 0


def test_one_run_of_the_pass_inlines_every_level() -> None:
    inner = layer()
    for depth in range(4):
        outer = Graph(name=f"level{depth}")
        x, y = outer.parameter(), outer.parameter()
        outer.add_graph(inner, [x, y])
        inner.output.type = parse_type("float32[3]")
        outer.result(inner.output)
        inner = outer
    assert inline(inner) == 4
    assert [op.type for op in inner] == ["f", "g"]
    assert str(inner["g"].output.type) == "float32[3]"
