"""Random change: what is accepted keeps every invariant, what is refused moves nothing.

A list of ops per step stands beside the graph as its model: a dict of who reads what.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from strategies import examples, graphs

from amanda.errors import GraphError
from amanda.graph import Graph, InputPort, Op, OutputPort

pytestmark = pytest.mark.install_independent

picks = st.integers(0, 1 << 30)


def picture(root: Graph) -> list[object]:
    """Ops, edges, names, marks, by identity, without the order."""
    seen: list[object] = []
    for graph in sorted(root.graphs(), key=id):
        seen += [graph, graph.parameters, graph.results, graph.inner_control_sinks]
        seen.append(frozenset(graph))
        seen.append(frozenset((op, op.name, op.inputs) for op in graph))
        seen.append(frozenset((op, frozenset(op.control_inputs)) for op in graph))
        seen.append(frozenset((op, frozenset(op.bodies.items())) for op in graph))
    for value in all_values(root):
        seen += [value, frozenset(value.users), value.marks]
    return seen


def all_values(root: Graph) -> list[OutputPort]:
    values: list[OutputPort] = []
    for graph in root.graphs():
        values += graph.parameters
        for op in graph:
            values += op.outputs
    return sorted(values, key=id)


class Changing(RuleBasedStateMachine):
    """Every public mutation, with arguments that are legal or not as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Graph("amanda/test/1", "root")
        self.root.parameter(name="x")
        self.removed: list[OutputPort] = []

    def all_graphs(self) -> list[Graph]:
        return list(self.root.graphs())

    def graph(self, pick: int) -> Graph:
        return self.all_graphs()[pick % len(self.all_graphs())]

    def op(self, pick: int) -> Op | None:
        ops = list(self.root.walk())
        return ops[pick % len(ops)] if ops else None

    def value(self, pick: int) -> OutputPort:
        values = [v for g in self.all_graphs() for v in g.parameters]
        values += [v for op in self.root.walk() for v in op.outputs]
        values += self.removed[:3]
        return values[pick % len(values)]

    def attempt(self, change: object) -> None:
        before = picture(self.root)
        refused = False
        try:
            change()  # type: ignore[operator]
        except GraphError:
            refused = True
        assert not refused or picture(self.root) == before

    @rule(a=picks, inputs=st.lists(picks, max_size=4), outputs=st.integers(0, 3),
          named=st.booleans(), at=st.none() | picks)  # fmt: skip
    def add(self, a: int, inputs: list[int], outputs: int, named: bool,
            at: int | None) -> None:  # fmt: skip
        graph = self.graph(a)
        values = [self.value(i) for i in inputs]
        point = None
        if at is not None and len(graph):
            point = graph[at % len(graph)]

        def change() -> None:
            with graph.before(point):
                graph.add("f", values, name=f"n{a % 7}" if named else None,
                          outputs=outputs)  # fmt: skip

        self.attempt(change)

    @rule(a=picks)
    def parameter(self, a: int) -> None:
        self.graph(a).parameter()

    @rule(a=picks, b=picks)
    def result(self, a: int, b: int) -> None:
        self.attempt(lambda: self.graph(a).result(self.value(b)))

    @rule(a=picks)
    def body(self, a: int) -> None:
        if (op := self.op(a)) is not None and op.graph is not None:
            self.attempt(lambda: op.set_body(f"b{a % 3}", Graph(outer=op.graph)))

    @rule(a=picks, b=picks)
    def subgraph(self, a: int, b: int) -> None:
        inner = Graph(outer=self.graph(a))
        inner.parameter()
        self.attempt(lambda: self.graph(a).add_graph(inner, [self.value(b)]))

    @rule(a=picks, b=picks, i=picks)
    def connect(self, a: int, b: int, i: int) -> None:
        op = self.op(a)
        if op is not None and op.inputs:
            port = InputPort(op, i % len(op.inputs))
            self.attempt(lambda: port.connect(self.value(b)))

    @rule(a=picks, b=picks)
    def control(self, a: int, b: int) -> None:
        first, then = self.op(a), self.op(b)
        if first is not None and then is not None and first.graph is not None:
            home = first.graph
            self.attempt(lambda: home.control(first, then))

    @rule(a=picks, b=picks)
    def boundary(self, a: int, b: int) -> None:
        op = self.op(a)
        if op is not None and op.graph is not None:
            home = op.graph
            ends = (home, op) if b % 2 else (op, home)
            self.attempt(lambda: home.control(*ends))

    @rule(a=picks, values=st.lists(picks, max_size=3))
    def replace(self, a: int, values: list[int]) -> None:
        op = self.op(a)
        if op is not None and op.graph is not None:
            home, old = op.graph, op.outputs
            news = [self.value(v) for v in values]
            self.attempt(lambda: home.replace(op, news))
            if op.graph is None:
                self.removed = [*old, *self.removed]

    @rule(a=picks)
    def remove(self, a: int) -> None:
        op = self.op(a)
        if op is not None and op.graph is not None:
            home, old = op.graph, op.outputs
            self.attempt(lambda: home.remove(op))
            if op.graph is None:
                self.removed = [*old, *self.removed]

    @rule(a=picks, b=picks)
    def replace_uses(self, a: int, b: int) -> None:
        self.attempt(lambda: self.root.replace_uses(self.value(a), self.value(b)))

    @rule(a=picks, b=picks)
    def insert(self, a: int, b: int) -> None:
        edges = list(self.graph(a).edges)
        if edges:
            edge = edges[b % len(edges)]
            self.attempt(lambda: self.graph(a).insert(edge, "probe"))

    @rule(a=picks, b=picks)
    def rename(self, a: int, b: int) -> None:
        op = self.op(a)
        if op is not None and op.graph is not None:
            home = op.graph
            self.attempt(lambda: home.rename(op, f"n{b % 7}"))

    @rule(a=picks, b=picks)
    def mark(self, a: int, b: int) -> None:
        value = self.value(a)
        (value.mark if b % 3 else value.unmark)("keep")

    @rule(a=picks, i=picks)
    def cut(self, a: int, i: int) -> None:
        graph = self.graph(a)
        if graph.parameters and i % 2 and graph is not self.root:
            index = i % len(graph.parameters)
            self.attempt(lambda: graph.remove_parameter(index))
        elif graph.results:
            self.attempt(lambda: graph.remove_result(i % len(graph.results)))

    @rule(a=picks, steps=st.lists(st.tuples(picks, picks, picks), max_size=4))
    def wiring(self, a: int, steps: list[tuple[int, int, int]]) -> None:
        graph = self.graph(a)

        def change() -> None:
            with graph.wiring():
                for b, c, i in steps:
                    ops = list(graph)
                    if ops and ops[b % len(ops)].inputs:
                        op = ops[b % len(ops)]
                        port = InputPort(op, i % len(op.inputs))
                        port.connect(self.value(c))

        self.attempt(change)

    @invariant()
    def nothing_is_broken(self) -> None:
        assert self.root.check() == []


Changing.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None
)
TestChanging = Changing.TestCase


@settings(max_examples=examples(100), deadline=None)
@given(graphs())
def test_a_clone_is_equal_apart_and_whole(graph: Graph) -> None:
    assert graph.check() == []
    memo: dict[object, object] = {}
    twin = graph.clone(memo=memo)
    assert twin.check() == []
    assert twin.difference(graph) is None
    assert twin.digest(content=True, names=True) == graph.digest(
        content=True, names=True
    )
    assert twin.digest() == graph.digest()
    ours = {id(op) for op in graph.walk()}
    assert not ours & {id(op) for op in twin.walk()}
    assert all(memo[op] in set(twin.walk()) for op in graph.walk())


@settings(max_examples=examples(60), deadline=None)
@given(graphs(), graphs())
def test_equal_graphs_and_only_they_have_equal_digests(a: Graph, b: Graph) -> None:
    for names in (False, True):
        same = a.same_as(b, names=names)
        assert same == (
            a.digest(content=True, names=names) == b.digest(content=True, names=names)
        )


@settings(max_examples=examples(60), deadline=None)
@given(graphs(), picks)
def test_a_clone_of_what_targets_need(graph: Graph, pick: int) -> None:
    values = [v for op in graph for v in op.outputs]
    if not values:
        return
    target = values[pick % len(values)]
    part = graph.clone([target])
    assert part.check() == []
    assert len(part) == len(graph.upstream(target))
    assert len(part.results) == 1
    whole = graph.clone([target], rename="copy_{name}")
    assert all(op.name is None or op.name.startswith("copy_") for op in whole)


@settings(max_examples=examples(60), deadline=None)
@given(graphs())
def test_pasting_twice_keeps_names_unique(graph: Graph) -> None:
    host = Graph("amanda/test/1")
    inputs = [host.parameter() for _ in graph.parameters]
    source = graph.clone()
    for name in list(source.entries):
        source.remove_entry(name)
    for _ in range(2):
        values = host.paste(source, inputs)
        assert len(values) == len(source.results)
    assert len(host) == 2 * len(source)
    assert host.check() == []


def test_the_digest_does_not_depend_on_building_order() -> None:
    def build(backwards: bool) -> Graph:
        graph = Graph("amanda/test/1")
        x = graph.parameter()
        kinds = ["a", "b"]
        made = {
            kind: graph.add(kind, [x]).output
            for kind in (reversed(kinds) if backwards else kinds)
        }
        graph.result(graph.add("c", [made["a"], made["b"]]).output)
        return graph

    assert build(True).digest() == build(False).digest()
    assert build(True).same_as(build(False))


@pytest.mark.parametrize("change", ["type", "attr", "edge", "share", "result", "order"])
def test_the_digest_sees_every_difference(change: str) -> None:
    def build(changed: str) -> Graph:
        graph = Graph("amanda/test/1")
        x, y = graph.parameter(), graph.parameter()
        a = graph.add("g" if changed == "type" else "f", [x])
        a.attrs["k"] = 1.0 if changed == "attr" else 1
        b = graph.add("f", [y if changed == "edge" else x], {"k": 1})
        pair = [a.output, a.output if changed == "share" else b.output]
        c = graph.add("h", pair[::-1] if changed == "order" else pair, outputs=2)
        graph.result(c.outputs[1 if changed == "result" else 0])
        return graph

    plain, other = build(""), build(change)
    assert plain.digest() == build("").digest()
    if change == "order":  # a and b are alike: the graphs are the same
        assert plain.digest() == other.digest()
        return
    assert plain.digest() != other.digest()
    assert plain.difference(other)


@pytest.mark.parametrize("swap", [False, True])
def test_unnamed_dims_are_told_apart_by_where_they_stand(swap: bool) -> None:
    from amanda.types import Shape, Sym

    def build(swapped: bool, other: bool = False) -> Graph:
        a, b = Sym.unknown(), Sym.unknown()
        if swapped:
            a, b = b, a
        graph = Graph("amanda/test/1")
        graph.add("f", attrs={"s": Shape([a + b]), "t": Shape([b]), "u": Shape([a])})
        graph.add("g", attrs={"v": Shape([b if other else a])})
        return graph

    assert build(False).same_as(build(swap))
    assert build(False).digest() == build(swap).digest()
    assert not build(False).same_as(build(swap, other=True))
    assert build(False).digest() != build(swap, other=True).digest()


def test_signals_inside_and_outside_a_graph_are_not_mixed_up() -> None:
    def build(inside_first: bool) -> Graph:
        root = Graph("amanda/test/1")
        first = root.add("first", name="first")
        inner = root.add_graph(Graph(name="inner"))
        last = inner.add("last", name="last")
        steps = [
            lambda: root.control(first, inner, {"k": "outside"}),
            lambda: inner.control(last, inner, {"k": "inside"}),
        ]
        for step in reversed(steps) if inside_first else steps:
            step()
        return root

    assert build(True).same_as(build(False))
    assert build(True).digest() == build(False).digest()


def test_signals_of_a_feedback_op_do_not_order() -> None:
    graph = Graph("amanda/test/1")
    first = graph.add("f")
    back = graph.add("NextIteration", feedback=True)
    graph.control(back, first)
    assert list(graph) == [first, back]
    assert graph.check() == []
