"""Change: replace, remove, rename, insert, order, refusal, forwards."""

import pytest

from amanda.errors import (
    CycleError,
    DuplicateNameError,
    GoneError,
    GraphError,
    InUseError,
    UsageError,
)
from amanda.graph import Edge, Graph, InputPort, Op, OutputPort


def diamond() -> tuple[Graph, list[Op]]:
    graph = Graph("amanda/std/1", "main")
    x = graph.parameter(name="x")
    a = graph.add("a", [x], name="a")
    b = graph.add("b", [a.output], name="b")
    c = graph.add("c", [a.output], name="c")
    d = graph.add("d", [b.output, c.output], name="d")
    graph.result(d.output, "y")
    return graph, [a, b, c, d]


def picture(graph: Graph) -> tuple[object, ...]:
    """Ops, edges and names, by identity: what a refused change must leave."""
    return (
        frozenset((op, op.name, op.inputs, op.control_inputs) for op in graph.walk()),
        tuple(frozenset(op.user_ops) for g in graph.graphs() for op in g.parameters),
        frozenset((v, frozenset(v.users)) for op in graph.walk() for v in op.outputs),
        tuple((g.results, g.inner_control_sinks) for g in graph.graphs()),
    )


def test_replace_moves_uses_and_leaves_a_forward() -> None:
    graph, [a, b, c, d] = diamond()
    old = b.output
    with graph.before(b):
        new = graph.add("B", [a.output]).output
    graph.replace(b, [new], "test")
    assert d.inputs == (new, c.output)
    assert b.graph is None
    assert old.resolve() is new
    graph.replace(new.op, [a.output])
    assert old.resolve() is a.output
    assert old.resolve() is a.output  # by the shortened path
    assert "b" not in graph
    assert graph.check() == []


def test_a_removed_value_says_who_removed_it() -> None:
    graph, _ = diamond()
    dead = graph.add("dead", [graph["a"].output], name="dead")
    graph.remove(dead, by="pass drop-dead")
    with pytest.raises(GoneError) as caught:
        dead.output.resolve()
    assert str(caught.value) == (
        "the value dead:0 is gone\n"
        "  who:      dead 'dead'\n"
        "  got:      its op was removed by pass drop-dead\n"
        "  to do:    get the handle from the graph again"
    )
    with pytest.raises(GoneError, match="was removed by pass drop-dead already"):
        graph.remove(dead)


def test_remove_refuses_what_is_needed() -> None:
    graph, [a, *_] = diamond()
    before = picture(graph)
    with pytest.raises(InUseError) as caught:
        graph.remove(a)
    assert str(caught.value) == (
        "a 'a' cannot be removed by remove\n"
        "  where:    its output 0\n"
        "  got:      b 'b' reads it\n"
        "  to do:    replace it, or remove its users first"
    )
    assert picture(graph) == before


def test_keep_and_entries_hold_values_and_move_with_a_replacement() -> None:
    graph, [a, _, _, _] = diamond()
    side = graph.add("side", [a.output], name="side")
    side.output.mark("keep")
    with pytest.raises(InUseError, match="the mark 'keep' needs it"):
        graph.remove(side)
    graph.set_entry("main", {"x": graph.parameters[0]}, {"y": side.output})
    side.output.unmark("keep")
    with pytest.raises(InUseError, match="entry 'main' needs it"):
        graph.remove(side)
    side.output.mark("keep")
    heir = graph.add("heir", [a.output])
    graph.replace(side, [heir.output])
    assert heir.output.marks == {"keep"}
    assert graph.entries["main"].outputs["y"] is heir.output
    graph.remove_entry("main")
    heir.output.unmark("keep")
    graph.remove(heir)
    assert graph.check() == []


def test_replace_needs_a_value_for_each_used_output() -> None:
    graph, [a, b, *_] = diamond()
    with pytest.raises(InUseError, match="d 'd' reads it"):
        graph.replace(b, [None])
    with pytest.raises(GraphError, match="cannot be replaced by 2 values"):
        graph.replace(b, [a.output, a.output])
    with pytest.raises(GraphError, match="cannot be replaced by itself"):
        graph.replace(b, [b.output])
    with pytest.raises(GraphError, match="is not in graph 'main'"):
        diamond()[0].replace(b, [a.output])
    assert graph.check() == []


def test_a_refused_replace_is_undone() -> None:
    graph = Graph(name="g")
    x = graph.parameter()
    a = graph.add("a", [x], name="a")
    u = graph.add("u", [a.output], name="u")
    v = graph.add("v", [a.output], name="v")
    w = graph.add("w", [v.output], name="w")
    before = picture(graph)
    with pytest.raises(CycleError):
        graph.replace(a, [w.output])  # u could read w, v cannot
    assert picture(graph) == before
    assert u.inputs == (a.output,)
    assert graph.check() == []


def test_cycle_message_names_the_way() -> None:
    graph, [a, b, _, d] = diamond()
    with pytest.raises(CycleError) as caught:
        a.input_ports[0].connect(d.output)
    assert str(caught.value) == (
        "a 'a' would depend on itself\n"
        "  who:      graph 'main'\n"
        "  where:    a 'a' -> c 'c' -> d 'd' -> a 'a'\n"
        "  to do:    a loop-carried edge must come from a feedback op"
    )
    with pytest.raises(CycleError):
        b.input_ports[0].connect(b.output)
    with pytest.raises(CycleError):
        graph.control(d, a)
    assert graph.check() == []


def test_a_backward_edge_moves_only_what_must_move() -> None:
    graph = Graph()
    x = graph.parameter()
    ops = [graph.add("f", [x, None], name=f"f{i}") for i in range(6)]
    ops[1].input_ports[1].connect(ops[4].output)
    names = [op.name for op in graph]
    assert names == ["f0", "f2", "f3", "f4", "f1", "f5"]
    assert graph.is_before(ops[4], ops[1])
    assert graph.check() == []


def test_wiring_sorts_once_and_undoes_a_cycle() -> None:
    graph = Graph(name="g")
    n = 200
    ops = [graph.add("f", [None], name=f"f{i}") for i in range(n)]
    with graph.wiring():
        for i in range(n - 1):
            ops[i].input_ports[0].connect(ops[i + 1].output)
        graph.control(ops[-1], ops[0])
    assert [op.name for op in graph] == [f"f{i}" for i in reversed(range(n))]
    assert graph.check() == []
    before = picture(graph)
    with pytest.raises(CycleError), graph.wiring():
        ops[3].input_ports[0].connect(ops[0].output)
        ops[-1].input_ports[0].connect(ops[0].output)
        graph.control(ops[0], ops[1])
    assert picture(graph) == before
    with pytest.raises(ZeroDivisionError), graph.wiring():
        ops[3].input_ports[0].connect(ops[0].output)
        _ = 1 / 0
    assert picture(graph) == before
    assert graph.check() == []


def test_sorted_ops_keep_their_places() -> None:
    graph, ops = diamond()
    with graph.wiring():
        ops[1].input_ports[0].connect(graph.parameters[0])
    assert list(graph) == ops


def test_feedback_edges_do_not_order() -> None:
    graph = Graph("amanda/tensorflow/1.13.1")
    enter = graph.add("Enter", [graph.parameter()])
    merge = graph.add("Merge", [enter.output, None], outputs=2)
    step = graph.add("Add", [merge.outputs[0]])
    back = graph.add("NextIteration", [step.output], feedback=True)
    merge.input_ports[1].connect(back.output)
    assert list(graph) == [enter, merge, step, back]
    assert graph.check() == []
    assert graph.upstream(merge) == [enter, merge, step, back]
    twin = graph.clone()
    assert twin.same_as(graph)
    assert twin.check() == []


def test_iteration_goes_on_under_change() -> None:
    graph = Graph()
    x = graph.parameter()
    for i in range(10):
        x = graph.add("f", [x], name=f"f{i}").output
    graph.result(x)
    seen = []
    for op in graph:
        seen.append(op.type)
        if op.type == "f":
            with graph.before(op):
                graph.add("early", op.inputs)  # before the current one: not visited
            new = graph.add("late", op.inputs)
            graph.replace(op, [new.output])  # the current one goes
    assert seen == ["f", "late"] * 10  # each late one before its user
    assert graph.check() == []


def test_iteration_survives_removal_of_everything() -> None:
    graph = Graph()
    for i in range(5):
        graph.add("f", name=f"f{i}")
    for count, op in enumerate(graph):
        for other in list(graph):
            graph.remove(other)
        assert count == 0
        assert op.graph is None
    assert len(graph) == 0
    assert graph.check() == []


def test_reverse_iteration_survives_removal() -> None:
    graph = Graph()
    for i in range(5):
        graph.add("f", name=f"f{i}")
    for op in reversed(graph):
        graph.remove(op)
    assert len(graph) == 0


def test_control_edges_pass_on_replace() -> None:
    graph = Graph()
    x = graph.parameter()
    first = graph.add("first", name="first")
    mid = graph.add("mid", [x], name="mid")
    last = graph.add("last", name="last")
    graph.control(first, mid)
    graph.control(mid, last)
    graph.control(mid, graph)
    new = graph.add("new", [x], name="new")
    graph.replace(mid, [new.output])
    assert set(last.control_inputs) == {new, first}
    assert set(graph.inner_control_sinks) == {new, first}
    assert first.control_outputs == (last,)
    assert [repr(e) for e in graph.control_edges] == [
        "new.^control -> last.^control",
        "first.^control -> last.^control",
        "new.^control -> graph.^control",
        "first.^control -> graph.^control",
    ]
    assert graph.is_before(new, last)
    assert graph.check() == []


def test_control_is_a_set_and_can_be_undone() -> None:
    graph = Graph(name="g")
    a, b = graph.add("a", name="a"), graph.add("b", name="b")
    edge = graph.control(b, a)
    assert graph.control(b, a) == edge
    assert list(graph) == [b, a]
    assert a.control_inputs == (b,)
    graph.uncontrol(b, a)
    with pytest.raises(GraphError, match="no control edge from b 'b' to a 'a'"):
        graph.uncontrol(b, a)
    with pytest.raises(GraphError, match="is not in graph 'g'"):
        graph.control(a, Graph().add("other"))
    with pytest.raises(GraphError, match="cannot wait for itself"):
        graph.control(graph, graph)
    with pytest.raises(CycleError):
        graph.control(a, a)
    assert graph.check() == []


def test_remove_takes_control_edges_along() -> None:
    graph = Graph()
    a, b, c = (graph.add("f", name=n) for n in "abc")
    graph.control(a, b)
    graph.control(b, c)
    graph.control(graph, b)
    graph.control(b, graph)
    graph.remove(b)
    assert a.control_outputs == c.control_inputs == ()
    assert graph.inner_control_sinks == graph.inner_control_sources == ()
    assert graph.check() == []


def test_rename() -> None:
    graph, [a, b, *_] = diamond()
    graph.rename(a, "first")
    assert graph["first"] is a
    assert "a" not in graph
    with pytest.raises(DuplicateNameError):
        graph.rename(b, "first")
    graph.rename(b, None)
    assert b.name is None
    graph.rename(a, "first")
    assert graph.check() == []


def test_a_name_that_is_assigned_renames() -> None:
    graph, [a, b, *_] = diamond()
    a.name = "first"
    assert graph["first"] is a
    assert "a" not in graph
    with pytest.raises(DuplicateNameError):
        b.name = "first"
    with pytest.raises(UsageError, match="argument 'name'"):
        Graph().name = 3  # type: ignore[assignment]
    inner = graph.add_graph(Graph(name="inner"))
    inner.name = "outer"
    assert graph["outer"] is inner
    graph.remove(inner)
    inner.name = None
    assert inner.name is None
    assert graph.check() == []


def test_insert_on_an_edge() -> None:
    graph, [a, b, c, d] = diamond()
    edge = Edge(a.output, InputPort(c, 0))
    edge.attrs["k"] = 1
    probe = graph.insert(edge, "probe", {"n": 1}, name="p")
    assert c.inputs == (probe.output,)
    assert b.inputs == (a.output,)
    assert InputPort(c, 0).edge_attrs == {"k": 1}
    tail = graph.insert(Edge(d.output, InputPort(graph, 0, True)), "probe")
    assert graph.results == (tail.output,)
    with pytest.raises(GraphError, match="there is no edge"):
        graph.insert(edge, "probe")
    graph.control(a, d, {"why": "x"})
    (control,) = (e for e in graph.control_edges)
    between = graph.insert(control, "wait")
    assert between.control_inputs == (a,)
    assert d.control_inputs == (between,)
    assert graph.check() == []


def test_replace_uses_spares_the_new_op() -> None:
    graph, [a, b, c, _] = diamond()
    noise = graph.add("noise", [a.output])
    graph.replace_uses(a.output, noise.output)
    assert noise.inputs == (a.output,)
    assert b.inputs == c.inputs == (noise.output,)
    assert graph.check() == []


def test_parameters_and_results_can_go() -> None:
    graph = Graph(name="g")
    x, y, z = (graph.parameter(name=n) for n in "xyz")
    op = graph.add("f", [x, z], outputs=2)
    for value in op.outputs:
        graph.result(value)
    z.attrs["k"] = 1
    graph.outputs[1].attrs["r"] = 2
    with pytest.raises(InUseError, match="reads it"):
        graph.remove_parameter(0)
    graph.remove_parameter(1)
    assert graph.parameters == (x, z)
    assert (z.index, z.attrs) == (1, {"k": 1})
    graph.remove_result(0)
    assert graph.results == (op.outputs[1],)
    assert graph.outputs[0].attrs == {"r": 2}
    with pytest.raises(GraphError, match="has no parameter 2"):
        graph.remove_parameter(2)
    with pytest.raises(GraphError, match="is gone"):
        y.resolve()
    assert graph.check() == []


def test_recording_lists_changes() -> None:
    graph, [a, b, *_] = diamond()
    with graph.recording() as log:
        graph.rename(a, "first")
        graph.replace(b, [a.output], "fold")
    graph.rename(a, "again")
    assert [(c.what, c.op) for c in log] == [
        ("rename", "a"),
        ("connect", "d"),
        ("remove", "b"),
    ]
    assert str(log[2]) == "remove b: by fold"


@pytest.mark.parametrize("shape", ["same place", "front"])
def test_labels_stay_ordered_where_many_ops_go_to_one_place(shape: str) -> None:
    graph = Graph()
    first = graph.add("f", name="first")
    last = graph.add("f", name="last")
    assert graph.is_before(first, last)
    with graph.before(last if shape == "same place" else first):
        for _ in range(3000):
            graph.add("g")
    assert graph.check() == []


def test_many_random_backward_edges() -> None:
    import random

    rng = random.Random(1)
    graph = Graph()
    ops = [graph.add("f", [None, None, None]) for _ in range(300)]
    rank = list(range(300))
    rng.shuffle(rank)
    for _ in range(2000):
        i, j = rng.sample(range(300), 2)
        if rank[i] > rank[j]:
            i, j = j, i
        InputPort(ops[j], rng.randrange(3)).connect(ops[i].output)
    assert graph.check() == []
    cycles = 0
    for _ in range(300):
        i, j = rng.sample(range(300), 2)
        before = picture(graph)
        try:
            InputPort(ops[j], 0).connect(ops[i].output)
        except CycleError:
            cycles += 1
            assert picture(graph) == before
    assert cycles > 10
    assert graph.check() == []


def test_values_keep_identity() -> None:
    graph, [a, *_] = diamond()
    value: OutputPort = a.output
    assert graph["a"].output is value
    assert {value: 1}[graph["b"].inputs[0]] == 1  # type: ignore[index]


def test_uses_move_at_once_as_they_would_one_by_one() -> None:
    """Many readers, one that reads often or has many inputs; heirs that are read."""

    def changed(*, one_by_one: bool) -> Graph:
        graph = Graph("test")
        x = graph.parameter(name="x")
        heir, old = graph.add("heir", [x]).output, graph.add("old", [x]).output
        for i in range(12):
            graph.add("user", [old, x, old] if i % 3 else [old])
        graph.add("both", [heir, old])
        graph.add("wide", [old if i % 2 else heir for i in range(40)])
        graph.add("heirs", [heir, heir])
        if one_by_one:
            with graph.recording() as log:
                graph.replace(old.op, [heir])
            assert sum(change.what == "connect" for change in log) > 30
        else:
            graph.replace(old.op, [heir])
        assert old.resolve() is heir
        graph.replace(heir.op, [x])
        assert graph.check() == []
        return graph

    slow, fast = changed(one_by_one=True), changed(one_by_one=False)
    assert fast.same_as(slow)
    users = [[op.type for op in g.parameters[0].user_ops] for g in (slow, fast)]
    assert sorted(users[0]) == sorted(users[1])
