"""Variables and effects: their order, state of executables, passes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import amanda
from amanda.errors import (
    AmandaError,
    BackendError,
    InvalidTypeError,
    PluginMissingError,
    UsageError,
)
from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.ops import OPS
from amanda_std.passes import drop, fold, infer, share
from amanda_std.runtime.state import State

X = parse_type("float32[2]")
ONES = np.ones(2, "float32")
PASSES = {"drop": drop, "fold": fold, "infer": infer, "share": share}


def compiled(function, types=(X,), **options):
    graph = trace(function, list(types))
    return amanda.compile(graph, "numpy", **options)


def values(made):
    return [np.asarray(v).tolist() for v in made.values()]


# -- order -------------------------------------------------------------------------


def mixed(x):
    """Reads between assigns; only the reads are results."""
    v = ops.variable(np.zeros(2, "float32"), key="v")
    first = ops.read(v)
    ops.assign(v, x)
    second = ops.read(v)
    ops.assign_add(v, x)
    ops.assign_subtract(v, np.float32([0, 1]))
    third = ops.read(v)
    ops.assign(v, third * 10.0)
    return first, second, third, ops.read(v)


def by_hand(x, start):
    return [start, x, 2 * x - [0, 1], (2 * x - [0, 1]) * 10]


def test_reads_see_earlier_assigns():
    run = compiled(mixed)
    x = np.float32([1, 2])
    for start in (np.zeros(2), np.array([20, 30])):
        expected = [list(row) for row in by_hand(x, start)]
        assert values(run([x])) == expected


@pytest.mark.parametrize("names", list(itertools.permutations(PASSES, 3)))
def test_passes_preserve_effect_order(names):
    graph = trace(mixed, [X])
    for name in names:
        PASSES[name](graph)
    assert graph.check() == []
    run = amanda.compile(graph, "numpy")
    x = np.float32([1, 2])
    assert values(run([x])) == [list(row) for row in by_hand(x, np.zeros(2))]


def test_effect_order_is_stored_as_control_edges(tmp_path):
    graph = trace(mixed, [X])
    path = tmp_path / "mixed.yaml"
    amanda.save(graph, path)
    x = np.float32([1, 2])
    for copy in (graph.clone(), amanda.load(path)):
        run = amanda.compile(copy, "numpy")
        assert values(run([x]))[1:] == [list(r) for r in by_hand(x, np.zeros(2))][1:]
        assert [len(op.control_inputs) for op in copy.ops.select("read")] == [
            0,
            1,
            1,
            1,
        ]


def test_only_ops_on_the_variable_are_ordered():
    def function(x):
        v, w = (ops.variable(ONES, key=k) for k in "vw")
        ops.assign(v, x)
        return ops.read(w), ops.read(w), ops.read(v)

    graph = trace(function, [X])
    waits = {op: len(op.control_inputs) for op in graph if op.control_inputs}
    assert list(waits.values()) == [1]  # the read of v


def test_bodies_are_ordered_with_outer_effects():
    def function(c, x):
        v = ops.variable(np.zeros(2, "float32"), key="v")
        ops.assign(v, x)

        def then():
            ops.assign_add(v, x)
            return ops.read(v)

        inside = ops.if_(c, then, lambda: ops.read(v))[0]
        return inside, ops.read(v)

    run = compiled(function, [parse_type("bool[]"), X])
    x = np.float32([1, 2])
    assert values(run([np.bool_(True), x])) == [[2, 4], [2, 4]]
    assert values(run([np.bool_(False), x])) == [[1, 2], [1, 2]]


def test_loops_that_read_a_variable_are_expanded_before_its_assignment():
    def function(x):
        v = ops.variable(np.ones(2, "float32"), key="v")

        def step(y):
            return y + ops.read(v)

        (total,) = ops.while_(lambda y: ops.all(ops.less(y, 5.0)), step, x)
        ops.assign(v, total)
        return total

    run = compiled(function)
    assert values(run([np.zeros(2, "float32")])) == [[5.0, 5.0]]
    assert values(run([np.zeros(2, "float32")])) == [[5.0, 5.0]]
    assert values(run([np.ones(2, "float32")])) == [[6.0, 6.0]]


def test_loops_without_iterations_do_not_evaluate_their_body():
    def step(i, x):
        return i + np.int64(1), ops.gather(x, i + np.int64(9))

    def function(x):
        return ops.while_(lambda i, _: ops.less(i, np.int64(0)), step, np.int64(0), x)

    assert values(compiled(function)([ONES])) == [0, [1.0, 1.0]]


def test_unused_assigns_in_bodies_stay():
    def function(n, x):
        v = ops.variable(np.zeros(2, "float32"), key="v")

        def body(i, go, y):
            ops.assign_add(v, x)
            return go, y

        ops.loop(n, None, body, x)
        return x + x

    run = compiled(function, [parse_type("int64[]"), X])
    run([np.int64(3), ONES])
    assert run.state["v"].tolist() == [3, 3]


def test_effects_are_declared():
    stateful = {n for n, op in OPS.items() if op.effect}
    assert stateful == {
        "variable", "read", "assign", "assign_add", "assign_subtract",
        "print", "probe", "assert", "host_callback", "next_random_key",
    }  # fmt: skip
    std = amanda.namespace("std")
    assert {n for n in std if "stateful" in std[n].traits} == stateful


# -- what an executable keeps ------------------------------------------------------


def counter(x):
    return ops.assign_add(ops.variable(np.zeros(2, "float32"), key="count"), x)


def test_each_executable_keeps_state_between_calls():
    a, b = compiled(counter), compiled(counter)
    for n in (1, 2, 3):
        assert values(a([ONES])) == [[n, n]]
    assert values(b([ONES])) == [[1, 1]]


def test_state_is_readable_settable_and_resettable():
    run = compiled(counter)
    run([ONES])
    assert list(run.state) == ["count"]
    run.state["count"] = np.float32([5, 6])
    assert values(run([ONES])) == [[6, 7]]
    run.state.reset()
    assert values(run([ONES])) == [[1, 1]]
    with pytest.raises(InvalidTypeError, match="another type"):
        run.state["count"] = np.zeros(2)
    with pytest.raises(InvalidTypeError, match="declare that where it is created"):
        run.state["count"] = np.zeros(3, "float32")
    assert values(run([ONES])) == [[2, 2]]
    with pytest.raises(KeyError, match="no variable 'other'"):
        run.state["other"]


def test_a_variable_of_any_size_can_be_set():
    def longest(x):
        return ops.read(ops.variable(type="float32[n]", key="rows")) * x

    run = compiled(longest, [parse_type("float32[]")])
    run.state["rows"] = np.ones(2, "float32")
    run([np.float32(3)])
    run.state["rows"] = np.ones(5, "float32")
    assert values(run([np.float32(3)])) == [[3] * 5]
    with pytest.raises(InvalidTypeError, match="another type"):
        run.state["rows"] = np.ones((2, 2), "float32")


def test_executables_can_share_state():
    state = State()
    train = compiled(counter, state=state)
    read = compiled(
        lambda x: x * ops.read(ops.variable(type=X, key="count")), state=state
    )
    with pytest.raises(UsageError, match="has no value yet"):
        read([ONES])
    train([ONES])
    assert values(read([ONES * 3])) == [[3, 3]]


def test_results_do_not_alias_state():
    run = compiled(counter)
    x = np.ones(2, "float32")
    made = run([x])[0]
    made += 100
    run.state["count"] = x
    x += 100
    assert values(run([ONES])) == [[2, 2]]
    seen = run.state["count"]
    seen += 100
    assert run.state["count"].tolist() == [2, 2]


def test_stateful_calls_are_serialized():
    from concurrent.futures import ThreadPoolExecutor

    run = compiled(counter)
    with ThreadPoolExecutor(4) as pool:
        made = [m[0][0] for m in pool.map(lambda _: run([ONES]), range(40))]
    assert sorted(made) == list(range(1, 41))


def test_executables_report_missing_state():
    with pytest.raises(UsageError, match="has no state"):
        _ = compiled(lambda x: x + x).state


def test_assigned_types_must_match():
    def function(x):
        return ops.assign(ops.variable(np.zeros(3, "float32"), key="v"), x)

    with pytest.raises(InvalidTypeError, match="another type"):
        trace(function, [X])


# -- what is seen from outside -----------------------------------------------------


def test_probes_fire_in_order():
    def function(x):
        y = ops.probe(x + x, label="double")
        ops.probe(y * y, label="unused")
        return y

    seen = []
    run = compiled(function, observe=lambda label, v: seen.append((label, v.tolist())))
    assert values(run([ONES])) == [[2, 2]]
    assert seen == [("double", [2, 2]), ("unused", [4, 4])]
    assert values(compiled(function)([ONES])) == [[2, 2]]


def test_equal_probes_are_not_merged():
    def function(x):
        return ops.probe(x, label="x") + ops.probe(x, label="x")

    seen = []
    compiled(function, observe=lambda label, v: seen.append(label))([ONES])
    assert seen == ["x", "x"]


def test_print_writes_to_stderr(capsys):
    compiled(lambda x: ops.print_(x, text="here"))([ONES])
    out, err = capsys.readouterr()
    assert (out, err) == ("", "here: [1. 1.]\n")


def test_assert_errors_include_shown_values():
    def function(x):
        OPS["assert"](ops.less(x, 3.0), x, message="too large")
        return x

    run = compiled(function)
    run([ONES])
    with pytest.raises(BackendError, match=r"too large\n(.*\n)*.*\[4\. 4\.\]"):
        run([ONES * 4])


def called(x):
    return ops.host_callback(x, function="half", types=("float32[2]",))[0]


def test_callbacks_are_supplied_at_compile_time():
    run = compiled(called, callbacks={"half": lambda x: x / 2})
    assert values(run([ONES])) == [[0.5, 0.5]]


def test_callbacks_are_found_by_the_host():
    """By name, when it is called; what is told to the executable comes first."""
    host = amanda.default_host()
    point = host.find("backends", "numpy")
    own = type(host)(points=())
    own.register_backend("numpy", host.load(point))
    own.register_namespace("amanda/std", host.get("namespaces", "amanda/std"))
    own.register_callback("half", lambda x: x / 2)
    graph = trace(called, [X])
    run = amanda.compile(graph, "numpy", host=own)
    assert values(run([ONES])) == [[0.5, 0.5]]
    own.register("callbacks", "half", lambda x: x / 4, replace=True)
    assert values(run([ONES])) == [[0.25, 0.25]]
    told = amanda.compile(graph, "numpy", host=own, callbacks={"half": lambda x: x / 8})
    assert values(told([ONES])) == [[0.125, 0.125]]
    with pytest.raises(UsageError, match="there is no callback 'half'"):
        amanda.compile(graph, "numpy")([ONES])
    own.unregister("callbacks", "half")
    with pytest.raises(UsageError, match=r"host\.register_callback"):
        run([ONES])


@pytest.mark.parametrize(
    ("callbacks", "text"),
    [
        ({}, "there is no callback 'half'"),
        ({"other": abs}, "one of: other"),
        ({"half": lambda x: (x, x)}, "another number of results"),
        ({"half": lambda x: x.astype("float64")}, "returned another type"),
        ({"half": lambda x: x[:1]}, "returned another type"),
    ],
)
def test_mismatched_callbacks_are_reported(callbacks, text):
    with pytest.raises(AmandaError, match=text):
        compiled(called, callbacks=callbacks)([ONES])


def test_backends_preserve_or_decline_variables():
    """What it may not do is compute as if there were no variable.

    Frameworks that have processes of their own are tested there."""
    keeping, declining = set(), {}
    for name in {*amanda.default_host().names("backends")} - {"tensorflow", "torch"}:
        try:
            run = amanda.compile(trace(counter, [X]), name)
        except PluginMissingError:
            continue  # what it needs, such as a native library, is not here
        except AmandaError as error:
            declining[name] = str(error)
            continue
        for n in (1, 2, 3):
            assert values(run([ONES])) == [[n, n]], name
        assert run.state["count"].tolist() == [3, 3], name
        keeping.add(name)
    assert "numpy" in keeping
    assert "jax" not in declining
    assert "onnxruntime" not in declining
    assert all("variable" in text for text in declining.values())


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_functions_of_callbacks_cannot_write_to_their_arguments(backend):
    if backend == "jax":
        pytest.importorskip("amanda_jax")

    def double(x):
        x *= 2
        return x

    def traced(x):
        return ops.host_callback(x, function="double", types=("float32[2]",))[0]

    fed = ONES.copy()
    run = amanda.compile(trace(traced, [X]), backend, callbacks={"double": double})
    with pytest.raises(BackendError, match="read-only"):
        run([fed])
    assert fed.tolist() == [1, 1]
