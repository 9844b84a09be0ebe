"""Sessions: counted by what a backend computes, op by op."""

from __future__ import annotations

import random
import sys
from collections import Counter
from threading import Thread
from types import ModuleType

import pytest

import amanda
from amanda.backend._results import copy_if_shared
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.host import Host
from amanda.session import Session
from amanda.session._feeds import copy_value
from amanda.session._parts import _orders

np = pytest.importorskip("numpy")

KERNELS = {
    "add": np.add,
    "subtract": np.subtract,
    "negate": np.negative,
    "log": np.log,
    "divide": np.divide,
}
SCALAR = amanda.parse_type("float32[]")
ROW = amanda.parse_type("float32[n]")


class Backend:
    """Runs ops by a table, and counts: what was compiled, which ops were computed."""

    name = "table"
    namespace = "test/table/1"

    def __init__(self):
        self.compiled = 0
        self.ran = Counter()

    @property
    def ops(self):
        return self.ran.total()

    def devices(self):
        return ["cpu"]

    def takes(self, op):
        return op.type in KERNELS or "no kernel"

    def compile(self, graph, device, options):
        self.compiled += 1
        rows = [(op.type, op.inputs, op.output, dict(op.attrs)) for op in graph]
        parameters, results = graph.parameters, graph.results

        def call(feeds, out=None):
            place = dict(zip(parameters, feeds.values(), strict=True))
            for type_, inputs, output, attrs in rows:
                if type_ == "constant":
                    place[output] = attrs["value"].numpy()
                    continue
                with np.errstate(all="ignore"):
                    place[output] = KERNELS[type_](*(place[v] for v in inputs))
                self.ran[type_] += 1
            return [place[value] for value in results]

        return call


@pytest.fixture
def backend():
    return Backend()


@pytest.fixture
def host(backend):
    made = Host(())
    made.register_backend("table", backend)
    return made


def scalars(*names):
    graph = Graph("test/table/1")
    return graph, [graph.parameter(SCALAR, name) for name in names]


def op(graph, type_, *inputs, name=None):
    value = graph.add(type_, inputs, name=name).output
    value.type = inputs[0].type
    return value


def feeds(**numbers):
    return {name: np.float32(number) for name, number in numbers.items()}


# -- only what changed ---------------------------------------------------------------


def large(count=1000, inputs=10, seed=3):
    """Random sums and differences; what each op depends on, told by hand."""
    graph, values = scalars(*(f"x{i}" for i in range(inputs)))
    draw = random.Random(seed)
    depends = {value: {i} for i, value in enumerate(values)}
    values = list(values)
    for i in range(count):
        a, b = draw.choice(values[-40:]), draw.choice(values[-40:])
        made = op(graph, draw.choice(["add", "subtract"]), a, b, name=f"op{i}")
        depends[made] = depends[a] | depends[b]
        values.append(made)
    used = {v for each in graph for v in each.inputs}
    for value in values[inputs:]:
        if value not in used:
            graph.result(value)
    return graph, depends


def expected(graph, fed):
    place = {p: fed[p.name] for p in graph.parameters}
    for each in graph:
        place[each.output] = KERNELS[each.type](*(place[v] for v in each.inputs))
    return [place[value] for value in graph.results]


def chains(length=100, inputs=10):
    """A chain for each input, joined in a row: 1,000 ops."""
    graph, starts = scalars(*(f"x{i}" for i in range(inputs)))
    ends = []
    for value in starts:
        for _ in range(length - 1):
            value = op(graph, "negate", value)
        ends.append(value)
    total = ends[0]
    for end in ends[1:]:
        total = op(graph, "add", total, end)
    graph.result(op(graph, "negate", total), "y")
    return graph


def test_one_changed_feed_recomputes_only_what_depends_on_it(host, backend):
    graph = chains()
    assert len(graph) == 1000
    session = Session(graph, host=host)
    fed = feeds(**{f"x{i}": i for i in range(10)})
    first = session.run(feeds=fed)["y"]
    assert (backend.ops, session.last.ops) == (1000, 1000)
    for i in range(10):
        before = backend.ops
        session.run(feeds=feeds(**{f"x{i}": i + 1}))
        joins = 9 if i == 0 else 10 - i
        assert backend.ops - before == 99 + joins + 1 == session.last.ops
    again = session.run()["y"]
    assert again == first + 10  # 99 negations of each, then one


def test_nothing_changed_recomputes_nothing(host, backend):
    session = Session(chains(), host=host)
    fed = feeds(**{f"x{i}": i for i in range(10)})
    y = session.run(feeds=fed)["y"]
    backend.ran.clear()
    for same in ({}, fed, feeds(**{f"x{i}": i for i in range(10)}), list(fed.values())):
        assert session.run(feeds=same)["y"] == y
    assert (backend.ops, session.last.ops, session.last.parts) == (0, 0, 0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_graphs_recompute_what_depends_and_give_what_they_should(
    host, backend, seed
):
    graph, depends = large(seed=seed)
    session = Session(graph, host=host)
    fed = feeds(**{f"x{i}": i / 8 for i in range(10)})
    session.run(feeds=fed)
    assert backend.ops == 1000
    draw = random.Random(seed)
    for _ in range(12):
        i = draw.randrange(10)
        fed[f"x{i}"] = np.float32(draw.random())
        before = backend.ops
        got = list(session.run(feeds={f"x{i}": fed[f"x{i}"]}).values())
        touched = sum(i in depends[each.output] for each in graph)
        assert backend.ops - before == touched
        np.testing.assert_allclose(got, expected(graph, fed), rtol=1e-4)


def test_many_inputs_do_not_make_many_parts(host, backend):
    graph = chains(length=2, inputs=300)
    session = Session(graph, host=host)
    fed = feeds(**{f"x{i}": 1 for i in range(300)})
    assert session.run(feeds=fed)["y"] == 300
    assert session.last.parts <= 64
    before = backend.ops
    assert session.run(feeds=feeds(x299=2))["y"] == 301
    assert backend.ops - before < 30


def test_only_the_needed_part_runs_and_is_fed(host, backend):
    graph, (a, b) = scalars("a", "b")
    left, right = op(graph, "negate", a, name="left"), op(graph, "log", b, name="right")
    graph.result(left, "l")
    graph.result(right, "r")
    session = Session(graph, host=host)
    assert session.run(["l"], feeds(a=2)) == {"l": -2}
    assert backend.ran == {"negate": 1}
    with pytest.raises(UsageError, match="no feed for 'b'"):
        session.run()
    assert session.run(["r", left], feeds(b=1)) == {"r": 0, left: -2}
    assert backend.ran == {"negate": 1, "log": 1}


def test_intermediate_targets_are_reused(host, backend):
    graph, (a,) = scalars("a")
    middle = op(graph, "negate", a, name="middle")
    graph.result(op(graph, "add", middle, middle, name="end"), "y")
    session = Session(graph, host=host)
    assert session.run([middle], feeds(a=3)) == {middle: -3}
    assert session.run(["y"]) == {"y": -6}
    assert session.run(["middle", "end"]) == {"middle": -3, "end": -6}
    assert backend.ran == {"negate": 1, "add": 1}


def test_feeds_count_by_content(host, backend):
    graph = Graph("test/table/1")
    x = graph.parameter(ROW, "x")
    graph.result(op(graph, "negate", x), "y")
    session = Session(graph, host=host)
    array = np.float32([1, np.nan, -0.0])
    session.run(feeds=[array])
    session.run(feeds=[array.copy()])
    assert backend.ops == 1
    array[0] = 2  # in place
    assert session.run(feeds=[array])["y"][0] == -2
    session.run(feeds=[np.float32([2, np.nan, 0.0])])  # 0.0 is not -0.0
    assert backend.ops == 3


def test_results_belong_to_the_caller(host):
    graph = Graph("test/table/1")
    x = graph.parameter(ROW, "x")
    graph.result(op(graph, "negate", x), "y")
    graph.result(x, "x")
    session = Session(graph, host=host)
    made = session.run(feeds=[np.ones(2, "float32")])
    for array in made.values():
        array += 100
    assert [v.tolist() for v in session.run().values()] == [[-1, -1], [1, 1]]


def test_feeds_that_do_not_fit_change_nothing(host):
    graph, (a, b) = scalars("a", "b")
    graph.result(op(graph, "add", a, b), "y")
    session = Session(graph, host=host)
    session.run(feeds=feeds(a=1, b=2))
    for wrong, text in (
        ({"a": np.float32(5), "z": 1}, "no input 'z'"),
        ({"a": np.float32(5), "b": np.float64(1)}, "float64, not float32"),
        ([np.float32(1)], "one for each input"),
    ):
        with pytest.raises(UsageError, match=text):
            session.run(feeds=wrong)
    assert session.run()["y"] == 3


def test_symbols_agree_between_feeds_of_several_runs(host):
    graph = Graph("test/table/1")
    a, b = (graph.parameter(ROW, name) for name in "ab")
    graph.result(op(graph, "add", a, b), "y")
    session = Session(graph, host=host)
    two, three = np.ones(2, "float32"), np.ones(3, "float32")
    session.run(feeds=[two, two])
    with pytest.raises(UsageError, match="where n is"):
        session.run(feeds={"a": three})
    assert session.run(feeds={"b": three})["y"].tolist() == [2, 2, 2]


# -- executables ---------------------------------------------------------------------


def test_equal_parts_share_an_executable(host, backend):
    graph, values = scalars(*"abcd")
    for i, (x, y) in enumerate([values[:2], values[2:]]):
        graph.result(op(graph, "subtract", op(graph, "add", x, y), x), f"r{i}")
    session = Session(graph, host=host)
    fed = feeds(a=1, b=2, c=3, d=4)
    assert session.run(["r0"], fed) == {"r0": 2}
    assert session.run(["r1"]) == {"r1": 4}
    assert (backend.compiled, session.last.compiled, backend.ops) == (1, 0, 4)


def test_an_executable_is_found_for_other_inputs(host, backend):
    graph, (a, b, c, d) = scalars(*"abcd")
    graph.result(op(graph, "subtract", op(graph, "negate", a), b), "first")
    inner = op(graph, "negate", d)
    graph.result(op(graph, "subtract", inner, c), "second")
    session = Session(graph, host=host)
    fed = feeds(a=1, b=2, c=30, d=4)
    assert session.run(["first"], fed) == {"first": -3}
    assert session.run(["second"]) == {"second": -34}
    assert (backend.compiled, session.last.compiled) == (2, 0)  # one for each op


def test_orders_come_with_most_old_places_kept_first():
    graph, (a, b, d) = scalars(*"abd")
    row = graph.parameter(ROW, "row")
    orders = list(_orders([d, row, b], [a, row, b]))
    assert orders[0] == (d, row, b)  # row and b stay
    assert set(orders) == {(d, row, b), (b, row, d)}  # types stand as they did
    kept = [sum(x is y for x, y in zip(o, (a, row, b), strict=True)) for o in orders]
    assert kept == sorted(kept, reverse=True)
    many = [graph.parameter(SCALAR) for _ in range(300)]
    assert next(_orders(many, many[::-1])) == tuple(many[::-1])


def test_the_search_for_an_order_is_bounded(host, backend):
    """12 inputs have 479,001,600 orders."""
    graph, values = scalars(*(f"x{i}" for i in range(24)))
    for start in (0, 12):
        row = values[start : start + 12]
        row = row if not start else row[::-1]
        total = row[0]
        for i, value in enumerate(row[1:]):
            total = op(graph, "subtract" if i % 3 else "divide", total, value)
        graph.result(total, f"r{start}")
    session = Session(graph, host=host)
    fed = feeds(**{f"x{i}": i + 1 for i in range(24)})
    got = session.run(["r0", "r12"], fed)
    for start, value in zip((0, 12), expected(graph, fed), strict=True):
        assert got[f"r{start}"] == value


def test_update_keeps_executables_and_feeds(host, backend):
    graph, (a, b) = scalars("a", "b")
    graph.result(op(graph, "add", a, b), "y")
    session = Session(graph, host=host)
    session.run(feeds=feeds(a=1, b=2))
    graph.result(op(graph, "negate", b), "z")
    with pytest.raises(UsageError, match="no result and no op 'z'"):
        session.run(["z"])
    with pytest.raises(UsageError, match="update"):
        session.run([graph.results[1]])
    session.update()
    assert session.run(["y", "z"]) == {"y": 3, "z": -2}
    assert backend.compiled == 2


# -- step by step ----------------------------------------------------------------------


def test_steps_run_as_far_as_one_looks(host, backend):
    graph, (a,) = scalars("a")
    one = op(graph, "negate", a, name="one")
    two = op(graph, "add", one, one, name="two")
    op(graph, "log", a, name="unused")
    graph.result(op(graph, "negate", two, name="three"), "y")
    session = Session(graph, host=host)
    steps = session.steps(["y"], feeds(a=1))
    assert [(o.name, v) for o, v in (next(steps), next(steps))] == [
        ("one", [-1]),
        ("two", [-2]),
    ]
    assert backend.ran == {"negate": 1, "add": 1}


def test_the_first_nan_is_found_and_nothing_after_it_is_run(host, backend):
    graph = Graph("test/table/1")
    x = graph.parameter(ROW, "x")
    value = x
    for i in range(100):
        value = op(graph, "log" if i == 50 else "negate", value, name=f"op{i}")
    graph.result(value, "y")
    session = Session(graph, host=host)
    array = np.float32([2, -1, 3])
    found = session.first_not_finite(feeds=[array])
    assert (found.op.name, found.what) == ("op50", "NaN")
    assert (found.places, found.number) == (((1,),), 1)
    assert str(found) == "NaN from log 'op50': 1 elements, at [1]"
    assert backend.ops < 70
    assert session.first_not_finite(feeds=[np.float32([1, 2])]) is None
    found = session.first_not_finite(feeds=[np.float32([1, 0])])
    assert (found.op.name, found.what, found.places) == ("op50", "Inf", ((1,),))


# -- threads -------------------------------------------------------------------------


def test_a_call_during_another_one_gets_the_values_of_its_feeds(host, monkeypatch):
    """While the op of the first call runs, a second thread calls with another feed."""
    graph, (x,) = scalars("x")
    graph.result(op(graph, "negate", x), "y")
    session = Session(graph, host=host)
    found, threads = [], []

    def negate(value):
        if value == 1 and not threads:
            second = Thread(target=lambda: found.append(session.run(["y"], feeds(x=2))))
            threads.append(second)
            second.start()
            second.join(0.3)  # it would end here if calls overlapped
        return np.negative(value)

    monkeypatch.setitem(KERNELS, "negate", negate)
    assert session.run(["y"], feeds(x=1))["y"] == -1
    threads[0].join()
    assert found == [{"y": -2}]
    assert session.run(["y"], feeds(x=2))["y"] == -2


def test_steps_end_with_an_error_where_the_session_is_used_between(host):
    graph, (x,) = scalars("x")
    graph.result(op(graph, "negate", op(graph, "negate", x)), "y")
    for change in (
        lambda s: s.run(["y"], feeds(x=2)),
        lambda s: s.forget(),
        lambda s: s.update(),
        lambda s: list(s.steps(["y"], feeds(x=1))),
    ):
        session = Session(graph, host=host)
        steps = session.steps(["y"], feeds(x=1))
        assert next(steps)[1] == [-1]
        change(session)
        with pytest.raises(UsageError, match="used otherwise between two steps"):
            next(steps)
    session = Session(graph, host=host)
    steps = session.steps(["y"], feeds(x=1))
    next(steps)
    assert session.run(["y"])["y"] == 1  # with the same feeds
    assert [values for _, values in steps] == [[1]]


def test_a_library_that_another_thread_is_importing(host, monkeypatch):
    """Until that is done, its module is in sys.modules without its names."""
    graph, (x,) = scalars("x")
    graph.result(op(graph, "negate", x), "y")
    session = Session(graph, host=host)
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    for _ in range(2):
        assert session.run(["y"], feeds(x=1))["y"] == -1
    monkeypatch.setitem(sys.modules, "numpy", ModuleType("numpy"))
    assert copy_value(["a"]) == ["a"]
    assert copy_if_shared([1], []) == [1]
