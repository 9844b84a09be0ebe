"""Building and reading: ops, ports, edges, names, order, containers."""

import copy
import gc
import pickle

import pytest

from amanda.errors import DuplicateNameError, ForeignPortError, GraphError
from amanda.graph import (
    CONTROL_NAME,
    CORE,
    ControlPort,
    Edge,
    Graph,
    InputPort,
    Op,
    OutputPort,
    Provenance,
    bulk,
    set_dims,
    snap,
)
from amanda.types import Sym


def chain(n: int = 3) -> Graph:
    graph = Graph("amanda/std/1", "main")
    value: OutputPort = graph.parameter(name="x")
    for i in range(n):
        value = graph.add("neg", [value], name=f"n{i}").output
    graph.result(value, "y")
    return graph


def test_an_op_has_what_it_was_given() -> None:
    graph = Graph("amanda/tensorflow/1.13.1")
    a = graph.parameter(name="a")
    op = graph.add("Split", [a, None], {"num": 2}, name="s", outputs=2)
    assert (op.type, op.name, op.graph) == ("Split", "s", graph)
    assert op.inputs == (a, None)
    assert op.attrs == {"num": 2}
    assert [p.index for p in op.outputs] == [0, 1]
    assert op.output_ports is op.outputs
    assert op.namespace == "amanda/tensorflow/1.13.1"
    assert op.own_namespace is None
    assert a.users == [InputPort(op, 0)]
    assert graph.check() == []


def test_attrs_given_are_copied() -> None:
    graph = Graph()
    attrs = {"k": 1}
    first, second = graph.add("a", attrs=attrs), graph.add("b", attrs=attrs)
    first.attrs["k"] = 2
    assert second.attrs == {"k": 1}


def test_everything_is_optional() -> None:
    graph = Graph()
    op = graph.add(None)
    assert (op.type, op.name, op.namespace, graph.name) == (None, None, None, None)
    assert graph[0] is op
    assert op.index == 0
    assert not op.has_attrs
    assert graph.check() == []


def test_a_framework_attribute_may_be_called_type() -> None:
    op = Graph().add("Bitcast", attrs={"type": "int32", "name": "n", "namespace": "s"})
    assert (op.type, op.name) == ("Bitcast", None)
    assert op.attrs == {"type": "int32", "name": "n", "namespace": "s"}


def test_ops_by_name_position_and_slice_of_errors() -> None:
    graph = chain(5)
    assert graph["n3"] is graph[3] is graph[-2]
    assert [graph[i].name for i in range(5)] == [f"n{i}" for i in range(5)]
    assert "n1" in graph
    assert graph["n1"] in graph
    assert "zz" not in graph
    with pytest.raises(KeyError, match="has no op named 'zz'"):
        graph["zz"]
    with pytest.raises(IndexError, match="has 5 ops, not one at 5"):
        graph[5]


def test_duplicate_names_are_refused_and_free_ones_found() -> None:
    graph = chain(2)
    with pytest.raises(DuplicateNameError, match="has an op named 'n0' already"):
        graph.add("neg", [graph.parameters[0]], name="n0")
    assert graph.fresh_name("n0") == "n0_1"
    assert graph.fresh_name("new") == "new"
    assert len(graph) == 2
    assert graph.check() == []


def test_ports_by_name_or_index() -> None:
    graph = Graph()
    op = graph.add("f", [None, None], outputs=2, name="f")
    op.input_ports[0].set_name("x")
    op.outputs[1].name = "n"
    assert op.input_port("x") == op.input_port(0) == InputPort(op, 0)
    assert op.output_port("n") is op.output_port(1) is op.outputs[1]
    assert op.input_port(-1) == op.input_port(CONTROL_NAME) == ControlPort(op, "in")
    assert op.output_port(-1).index == -1
    with pytest.raises(GraphError) as caught:
        op.input_port("z")
    assert str(caught.value) == (
        "f 'f' has no input port 'z'\n  expected: one of x, 1\n  got:      'z'"
    )
    op.input_ports[0].set_name(None)
    assert op.input_port(0).name is None


def test_single_output_only_where_there_is_one() -> None:
    graph = Graph()
    assert graph.add("a").output.index == 0
    with pytest.raises(GraphError, match="has 2 outputs, not one"):
        _ = graph.add("b", outputs=2).output
    with pytest.raises(GraphError, match="has 0 outputs, not one"):
        _ = graph.add("c", outputs=0).output


def test_input_must_be_a_value() -> None:
    graph = Graph()
    a = graph.add("a", name="a")
    b = graph.add("b")
    with pytest.raises(GraphError) as caught:
        graph.add("c", [b.output, a])  # type: ignore[list-item]
    assert "input 1 of c (unnamed) is not a value" in str(caught.value)
    assert "use its .output" in str(caught.value)
    assert b.output.users == []
    with pytest.raises(GraphError, match="input 0"):
        graph.add("c", [3])  # type: ignore[list-item]
    assert graph.check() == []


@pytest.mark.parametrize("before", [[], ["a"], ["a", "a"], ["a", "b", "a"]])
def test_a_refused_input_leaves_no_users(before: list[str]) -> None:
    """Inputs in front of the refused one, the same value several times included."""
    graph, foreign = Graph(), Graph().add("f").output
    for name in "ab":
        graph.add(name, name=name)
    used = graph.add("c", [graph["a"].output], name="c")
    values = [graph[name].output for name in before]
    for refused, error in ((foreign, ForeignPortError), (3, GraphError)):
        with pytest.raises(error):
            graph.add("d", [*values, refused, graph["b"].output], name="d")  # type: ignore[list-item]
    assert graph["a"].output.user_ops == [used]
    assert graph["b"].output.user_ops == []
    assert foreign.user_ops == []
    assert "d" not in graph
    assert graph.check() == []


def test_an_added_op_has_what_its_constructor_gives() -> None:
    for outputs in (0, 1, 3):
        added, plain = (
            Graph().add("f", attrs={"k": 1}, name="n", outputs=outputs),
            Op("f", "n", {"k": 1}, outputs),
        )
        for slot in Op.__slots__:
            if slot not in ("graph", "outputs"):
                assert getattr(added, slot) == getattr(plain, slot)
        assert [port.index for port in added.outputs] == [*range(outputs)]


def test_foreign_and_removed_values_are_refused() -> None:
    one, two = chain(), chain()
    with pytest.raises(ForeignPortError, match="cannot be read here"):
        one.add("f", [two["n0"].output])
    with pytest.raises(ForeignPortError, match="cannot be read here"):
        one.add("f", [two.parameters[0]])
    gone = one.add("g", name="gone")
    one.remove(gone)
    with pytest.raises(ForeignPortError, match="is in no graph"):
        one.add("f", [gone.output])
    assert one.check() == two.check() == []


def test_users_keep_their_order_and_count_every_place() -> None:
    graph = Graph()
    x = graph.parameter()
    ops = [graph.add("f", [x, None, x]) for _ in range(20)]
    assert x.users == [InputPort(op, i) for op in ops for i in (0, 2)]
    assert x.user_ops == ops
    for op in ops[:15]:
        op.input_ports[0].connect(None)
    assert len(x.users) == 25
    assert graph.check() == []


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 40, 200])
def test_wide_ops_grow_and_shrink(count: int) -> None:
    graph = Graph()
    xs = [graph.parameter() for _ in range(3)]
    op = graph.add("concat", [xs[i % 3] for i in range(count)])
    for i in range(5):
        op.add_input(xs[i % 3], f"extra{i}")
    assert len(op.inputs) == count + 5
    assert [p.index for p in xs[0].users] == [
        i for i, v in enumerate(op.inputs) if v is xs[0]
    ]
    assert op.input_port("extra2").index == count + 2
    op.remove_input(0)
    assert op.input_port("extra2").index == count + 1
    assert graph.check() == []
    for i in range(len(op.inputs)):
        op.input_ports[i].connect(xs[1])
    assert len(xs[1].users) == count + 4
    assert xs[0].users == []
    assert graph.check() == []


def test_edges_and_their_attributes() -> None:
    graph = chain(2)
    a, b = graph
    graph.control(a, b, {"why": "order"})
    graph.result_ports[0].edge_attrs["out"] = True
    edges = list(graph.edges)
    assert edges[:3] == [
        Edge(graph.parameters[0], InputPort(a, 0)),
        Edge(a.output, InputPort(b, 0)),
        Edge(b.output, InputPort(graph, 0, True)),
    ]
    assert edges[3].is_control
    assert edges[3].attrs == {"why": "order"}
    assert repr(edges[1]) == "n0:0 -> n1[0]"
    edges[1].attrs["weight"] = 3
    assert b.input_ports[0].edge_attrs == {"weight": 3}
    assert edges[2].has_attrs
    b.input_ports[0].connect(None)
    assert not b.input_ports[0].has_edge_attrs


def test_port_attributes_and_marks() -> None:
    graph = chain(1)
    op = graph["n0"]
    assert not op.outputs[0].has_attrs
    op.outputs[0].attrs["is_ref"] = True
    op.input_ports[0].attrs["type_attr"] = "T"
    graph.parameters[0].attrs["p"] = 1
    assert graph.input_ports[0].attrs == {"p": 1}
    assert op.outputs[0].has_attrs
    op.outputs[0].mark("keep")
    graph.parameters[0].mark("hot")
    assert op.outputs[0].marks == {"keep"}
    assert graph.parameters[0].marks == {"hot"}
    op.outputs[0].unmark("keep")
    assert op.outputs[0].marks == frozenset()


def test_a_constant_is_an_op_of_the_core() -> None:
    from amanda.tensors import Tensor

    graph = Graph("amanda/onnx/18")
    weight = Tensor.splat("float32", (2, 3), 1.0)
    op = graph.constant(weight, "w")
    assert (op.type, op.namespace, op.attrs["value"]) == ("constant", CORE, weight)
    assert op.output.type == weight.type


def test_selection() -> None:
    graph = Graph("amanda/a/1")
    for i in range(6):
        op = graph.add("f" if i % 2 else "g", attrs={"i": i}, name=f"op{i}")
    op.namespace = "amanda/b/2"
    select = graph.ops.select
    assert [o.name for o in select("f")] == ["op1", "op3", "op5"]
    assert len(select(["f", "g"])) == 6
    assert [o.name for o in select(name="op[12]")] == ["op1", "op2"]
    assert [o.name for o in select(namespace="amanda/b")] == ["op5"]
    assert len(select(namespace="amanda/a/1")) == 5
    assert [o.name for o in select("f", attrs={"i": 3})] == ["op3"]
    assert select(attrs={"i": True}) == []
    assert [o.name for o in select(where=lambda o: o.attrs["i"] > 4)] == ["op5"]


def test_reachability() -> None:
    graph = Graph()
    x, y = graph.parameter(name="x"), graph.parameter(name="y")
    a = graph.add("a", [x], name="a")
    b = graph.add("b", [y], name="b")
    c = graph.add("c", [a.output], name="c")
    d = graph.add("d", [c.output, b.output], name="d")
    e = graph.add("e", [d.output], name="e")
    graph.control(b, c)
    assert graph.upstream(c) == [a, b, c]
    assert graph.upstream(d.output) == [a, b, c, d]
    assert graph.downstream(x) == [a, c, d, e]
    assert graph.downstream(c) == [c, d, e]
    assert graph.between([x], [d]) == [a, c, d]
    with pytest.raises(GraphError, match="is not in"):
        chain().upstream(a)


def test_dependents_read_a_value_or_wait_for_it() -> None:
    graph = Graph()
    x = graph.parameter(name="x")
    split = graph.add("split", [x], outputs=2)
    waiting = graph.add("waiting", [x])
    left = graph.add("left", [split.outputs[0], split.outputs[0]])
    right = graph.add("right", [split.outputs[1]])
    last = graph.add("last", [left.output])
    graph.control(split, waiting)
    body = Graph(name="body", outer=graph)
    body.result(body.add("inside", [split.outputs[0]]).output)
    loop = graph.add("loop", bodies={"body": body})
    assert graph.dependents(split) == [waiting, left, right, loop]
    assert graph.dependents(split.outputs[1]) == [waiting, right]
    assert graph.dependents(split.outputs[0]) == [waiting, left, loop]
    assert graph.dependents(x) == [split, waiting]
    assert graph.dependents(last) == []
    with pytest.raises(GraphError, match="is not in"):
        chain().dependents(split)


def test_dependents_of_a_feedback_op_read_it_in_the_next_iteration() -> None:
    graph = Graph()
    start = graph.add("start")
    merge = graph.add("merge", [start.output])
    step = graph.add("step", [merge.output], feedback=True)
    merge.add_input(step.output)
    assert graph.dependents(step) == [merge]
    assert graph.downstream(step) == [step]


def test_provenance_and_feedback() -> None:
    graph = Graph()
    op = graph.add("f", feedback=True)
    assert op.feedback
    assert op.provenance is None
    op.provenance = Provenance(("a", "b"), "rule 7")
    assert op.provenance.by == "rule 7"


def test_no_pickle_and_no_loose_copies() -> None:
    graph = chain()
    for thing in (graph, graph[0], graph[0].output):
        with pytest.raises(GraphError, match="save its graph"):
            pickle.dumps(thing)
    with pytest.raises(GraphError, match="clone the graph"):
        copy.copy(graph[0])
    twin = copy.deepcopy(graph)
    assert twin is not graph
    assert twin.same_as(graph)


@pytest.mark.parametrize("enabled", [True, False])
def test_bulk_restores_the_collector(enabled: bool) -> None:
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with bulk():
            assert not gc.isenabled()
            with bulk():
                pass
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
        with pytest.raises(ZeroDivisionError), bulk():
            _ = 1 / 0
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


def test_repr_and_labels() -> None:
    graph = chain(1)
    assert repr(graph) == "<graph 'main' in amanda/std/1: 1 ops>"
    assert repr(graph["n0"]) == "n0 = neg(main:x)"
    unnamed = graph.add("exp", [graph["n0"].output])
    assert unnamed.label == "exp #1"
    assert graph["n0"].label == "neg 'n0'"


def test_snap_keeps_structure() -> None:
    graph = chain(2)
    a, b = graph
    handles = {"x": [a.output, (b.output,)], "n": 1}
    graph.replace(a, [graph.parameters[0]])
    assert snap(handles) == {"x": [graph.parameters[0], (b.output,)], "n": 1}


def test_functions_are_read_where_dims_change_only() -> None:
    graph = Graph("amanda/std/1")
    graph.parameter("float32[n]", "x")
    read: list[str] = []

    def body() -> Graph:
        read.append("body")
        function = Graph("amanda/std/1", "body")
        function.parameter("float32[n]", "y")
        return function

    graph.defer_function("body", body)
    set_dims(graph, {})
    assert read == []
    set_dims(graph, {"n": 3})
    assert read == ["body"]
    assert str(graph.functions["body"].parameters[0].type) == "float32[3]"


def test_sizes_replace_dims_in_attributes() -> None:
    n = Sym.named("n")
    graph = Graph("amanda/acme/1")
    x = graph.parameter("float32[n]", "x")
    attrs = {"shape": [2, n * 2], "config": {"end": n, "step": (1,)}, "axis": 0}
    op = graph.add("reshape", [x], attrs)
    set_dims(graph, {"n": 3})
    assert op.attrs == {"shape": [2, 6], "config": {"end": 3, "step": (1,)}, "axis": 0}
