"""Backends: choosing one, compiling, and what the core does around each call."""

from __future__ import annotations

import gc
import threading
from copy import deepcopy
from typing import ClassVar

import pytest

import amanda
from amanda.errors import (
    BackendError,
    ConversionError,
    PluginBrokenError,
    PluginMissingError,
    UsageError,
)
from amanda.graph import Graph
from amanda.host import Host

np = pytest.importorskip("numpy")

KERNELS = {
    "negate": np.negative,
    "add": np.add,
    "same": lambda x: x,
    "split": lambda x: (x[:1], x[1:]),
    "fail": lambda x: 1 / 0,
}


class Backend:
    """Runs ops by a table; what it returns for `same` is what it was given."""

    name = "table"
    namespace = "test/table/1"

    def devices(self):
        return ["cpu", "gpu:0"]

    def takes(self, op):
        return True if op.type in KERNELS else f"there is no kernel for {op.type}"

    def compile(self, graph, device, options):
        if device not in (None, "cpu", "gpu:0", "./lib.so"):
            raise BackendError(f"no device {device!r}")

        def call(feeds, out=None):
            place = dict(zip(graph.parameters, feeds.values(), strict=True))
            for op in graph:
                if op.type == "constant":
                    place[op.output] = op.attrs["value"].numpy()
                    continue
                results = KERNELS[op.type](*(place[value] for value in op.inputs))
                results = results if isinstance(results, tuple) else (results,)
                place.update(zip(op.outputs, results, strict=True))
            results = [place[value] for value in graph.results]
            for given, result in zip((out or {}).values(), results, strict=False):
                given[...] = result
            return [*(out or {}).values()] or results

        return call


@pytest.fixture
def host() -> Host:
    made = Host(())
    made.register_backend("table", Backend)
    return made


@pytest.fixture
def graph() -> Graph:
    made = Graph("test/table/1")
    x = made.parameter(amanda.parse_type("float32[n, 2]"), name="x")
    y = made.parameter(amanda.parse_type("float32[n, 2]"), name="y")
    total = made.add("add", [x, y], name="total").output
    made.result(made.add("negate", [total], name="minus").output, "out")
    made.result(x, "x again")
    return made


ONE = np.ones((3, 2), "float32")


def told(kind, action) -> str:
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value)


def test_feeds_by_name_and_in_order(host, graph):
    for feeds in ({"y": 2 * ONE, "x": ONE}, [ONE, 2 * ONE], (ONE, 2 * ONE)):
        results = amanda.run(graph, feeds, host=host)
        assert list(results) == ["out", "x again"]
        np.testing.assert_array_equal(results["out"], -3 * ONE)


def test_what_has_no_name_goes_by_its_place(host):
    graph = Graph("test/table/1")
    x = graph.parameter()
    graph.parameter(name="y")
    graph.result(x)
    compiled = amanda.compile(graph, "table", host=host)
    assert list(compiled({0: 1, "y": 2})) == [0]
    assert repr(compiled) == "<compiled by table: (0, y) -> (0)>"


def test_an_input_of_unknown_rank_takes_any_shape(host):
    graph = Graph("test/table/1")
    x = graph.parameter(amanda.parse_type("float32[...]"), name="x")
    graph.result(graph.add("negate", [x]).output, "y")
    for value in (np.float32(2), ONE, ONE[None]):
        (result,) = amanda.run(graph, [np.asarray(value)], host=host).values()
        np.testing.assert_array_equal(result, -value)


@pytest.mark.parametrize(
    ("feeds", "problems"),
    [
        ({"x": ONE, "z": ONE}, ["no input 'z'", "no feed for 'y'"]),
        (
            {"x": ONE, "yy": ONE},
            ["no input 'yy'; did you mean 'y'?", "no feed for 'y'"],
        ),
        ([ONE], ["1 value is fed"]),
        ([ONE, ONE[:2]], ["'y' is of shape [2, 2], not [n, 2] where n is 3 by 'x'"]),
        ([ONE[:, 0], ONE], ["'x' is of shape [3], not [n, 2]"]),
        ([ONE, ONE[:, :1]], ["'y' is of shape [3, 1], not [n, 2]"]),
        (
            [ONE.astype("float64"), ONE.astype(bool)],
            ["'x' is float64, not float32", "'y' is bool, not float32"],
        ),
    ],
)
def test_feeds_that_do_not_fit_are_told_all_at_once(host, graph, feeds, problems):
    text = told(UsageError, lambda: amanda.run(graph, feeds, host=host))
    assert text.splitlines() == [
        "the feeds do not match the graph",
        "  expected: x: float32[n, 2], y: float32[n, 2]",
        *(f"  - {problem}" for problem in problems),
    ]


def test_feeds_of_another_kind_are_told(host, graph):
    text = told(UsageError, lambda: amanda.run(graph, ONE, host=host))
    assert text == (
        "run does not take this argument\n"
        "  where:    argument 'feeds'\n"
        "  expected: Mapping[Any, Any] or Sequence[Any]\n"
        "  got:      ndarray"
    )


def test_results_are_of_their_own(host):
    graph = Graph("test/table/1")
    x = graph.parameter(name="x")
    one, rest = graph.add("split", [x], outputs=2, name="parts").outputs
    for value in (x, graph.add("same", [x]).output, one, rest):
        graph.result(value)
    feed = np.arange(4.0)
    results = [feed, *amanda.run(graph, [feed], host=host).values()]
    for i, result in enumerate(results):
        assert not any(np.shares_memory(result, other) for other in results[:i])
    np.testing.assert_array_equal(results[2], feed)


def test_arrays_to_write_to_are_used(host, graph):
    compiled = amanda.compile(graph, host=host)
    out = {"out": np.empty((3, 2), "float32"), "x again": np.empty((3, 2), "float32")}
    results = compiled([ONE, ONE], out)
    assert results["out"] is out["out"]
    assert results["out"][0, 0] == -2


def test_targets_are_anywhere_and_only_they_are_run(host, graph):
    total = graph["total"]
    graph.add("fail", [graph.parameters[0]], name="bad")
    feeds = {"x": ONE, "y": ONE}
    targets = ["out", "total", "total:0", total, total.output]
    results = amanda.run(graph, feeds, targets, host=host)
    assert list(results) == [*targets[:-2], total, total.output]
    assert results[total][0, 0] == 2
    assert list(amanda.run(graph, {"x": ONE}, ["x again"], host=host)) == ["x again"]
    text = told(UsageError, lambda: amanda.run(graph, feeds, ["totl"], host=host))
    assert text == (
        "the graph has no result and no op 'totl'\n"
        "  expected: the name of a result or an op, name:index, an op, or a value\n"
        "  to do:    did you mean 'total'?"
    )


@pytest.mark.parametrize(
    ("backend", "device", "where"),
    [
        ("table", None, None),
        ("table:gpu:0", None, "gpu:0"),
        ("table", "cpu", "cpu"),
        ("table:cpu", "cpu", "cpu"),
        ("table:./lib.so", None, "./lib.so"),
        ("program:table:cpu", None, "cpu"),
        (None, "cpu", "cpu"),
    ],
)
def test_a_backend_is_chosen_with_its_device(host, graph, backend, device, where):
    assert amanda.compile(graph, backend, device, host=host).device == where


def test_the_environment_chooses_the_default(host, graph, monkeypatch):
    host.register_backend("other", Backend)
    monkeypatch.setenv("AMANDA_BACKEND", "table:cpu")
    compiled = amanda.compile(graph, host=host)
    assert (compiled.backend, compiled.device) == ("table", "cpu")
    assert amanda.compile(graph, "other", host=host).backend == "other"
    monkeypatch.delenv("AMANDA_BACKEND")
    assert told(UsageError, lambda: amanda.compile(graph, host=host)) == (
        "several backends are installed, but none is chosen\n"
        "  to do:    name one, or set AMANDA_BACKEND\n"
        "  - other (this program): loaded\n"
        "  - table (this program): loaded"
    )


def test_what_cannot_be_chosen_is_told(host, graph, nothing_installed):
    text = told(PluginMissingError, lambda: amanda.compile(graph, "jax:gpu", host=host))
    assert text == (
        "no backend 'jax' is installed\n"
        "  expected: one of table\n"
        "  to do:    pip install amanda-jax\n"
        "  - table (this program): loaded"
    )
    text = told(
        UsageError, lambda: amanda.compile(graph, "table:cpu", "gpu:0", host=host)
    )
    assert text == (
        "two devices are named: 'cpu' and 'gpu:0'\n  where:    backend='table:cpu'"
    )
    text = told(PluginMissingError, lambda: amanda.compile(graph, host=Host(())))
    assert text.startswith("no backend is installed, so nothing can run a graph")


def test_every_op_that_is_not_taken_is_told(host, graph):
    body = Graph()
    body.add("inner", [])
    graph.add("if", [], name="choice", bodies={"then": body})
    text = told(BackendError, lambda: amanda.compile(graph, "table", host=host))
    assert text.splitlines() == [
        "backend 'table' of this program does not take 2 ops of the graph",
        "  to do:    choose another backend, or replace these ops",
        "  - if 'choice': there is no kernel for if",
        "  - inner #0, in body 'then' of if 'choice': there is no kernel for inner",
    ]


class Few(Backend):
    """A backend that takes fewer ops, and remembers which graphs it got."""

    name = "few"
    seen: ClassVar[list[Graph]] = []

    def takes(self, op):
        return True if op.type in ("negate", "same") else f"{op.type} is too hard"

    def compile(self, graph, device, options):
        self.seen.append(graph)
        return super().compile(graph, device, options)


class TestFallback:
    @pytest.fixture
    def host(self, host) -> Host:
        Few.seen.clear()
        host.register_backend("few", Few)
        manifest = {"namespace": "test/table/1"}
        host.register_backend("table", Backend, manifest=manifest, replace=True)
        return host

    def mixed(self) -> Graph:
        """negate, add, negate, of which `few` takes the first and the last."""
        graph = Graph("test/table/1")
        x = graph.parameter(amanda.parse_type("float32[n, 2]"), name="x")
        first = graph.add("negate", [x], name="first").output
        total = graph.add("add", [first, x], name="total").output
        graph.result(graph.add("negate", [total], name="last").output, "out")
        graph.result(total, "between")
        return graph

    def test_as_few_pieces_as_it_takes_and_each_is_told(self, host):
        compiled = amanda.compile(self.mixed(), "few", fallback="table", host=host)
        results = compiled([ONE])
        np.testing.assert_array_equal(results["out"], 0 * ONE)
        np.testing.assert_array_equal(results["between"], 0 * ONE)
        report = compiled.executable.report()
        assert [(p.backend, p.ops) for p in report.pieces] == [
            ("few", ("negate 'first'",)),
            ("table", ("add 'total'",)),
            ("few", ("negate 'last'",)),
        ]
        assert report.pieces[1].why == ("few: add 'total': add is too hard",)
        assert [(c.made_by, c.read_by, c.bytes) for c in report.transfers] == [
            ("few", "table", ONE.nbytes),
            ("table", "few", ONE.nbytes),
        ]
        assert "few: add 'total': add is too hard" in str(report)

    def test_without_one_it_is_an_error(self, host):
        text = told(
            BackendError, lambda: amanda.compile(self.mixed(), "few", host=host)
        )
        assert "add 'total': add is too hard" in text
        assert "or name a fallback that runs them: table\n" in text

    def test_a_graph_that_is_taken_whole_is_not_cut(self, host):
        graph = Graph("test/table/1")
        graph.result(graph.add("negate", [graph.parameter()]).output)
        amanda.compile(graph, "few", fallback="table", host=host)
        assert len(Few.seen) == 1

    def test_what_nobody_takes_is_told_with_each_ones_reason(self, host, graph):
        graph.add("fly", [])
        text = told(
            BackendError,
            lambda: amanda.compile(graph, "few", fallback=["table"], host=host),
        )
        assert "few: fly #2: fly is too hard" in text
        assert "table: fly #2: there is no kernel for fly" in text

    def test_what_a_body_needs_decides_for_the_op_that_holds_it(self, host):
        body = Graph()
        body.result(body.add("add", []).output)
        graph = Graph("test/table/1")
        graph.add("same", [], bodies={"then": body})
        text = told(BackendError, lambda: amanda.compile(graph, "few", host=host))
        assert "add #0, in body 'then' of same #0: add is too hard" in text

    def test_one_that_consumes_something_else(self, host):
        class Other(Backend):
            namespace = "test/other/1"

        host.register_backend("other", Other)
        text = told(
            UsageError,
            lambda: amanda.compile(self.mixed(), "few", fallback="other", host=host),
        )
        assert "expected: one that consumes test/table/1" in text
        missing = told(
            PluginMissingError,
            lambda: amanda.compile(self.mixed(), "few", fallback="none", host=host),
        )
        assert "no backend 'none' is installed" in missing


def test_a_graph_is_brought_to_the_namespace_of_the_backend(host):
    class Mapper:
        def apply(self, graph, to, *, keep_foreign, gap_met):
            result = graph.clone()
            result.namespace = to
            for op in result:
                op.type = op.type.lower()
            return result

    graph = Graph("test/loud/3")
    graph.result(graph.add("NEGATE", [graph.parameter(name="x")]).output, "y")
    text = told(ConversionError, lambda: amanda.compile(graph, "table", host=host))
    assert text.startswith(
        "no installed mappings lead from test/loud/3 to test/table/1"
    )
    manifest = {"from": "test/loud", "to": "test/table/1"}
    host.register_mapping("quiet", Mapper, manifest=manifest)
    assert amanda.run(graph, {"x": 5}, host=host) == {"y": -5}


def test_a_span_of_versions_is_consumed(host):
    class Many(Backend):
        namespace = "test/table/2..4"

    host.register_backend("table", Many, replace=True)
    graph = Graph("test/table/3")
    graph.result(graph.parameter(name="x"), "y")
    assert amanda.run(graph, [1], host=host) == {"y": 1}
    graph.namespace = "test/table/5"
    with pytest.raises(ConversionError):
        amanda.run(graph, [1], host=host)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (3, PluginBrokenError, "backend 'odd' of this program did not return an exec"),
        (lambda *_: [1], PluginBrokenError, "expected: out, x again\n  got:      list"),
        (lambda *_: {"out": 1}, PluginBrokenError, "x again\n  got:      out"),
        (
            lambda *_: 1 / 0,
            BackendError,
            "of this program failed while running\n  got: ",
        ),
    ],
)
def test_a_backend_that_breaks_its_contract_is_named(graph, answer, kind, words):
    class Odd(Backend):
        def compile(self, graph, device, options):
            return answer

    host = Host(())
    host.register_backend("odd", Odd)
    assert words in told(kind, lambda: amanda.run(graph, [ONE, ONE], host=host))


def test_a_backend_that_fails_to_compile_is_named(host, graph):
    class Odd(Backend):
        def compile(self, graph, device, options):
            raise RuntimeError(f"no {min(options)}")

    host.register_backend("odd", Odd)
    text = told(BackendError, lambda: amanda.compile(graph, "odd", speed=3, host=host))
    assert text.startswith("backend 'odd' of this program failed while compiling")
    assert "  got:      RuntimeError: no speed" in text


def test_events_are_told_once_a_call(host, graph):
    heard = []
    for hook in ("before_compile", "after_compile", "before_run", "after_run"):
        host.register_hook(hook, lambda hook=hook: heard.append(hook))
    compiled = amanda.compile(graph, host=host)
    compiled([ONE, ONE])
    compiled([ONE, ONE])
    run = ["before_run", "after_run"]
    assert heard == ["before_compile", "after_compile", *run, *run]


def test_listeners_registered_between_calls_are_called(host, graph):
    heard = []
    compiled = amanda.compile(graph, host=host)
    compiled([ONE, ONE])
    host.register_hook("before_run", lambda: heard.append("before_run"))
    compiled([ONE, ONE])
    assert heard == ["before_run"]
    host.unregister("hooks", "before_run")
    compiled([ONE, ONE])
    assert heard == ["before_run"]


def test_listeners_are_looked_up_again_only_after_a_change(host, graph, monkeypatch):
    counts = []
    listens = Host.listens
    monkeypatch.setattr(
        Host, "listens", lambda *args: counts.append(1) or listens(*args)
    )
    compiled = amanda.compile(graph, host=host)
    counts.clear()
    for _ in range(5):
        compiled([ONE, ONE])
    assert len(counts) == 1
    host.refresh()
    compiled([ONE, ONE])
    assert len(counts) == 2


def test_threads_may_call(host, graph):
    compiled = amanda.compile(graph, host=host)
    wrong = []

    def call(number):
        for _ in range(20):
            if compiled([number * ONE, ONE])["out"][0, 0] != -(number + 1):
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_keeps_nothing_of_the_graph(host):
    class Forgetful(Backend):
        def compile(self, graph, device, options):
            return lambda feeds, out=None: list(feeds.values())

    def alive():
        gc.collect()
        return sum(issubclass(type(thing), Graph) for thing in gc.get_objects())

    host.register_backend("forgetful", Forgetful)
    before = alive()
    graph = Graph("test/table/1")
    graph.result(graph.parameter(name="x"), "y")
    compiled = amanda.compile(graph, "forgetful", host=host)
    assert alive() == before + 1
    del graph
    assert alive() == before
    assert compiled([4]) == {"y": 4}


# Dictionaries


class ToyNamespace(dict):
    name = "amanda/toy"


class ToyNamespaces:
    def versions(self):
        return ["1", "2"]

    def at(self, version):
        return ToyNamespace(version=version)


def test_namespaces_are_chosen_by_name():
    host = Host(())
    host.register_namespace("toy", ToyNamespaces, manifest={"versions": ["1", "2"]})
    host.register_namespace("acme/lazy", ToyNamespaces)
    assert amanda.namespace("toy", host=host) == {"version": "2"}
    assert amanda.namespace("amanda/toy/1", host=host) == {"version": "1"}
    assert amanda.namespace("acme/lazy", host=host) == {"version": "2"}
    assert amanda.namespace("acme/lazy@1", host=host) == {"version": "1"}
    with pytest.raises(amanda.AmandaError) as caught:
        amanda.namespace("acme/lazy@3", host=host)
    assert str(caught.value) == (
        "acme/lazy has no version 3\n"
        "  expected: one of 1, 2\n"
        "  to do:    the nearest is acme/lazy@2"
    )
    with pytest.raises(amanda.AmandaError, match="no dictionary of 'tyo' is installed"):
        amanda.namespace("tyo", host=host)


def test_what_there_is(host):
    assert [entry.name for entry in amanda.backends(host=host)] == ["table"]
    assert [info.dist for info in amanda.plugins(host=host)] == ["program"]


def test_results_of_one_name_are_refused(host: Host, graph: Graph) -> None:
    graph.result(graph.parameters[1], "out")
    run = amanda.compile(graph, "table", host=host)
    text = told(UsageError, lambda: run([ONE, ONE]))
    assert "2 results of the graph are named 'out'" in text
    values = list(graph.results)
    found = amanda.run(graph, [ONE, ONE], values, backend="table", host=host)
    assert [found[value].tolist() for value in values[1:]] == [ONE.tolist()] * 2


def test_feeds_of_types_that_no_element_type_is_are_refused(
    host: Host, graph: Graph
) -> None:
    run = amanda.compile(graph, "table", host=host)
    for dtype in ("m8[s]", "V4"):
        text = told(UsageError, lambda dtype=dtype: run([ONE, np.zeros((3, 2), dtype)]))
        assert "not float32" in text


def test_feeds_of_another_byte_order_are_converted(host: Host, graph: Graph) -> None:
    run = amanda.compile(graph, "table", host=host)
    swapped = ONE.astype(">f4")
    for _ in range(2):
        found = run([swapped, ONE])
        assert found["x again"].dtype == np.dtype("float32")
        assert found["x again"].dtype.isnative
        assert found["out"].tolist() == [[-2.0, -2.0]] * 3


def test_feeds_of_subclasses_are_plain_arrays(host: Host, graph: Graph) -> None:
    run = amanda.compile(graph, "table", host=host)
    for value in (ONE, ONE.view(np.matrix), np.ma.masked_array(ONE)):
        found = run([value, value])["x again"]
        assert type(found) is np.ndarray
        assert found.tolist() == ONE.tolist()
    hidden = np.ma.masked_array(ONE, mask=[[True, False]] * 3)
    assert "masked elements" in told(UsageError, lambda: run([hidden, ONE]))


def test_what_is_compiled_is_not_copied(host: Host, graph: Graph) -> None:
    compiled = amanda.compile(graph, "table", host=host)
    for each in (compiled, amanda.Session(graph, "table", host=host)):
        assert "cannot be pickled" in told(UsageError, lambda each=each: deepcopy(each))
