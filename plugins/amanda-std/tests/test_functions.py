# ruff: noqa: F821, UP037 - annotations that are types of tensors
"""Python functions as graphs and as ops, and their gradients, by the hub set."""

from __future__ import annotations

import functools
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

import amanda
from amanda.errors import InvalidTypeError, UsageError
from amanda.types import parse_type
from amanda_std import Value, ops, tracing

RNG = np.random.default_rng(5)
X, W, B = (RNG.normal(size=s).astype("float32") for s in ((5, 4), (4, 3), (3,)))


@amanda.function
def dense(x, w, b):
    """Rows of x times w, above zero."""
    return ops.relu(x @ w + b)


def by_hand(x, w, b):
    return np.maximum(x @ w + b, 0)


def ops_of(graph):
    return [op.type for op in graph if op.type != "constant"]


# -- graphs ----------------------------------------------------------------------------


TOLD = {
    "texts": ("float32[n, 4]", "float32[4, 3]", "float32[3]"),
    "types": tuple(map(parse_type, ("float32[n, 4]", "float32[4, 3]", "float32[3]"))),
    "arrays": (X, W, B),
}


@pytest.mark.parametrize("told", TOLD)
def test_a_graph_of_a_function(told, run):
    graph = dense.graph(*TOLD[told])
    assert graph.name == "dense"
    assert [port.name for port in graph.parameters] == ["x", "w", "b"]
    assert ops_of(graph) == ["matmul", "add", "relu"]
    (got,) = run(graph, X, W, B)
    np.testing.assert_allclose(got, by_hand(X, W, B), rtol=1e-6)


MISTAKES = {
    "no return": (lambda x: None, "is a `return` missing"),
    "nested results": (lambda x: (x, (x, x)), "a tuple or dict of values"),
    "a setting": (lambda x, *, s: x * s, "needs the setting 's'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_functions_that_cannot_be_traced(name):
    python, message = MISTAKES[name]
    with pytest.raises(UsageError, match=message):
        amanda.function(python).graph("float32[3]")


def test_a_partial_function(run):
    graph = amanda.function(functools.partial(lambda x, y: x - y, 5.0)).graph(X)
    np.testing.assert_allclose(run(graph, X)[0], 5 - X)


def test_a_gradient_of_another_shape_is_refused():
    @amanda.function
    def rounded(x):
        return ops.round(x)

    @rounded.gradient
    def _(x, y, g):
        return g.sum()

    whole = amanda.function(lambda x: rounded(x).sum().grad(x))
    with pytest.raises(InvalidTypeError, match="another shape than its argument"):
        whole.graph("float32[2, 4]")


def test_what_decorates_a_function_keeps_its_name_and_text():
    assert (dense.__name__, dense.__doc__) == (
        "dense", "Rows of x times w, above zero.",
    )  # fmt: skip
    assert repr(dense) == "<function dense(x, w, b) of amanda/std/1>"


def test_types_by_annotation():
    @amanda.function
    def scaled(
        x: "float32[n, 4]",
        w: Annotated[Any, "float32[4]"],
        b: Annotated[Any, parse_type("float32[4]")],
    ):
        return x * w + b

    graph = scaled.graph()
    assert [str(p.type) for p in graph.parameters] == [
        "float32[n, 4]", "float32[4]", "float32[4]",
    ]  # fmt: skip
    assert str(graph.results[0].type) == "float32[n, 4]"
    told = scaled.graph(x="float32[7, 4]")
    assert str(told.results[0].type) == "float32[7, 4]"


def test_types_of_results():
    @amanda.function
    def right(x: "float32[n, 4]") -> "float32[n]":
        return x.sum(axis=1)

    @amanda.function
    def wrong(x: "float32[n, 4]") -> "float32[n]":
        return x.sum(axis=1, keepdims=True)

    @amanda.function
    def two(x: "float32[n, 4]") -> tuple["float32[n, 4]", Annotated[Any, "int64[n]"]]:
        return x, x.argmax(axis=1, keepdims=True)

    right.graph("float32[7, 4]")
    amanda.function(lambda x: right(x)).graph("float32[7, 4]")
    with pytest.raises(InvalidTypeError) as caught:
        wrong.graph()
    assert str(caught.value) == (
        "the function 'wrong' does not return what it is annotated with\n"
        "  where:    result 0\n"
        "  expected: float32[n]\n"
        "  got:      float32[n, 1]\n"
        "  to do:    change what it computes, or the annotation"
    )
    with pytest.raises(InvalidTypeError, match="'two' does not return") as caught:
        two.graph()
    assert caught.value.where == "result 1"
    caller = amanda.function(lambda x: wrong(x))
    with pytest.raises(InvalidTypeError, match="'wrong' does not return"):
        caller.graph("float32[7, 4]")


def test_annotations_that_are_no_types_tell_none():
    @amanda.function
    def plus(x: Any, y: list[int]):
        return x + y

    assert [p.type for p in plus.graph().parameters] == [None, None]


def test_a_misspelled_annotation():
    @amanda.function
    def wrong(x: "flaot32[3]"):
        return x

    with pytest.raises(amanda.AmandaError) as caught:
        wrong.graph()
    assert caught.value.who.startswith("parameter 'x' of ")


def test_types_given_late(run):
    """Inference follows, numbers among the operands included."""

    @amanda.function
    def shifted(x, w):
        return 2.0 * ops.tanh(x @ w) ** 2 + 1

    graph = shifted.graph()
    assert str(graph.results[0].type) == "?[...]"
    graph.parameters[0].type = parse_type("float32[n, 4]")
    graph.parameters[1].type = parse_type("float32[4, 3]")
    amanda.improve(graph, "infer")
    assert str(graph.results[0].type) == "float32[n, 3]"
    (got,) = run(graph, X, W)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, 2 * np.tanh(X @ W) ** 2 + 1, rtol=1e-6)


class Pair(NamedTuple):
    low: Any
    high: Any


def test_names_of_results():
    named = amanda.function(lambda x: {"low": x - 1.0, "high": x + 1.0})
    told = amanda.function(lambda x: Pair(x - 1.0, x + 1.0))
    plain = amanda.function(lambda x: (x - 1.0, x + 1.0))
    for function, names in ((named, ["low", "high"]), (told, ["low", "high"]),
                            (plain, [None, None])):  # fmt: skip
        graph = function.graph("float32[2]")
        assert [port.name for port in graph.outputs] == names


def test_settings_and_what_is_left_out(run):
    @amanda.function
    def scaled(x, scale=None, *more, power=1):
        y = x**power
        for each in (scale, *more):
            y = y if each is None else y * each
        return y

    graph = scaled.graph("float32[2]", power=3)
    assert [p.name for p in graph.parameters] == ["x"]
    x = np.float32([2, 3])
    np.testing.assert_array_equal(run(graph, x)[0], [8, 27])
    graph = scaled.graph(x, x, x, x)
    assert [p.name for p in graph.parameters] == ["x", "scale", "more_0", "more_1"]
    np.testing.assert_array_equal(run(graph, x, x, x, x)[0], [16, 81])


def test_a_graph_asked_for_while_another_is_built():
    with tracing(amanda.Graph("amanda/std/1")) as outer:
        graph = dense.graph(X, W, B)
    assert graph.outer is None
    assert len(outer.graph) == 0


# -- calls -----------------------------------------------------------------------------


@amanda.function
def deep(x, w, b, v):
    h = dense(x, w, b)
    h = dense(h, v, b)
    return dense(h, v, b)


def test_calls_share_one_function(run):
    v = RNG.normal(size=(3, 3)).astype("float32")
    graph = deep.graph(X, W, B, v)
    assert graph.check() == []
    assert ops_of(graph) == ["call", "call", "call"]
    assert list(graph.functions) == ["dense", "dense_1"]  # [5, 4] once, [5, 3] twice
    want = by_hand(by_hand(by_hand(X, W, B), v, B), v, B)
    np.testing.assert_allclose(run(graph, X, W, B, v)[0], want, rtol=1e-5)


def test_symbols_may_be_called_otherwise():
    @amanda.function
    def both(x, y, z):
        add = amanda.function(lambda a, b: a + b, name="plus")
        return add(x, x), add(y, y), add(x, z)

    graph = both.graph("float32[n, 3]", "float32[m, 3]", "float32[k, 3]")
    assert list(graph.functions) == ["plus", "plus_1"]
    told = [op.attrs["function"].name for op in graph]
    assert told == ["plus", "plus", "plus_1"]
    assert [str(v.type) for v in graph.results[:2]] == [
        "float32[n, 3]",
        "float32[m, 3]",
    ]


def test_calls_within_functions_and_bodies(run):
    """A function of a function, and one that is the body of a loop."""

    @amanda.function
    def twice(x, w, b):
        return dense(dense(x, w, b), w, b)

    @amanda.function
    def model(x, w, b):
        y = twice(x, w, b)
        (last,) = ops.scan(lambda h: (twice(h, w, b),), 2, y, carried=1)
        return last

    w = RNG.normal(size=(3, 3)).astype("float32")
    x = X[:, :3].copy()
    graph = model.graph(x, w, B)
    assert sorted(graph.functions) == ["dense", "twice"]
    want = x
    for _ in range(6):
        want = by_hand(want, w, B)
    np.testing.assert_allclose(run(graph, x, w, B)[0], want, rtol=1e-4, atol=1e-5)


def test_calls_with_settings():
    @amanda.function
    def power(x, *, by):
        return x**by

    @amanda.function
    def several(x):
        return power(x, by=2) + power(x, by=2) + power(x, by=3)

    graph = several.graph("float32[2]")
    assert list(graph.functions) == ["power", "power_1"]


def test_a_function_returns_what_it_returned():
    named = amanda.function(lambda x: {"low": x - 1.0, "high": x + 1.0}, name="named")
    told = amanda.function(lambda x: Pair(x - 1.0, x + 1.0), name="told")
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(parse_type("float32[2]"), "x")
    assert list(named(x)) == ["low", "high"]
    assert isinstance(told(x).high, Value)


def test_a_clone_knows_its_functions():
    """Functions are found again by what they are, where they are not known by name."""
    graph = dense.graph(X, W, B)
    outer = amanda.function(lambda x, w, b: dense(x, w, b), name="outer")
    copy = outer.graph(X, W, B).clone()
    with tracing(copy):
        dense(*copy.parameters)
    assert list(copy.functions) == ["dense"]
    assert copy.functions["dense"].same_as(graph)


def test_on_arrays_it_computes_and_on_types_it_infers():
    np.testing.assert_allclose(dense(X, W, B), by_hand(X, W, B), rtol=1e-6)
    types = [parse_type(t) for t in TOLD["texts"]]
    assert str(dense(*types).type) == "float32[n, 3]"


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_calls_run_on_backends(backend):
    if backend == "jax":
        pytest.importorskip("amanda_jax", reason="amanda-jax is not installed")
        pytest.importorskip("jax", reason="jax is not installed")
    v = RNG.normal(size=(3, 3)).astype("float32")
    got = amanda.run(deep.graph(X, W, B, v), [X, W, B, v], backend=backend)
    want = by_hand(by_hand(by_hand(X, W, B), v, B), v, B)
    np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-5)


@amanda.function
def annotated(x: "float32[n, 4]", y: "float32[n]"):
    return x.sum(axis=1) + y


WRONG = [
    (("float64[5, 4]", "float64[5]"), "argument 'x'", "float32[n, 4]", "float64[5, 4]"),
    (("float32[5, 3]", "float32[5]"), "argument 'x'", "float32[n, 4]", "float32[5, 3]"),
    (("float32[5, 4]", "float32[6]"), "argument 'y'",
     "float32[n], where n = 5 of 'x'", "float32[6]"),
]  # fmt: skip


@pytest.mark.parametrize(("types", "where", "expected", "got"), WRONG)
def test_arguments_that_annotations_refuse(types, where, expected, got):
    caller = amanda.function(lambda x, y: annotated(x, y))
    with pytest.raises(InvalidTypeError, match="'annotated' does not take") as caught:
        caller.graph(*types)
    assert caught.value.where == where
    assert (caught.value.expected, caught.value.got) == (expected, got)


def test_numbers_take_the_type_of_the_annotation():
    caller = amanda.function(lambda x: annotated(x, [1, 2]))
    graph = caller.graph("float32[2, 4]")
    assert str(graph.results[0].type) == "float32[2]"


def test_a_function_reads_its_own_values_only():
    graph = amanda.Graph("amanda/std/1")
    x = Value(graph.parameter(parse_type("float32[2]"), "x"))
    inner = amanda.function(lambda y: x + y, name="inner")
    with pytest.raises(UsageError, match="'inner' reads a value that is not") as caught:
        inner(x)
    assert caught.value.hint == "hand the value over as an argument"
    assert list(graph.functions) == []


def test_a_function_does_not_call_itself():
    @amanda.function
    def endless(x):
        return endless(x)

    with pytest.raises(UsageError, match="'endless' calls itself"):
        endless.graph("float32[2]")


def test_wrong_calls():
    with pytest.raises(UsageError) as caught:
        dense(X, W)
    assert caught.value.expected == "dense(x, w, b)"
    with pytest.raises(UsageError, match="has arbitrary keyword parameters"):
        amanda.function(lambda x, **more: x)
    changing = amanda.function(lambda x, *, at: x)
    caller = amanda.function(lambda x: changing(x, at={}))
    with pytest.raises(UsageError, match="a setting of the function"):
        caller.graph("float32[2]")
    with pytest.raises(UsageError, match="is not a type"):
        dense.graph(object())


# -- gradients -------------------------------------------------------------------------


@amanda.function
def loss(x, w, b, y):
    return {"loss": ((dense(x, w, b) - y) ** 2).mean()}


def slopes_by_hand(x, w, b, y):
    before = x @ w + b
    error = 2 * (np.maximum(before, 0) - y) * (before > 0) / y.size
    return x.T @ error, error.sum(0)


Y = RNG.normal(size=(5, 3)).astype("float32")


def test_gradients_by_names(run):
    graph = loss.graph(X, W, B, Y)
    for slope in amanda.grad(graph, "loss", ["w", "b"]):
        graph.result(slope)
    _, *found = run(graph, X, W, B, Y)
    for got, want in zip(found, slopes_by_hand(X, W, B, Y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_gradients_by_one_value(run):
    graph = loss.graph(X, W, B, Y)
    slope = amanda.grad(graph, graph.results[0], graph.parameters[1])
    assert slope.type == graph.parameters[1].type
    graph.result(slope)
    want, _ = slopes_by_hand(X, W, B, Y)
    np.testing.assert_allclose(run(graph, X, W, B, Y)[1], want, rtol=1e-4, atol=1e-6)


def test_gradients_within_a_function(run):
    @amanda.function
    def both(x, w, b, y):
        return tuple(loss(x, w, b, y)["loss"].grad([w, b]))

    graph = both.graph(X, W, B, Y)
    for got, want in zip(
        run(graph, X, W, B, Y), slopes_by_hand(X, W, B, Y), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_gradients_of_gradients(run):
    @amanda.function
    def curved(x):
        return (x**3).sum().grad(x).sum().grad(x)

    x = np.array([1.0, -2.0])
    np.testing.assert_allclose(run(curved.graph(x), x)[0], 6 * x)


def test_a_namespace_that_offers_neither_says_so():
    graph = amanda.Graph("amanda/onnx/18")
    x = graph.parameter(parse_type("float32[2]"), "x")
    with pytest.raises(UsageError) as caught:
        amanda.grad(graph, x, x)
    assert str(caught.value) == (
        "the namespace amanda/onnx/18 has no gradients\n"
        "  expected: a namespace whose plug-in brings 'grad', as amanda/std/1 does\n"
        "  to do:    amanda.convert(graph, 'amanda/std/1') first"
    )
    foreign = amanda.function(namespace="onnx@18")(lambda x: x)
    with pytest.raises(UsageError, match="onnx@18 traces no functions"):
        foreign.graph("float32[2]")
    with pytest.raises(UsageError, match="onnx@18 calls no functions"):
        foreign(x)
    with pytest.raises(UsageError, match="the graph has no namespace"):
        amanda.grad(amanda.Graph(), x, x)


# -- gradients of its own ------------------------------------------------------------


def rounded():
    """A function that has steps, and passes gradients straight through, scaled."""

    @amanda.function
    def stairs(x, scale, *, factor=1.0):
        return ops.round(x * scale)

    @stairs.gradient
    def _(x, scale, y, g, *, factor=1.0):
        return g * scale * factor, ops.sum(g * x)

    return stairs


def sloped(function, types):
    graph = amanda.function(function).graph(*types)
    for slope in amanda.grad(graph, graph.results[0], list(graph.parameters)):
        graph.result(slope)
    return graph


@pytest.mark.parametrize("suffix", [None, ".yaml", ".json", ".amanda"])
def test_a_function_has_the_gradient_that_is_attached_to_it(suffix, tmp_path):
    """It is told by the graph, so it is there in its files."""
    stairs = rounded()

    def function(x, scale):
        return ops.sum(stairs(x, scale) * 3.0) + ops.sum(stairs(x + x, scale))

    graph = amanda.function(function).graph("float32[n]", "float32[]")
    if suffix is not None:
        amanda.save(graph, tmp_path / f"stairs{suffix}")
        graph = amanda.load(tmp_path / f"stairs{suffix}")
    for slope in amanda.grad(graph, graph.results[0], list(graph.parameters)):
        graph.result(slope)
    x, scale = np.float32([0.3, -1.2, 2.6]), np.float32(1.5)
    total, by_x, by_scale = amanda.run(graph, [x, scale], backend="numpy").values()
    want = 3 * np.round(x * scale).sum() + np.round(2 * x * scale).sum()
    np.testing.assert_allclose(total, want)
    np.testing.assert_allclose(by_x, [3 * 1.5 + 2 * 1.5] * 3, rtol=1e-6)
    np.testing.assert_allclose(by_scale, 3 * x.sum() + 2 * x.sum(), rtol=1e-6)


def test_settings_reach_the_gradient_of_a_function():
    stairs = rounded()
    graph = sloped(
        lambda x, s: ops.sum(stairs(x, s, factor=10.0)), ["float32[2]", "float32[]"]
    )
    made = amanda.run(graph, [np.ones(2, "float32"), np.float32(2)], backend="numpy")
    np.testing.assert_allclose([*made.values()][1], [20, 20])


def test_a_gradient_of_a_gradient_goes_through_the_one_that_is_attached():
    stairs = rounded()

    def function(x, s):
        y = ops.sum(ops.square(stairs(x, s)))
        return ops.sum(amanda.grad(y.port.graph, y, x))  # 2 * round(x s) * s

    graph = sloped(function, ["float64[1]", "float64[]"])
    x, s = np.array([1.4]), np.array(3.0)
    value, by_x, by_s = amanda.run(graph, [x, s], backend="numpy").values()
    np.testing.assert_allclose(value, 2 * 4 * 3)
    np.testing.assert_allclose(by_x, [2 * s * s])
    np.testing.assert_allclose(by_s, 2 * 4 + 2 * s * x[0])


def test_a_gradient_is_one_for_each_argument():
    @amanda.function
    def half(x, y):
        return x * 0.5 + y

    half.gradient(lambda x, y, z, g: g * 0.5)
    with pytest.raises(UsageError, match="one for each argument") as caught:
        sloped(lambda x: ops.sum(half(x, x)), ["float32[2]"])
    assert (caught.value.expected, caught.value.got) == ("2", "1")


def test_a_gradient_is_told_before_the_function_is_called():
    @amanda.function
    def same(x):
        return x * 1.0

    graph = amanda.function(lambda x: same(x)).graph("float32[2]")
    with pytest.raises(UsageError, match="called before it had a gradient"):
        same.gradient(lambda x, y, g: g)
    assert list(graph.functions) == ["same"]


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        (np.zeros((5, 5), "float32"), "float32[5, 5]"),
        (np.zeros((2, 3), "int32"), "int32[2, 3]"),
    ],
)
def test_annotations_hold_for_arrays(wrong, shown):
    @amanda.function
    def doubled(x: "float32[2, 3]"):
        return x * 2.0

    assert doubled(np.ones((2, 3), "float32")).sum() == 12
    assert doubled([[1, 2, 3], [4, 5, 6]]).sum() == 42
    for call in (doubled, doubled.graph):
        with pytest.raises(InvalidTypeError) as caught:
            call(wrong)
        assert caught.value.where == "argument 'x'"
        assert caught.value.expected == "float32[2, 3]"
        assert caught.value.got == shown
    with pytest.raises(InvalidTypeError, match="does not take this"):
        doubled.graph("float32[5, 5]")


def test_symbols_of_annotations_hold_for_arrays():
    @amanda.function
    def total(x: "float32[n]", y: "float32[n]"):
        return ops.sum(x + y)

    assert total(np.ones(3, "float32"), np.ones(3, "float32")) == 6
    with pytest.raises(InvalidTypeError) as caught:
        total(np.ones(3, "float32"), np.ones(1, "float32"))
    assert caught.value.expected == "float32[n], where n = 3 of 'x'"
