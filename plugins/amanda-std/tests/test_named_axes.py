# ruff: noqa: F722 - annotations that are types of tensors
"""Axes by name: against numpy, in every order of the operands' axes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import amanda
from amanda.errors import InvalidTypeError, UsageError
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_std import Value, named, ops
from amanda_std.ops import OPS

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2, 3, 4))  # N, T, C
W = RNG.normal(size=(4, 5))  # C, K
B = RNG.normal(size=5)  # K
S = RNG.normal(size=(4, 2))  # C, N


def traced(function, *rows):
    """A graph of a function of tensors with names; each row: an array, its axes."""
    types = [
        f"float64[{', '.join(f'{a}={d}' for a, d in zip(axes, x.shape, strict=True))}]"
        for x, axes in rows
    ]
    return amanda.function(lambda *xs: function(*named.tensors(*xs))).graph(*types)


def ops_of(graph):
    return [op.type for op in graph if op.type != "constant"]


def check(function, want, *rows, run):
    """On arrays and as a graph, whatever the order of the axes of each operand."""
    for orders in (tuple(range(x.ndim) for x, _ in rows),
                   tuple(reversed(range(x.ndim)) for x, _ in rows)):  # fmt: skip
        turned = []
        for (x, axes), order in zip(rows, map(tuple, orders), strict=True):
            turned.append((x.transpose(order), [axes[i] for i in order]))
        on_arrays = function(*(named.tensor(x, *axes) for x, axes in turned))
        np.testing.assert_allclose(on_arrays, want, rtol=1e-12)
        graph = traced(function, *turned)
        (got,) = run(graph, *(np.ascontiguousarray(x) for x, _ in turned))
        np.testing.assert_allclose(got, want, rtol=1e-12)


PROGRAMS = {
    "operands of other axes": (
        lambda x, s: (x * s - 1.0).values("N", "T", "C"),
        lambda: X * S.T[:, None, :] - 1.0,
        (X, "NTC"), (S, "CN"),
    ),
    "an outer product": (
        lambda b, s: (b + s).values("K", "C", "N"),
        lambda: B[:, None, None] + S[None],
        (B, "K"), (S, "CN"),
    ),
    "a function of three": (
        lambda x, s, b: named.where(x > s, b, 2.0 * x).values("K", "N", "T", "C"),
        lambda: np.where((S.T[:, None] < X)[None], B[:, None, None, None], 2 * X[None]),
        (X, "NTC"), (S, "CN"), (B, "K"),
    ),
    "a product over the axis of both": (
        lambda x, w, b: named.tanh(x @ w + b).values("N", "T", "K"),
        lambda: np.tanh(X @ W + B),
        (X, "NTC"), (W, "CK"), (B, "K"),
    ),
    "a contraction that keeps an axis of both": (
        lambda x, s: named.contract(x, s, over="C").values("T", "N"),
        lambda: np.einsum("ntc,cn->tn", X, S),
        (X, "NTC"), (S, "CN"),
    ),
    "a contraction over two": (
        lambda x, s: named.contract(s, x, over=("N", "C")).values("T"),
        lambda: np.einsum("ntc,cn->t", X, S),
        (X, "NTC"), (S, "CN"),
    ),
    "reductions": (
        lambda x: (x.sum(("T", "C")) / x.max("T").mean("C")).values("N"),
        lambda: X.sum((1, 2)) / X.max(1).mean(1),
        (X, "NTC"),
    ),
    "a reduction of all": (
        lambda x: x.mean().values(), lambda: X.mean(), (X, "NTC"),
    ),
    "along an axis": (
        lambda x: named.softmax(x, "T").values("C", "T", "N"),
        lambda: (np.exp(X) / np.exp(X).sum(1, keepdims=True)).transpose(2, 1, 0),
        (X, "NTC"),
    ),
    "centred": (
        lambda x: (x - x.mean("C")).values("T", "C", "N"),
        lambda: (X - X.mean(2, keepdims=True)).transpose(1, 2, 0),
        (X, "NTC"),
    ),
    "parts and other names": (
        lambda x: (x.part(N=1) + x.part(N=0).rename(T="S")).values("T", "S", "C"),
        lambda: X[1][:, None] + X[0][None],
        (X, "NTC"),
    ),
    "joined": (
        lambda x, s: named.concat(x.part(T=0), s, over="C").values("N", "C"),
        lambda: np.concatenate([X[:, 0], S.T], 1),
        (X, "NTC"), (S, "CN"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, run):
    function, want, *rows = PROGRAMS[name]
    check(function, want(), *rows, run=run)


def test_what_is_not_needed_is_not_put_in():
    """Transposes and new axes only where numpy would not put them itself."""
    same = traced(lambda x, y: x + y * 2.0, (X, "NTC"), (X, "NTC"))
    assert ops_of(same) == ["multiply", "add"]
    trailing = traced(lambda x, w: x + w, (X, "NTC"), (X[0], "TC"))
    assert ops_of(trailing) == ["add"]
    turned = traced(lambda x, s: x + s, (X, "NTC"), (S, "CN"))
    assert ops_of(turned) == ["transpose", "expand_dims", "add"]
    whole = traced(lambda x, w: x @ w, (X, "NTC"), (W, "CK"))
    assert ops_of(whole) == ["einsum"]
    symbolic = amanda.function(lambda x: named.tensor(x, "N", "C").sum("C"))
    assert ops_of(symbolic.graph("float32[n, c]")) == ["sum"]


def test_names_stay_in_types(run):
    """In those of results, in files, and after inference anew."""
    graph = traced(lambda x, w: named.exp(x @ w), (X, "NTC"), (W, "CK"))
    assert str(graph.results[0].type) == "float64[N=2, T=3, K=5]"
    graph.parameters[0].type = parse_type("float64[N=n, T=3, C=4]")
    amanda.improve(graph, "infer")
    assert str(graph.results[0].type) == "float64[N=n, T=3, K=5]"
    np.testing.assert_allclose(run(graph, X, W)[0], np.exp(X @ W), rtol=1e-12)


def test_gradients_have_the_axes_of_what_they_are_by(run):
    def slope(x, w):
        return ((x @ w) ** 2).sum().grad(w)

    graph = traced(slope, (X, "NTC"), (W.T.copy(), "KC"))
    assert str(graph.results[0].type) == "float64[K=5, C=4]"
    want = 2 * np.einsum("ntc,ntk->kc", X, X @ W)
    np.testing.assert_allclose(run(graph, X, W.T.copy())[0], want, rtol=1e-12)


def test_functions_tell_axes_apart():
    @amanda.function
    def take(x: "float64[N=n, C=c]"):
        return x

    amanda.function(lambda x: take(x)).graph("float64[N=2, C=3]")
    with pytest.raises(InvalidTypeError, match="'take' does not take this"):
        amanda.function(lambda x: take(x)).graph("float64[C=3, N=2]")


def test_other_names_leave_the_old_value_alone():
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter(parse_type("float64[T=3, C=4]")))
    other = named.tensor(x).rename(T="S")
    assert (str(x.type), str(other.data.type)) == (
        "float64[T=3, C=4]", "float64[S=3, C=4]",
    )  # fmt: skip


# -- which ops go by names, by what they do --------------------------------------------


def samples(name):
    for sample in OPS[name].samples_rule():
        xs = [a for a in sample.args if isinstance(a, np.ndarray)]
        if xs and max(x.ndim for x in xs) >= 1 and xs[0].dtype.kind == "f":
            yield sample


ELEMENTWISE = [n for n, op in OPS.items() if named.is_elementwise(op)]
ALONG = [n for n, op in OPS.items() if named.is_along_axes(op)]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_ops_of_each_place_do_not_mind_the_order_of_axes(name):
    """op(x.T) is op(x).T, and a row does not change with what stands beside it."""
    op = OPS[name]
    sample = next(iter(op.samples_rule()))
    args = [
        np.resize(a, (2, 3)).astype(a.dtype) if getattr(a, "ndim", 0) else a
        for a in sample.args
    ]
    whole = np.asarray(op(*args, **sample.attrs))
    assert whole.shape == (2, 3)
    turned = [a.T if getattr(a, "ndim", 0) else a for a in args]
    np.testing.assert_array_equal(op(*turned, **sample.attrs), whole.T)
    row = [a[1:] if getattr(a, "ndim", 0) else a for a in args]
    np.testing.assert_array_equal(op(*row, **sample.attrs), whole[1:])


@pytest.mark.parametrize("name", ALONG)
def test_ops_along_an_axis_leave_the_others_alone(name):
    function = getattr(named, name)
    attrs = {"size": 3} if name == "lrn" else {}
    x = np.abs(X) > 0.5 if name in ("all", "any") else X + 3.0
    base = function(named.tensor(x[:, :, :], "N", "T", "C"), "C", **attrs)
    assert set(base.axes) <= {"N", "T", "C"}
    for order in permutations("NTC"):
        turned = named.tensor(x, "N", "T", "C").order(*order)
        got = function(turned, "C", **attrs)
        want = base.order(*got.axes)
        np.testing.assert_allclose(got.data, want.data, rtol=1e-12)
    alone = function(named.tensor(x[1:, 2:], "N", "T", "C"), "C", **attrs)
    part = base.part(N=slice(1, None), T=slice(2, None))
    np.testing.assert_allclose(alone.data, part.data, rtol=1e-12)


# -- simple axes -----------------------------------------------------------------------


def cell(x, h, w, u):
    """One step, written without the axes of examples and steps."""
    return named.tanh(x @ w + h @ u)


def test_simple_axes(run):
    """The frontend marks them; they go where they are wanted."""
    steps, batch = 3, 2
    x, w = RNG.normal(size=(batch, steps, 4)), RNG.normal(size=(4, 5))
    h, u = RNG.normal(size=(batch, 5)), RNG.normal(size=(5, 5))
    want = np.tanh(x @ w + (h @ u)[:, None])

    def model(x, h, w, u):
        x = named.simple(x, sample=0, recurrent=1)
        h = named.simple(h, sample=0)
        return cell(x, h, *named.tensors(w, u))

    np.testing.assert_allclose(model(x, h, w, u).data, want)
    graph = amanda.function(model).graph(x, h, w, u)
    assert str(graph.results[0].type) == "float64[sample=2, recurrent=3, 5]"
    np.testing.assert_allclose(run(graph, x, h, w, u)[0], want)
    with named.axis_order(named.RECURRENT, named.SAMPLE):
        graph = amanda.function(model).graph(x, h, w, u)
    assert str(graph.results[0].type) == "float64[recurrent=3, sample=2, 5]"
    np.testing.assert_allclose(run(graph, x, h, w, u)[0], want.swapaxes(0, 1))


@pytest.mark.parametrize("left", [("sample", None), ("sample", None, None), (None,)])
@pytest.mark.parametrize("right", [(None,), (None, None), ("recurrent", None, None),
                                   ("recurrent", None), ("sample", None)])  # fmt: skip
def test_products_of_axes_without_names(left, right):
    """For every place of the named axes: numpy's product of the others."""
    sizes = {"sample": 2, "recurrent": 3}

    def made(axes, ends):
        return RNG.normal(size=[sizes[a] for a in axes if a] + ends)

    a = made(left, [4, 5][-left.count(None) :])
    b = made(right, [5, 6][: right.count(None)])
    got = named.tensor(a, *left) @ named.tensor(b, *right)
    for at in np.ndindex(2, 3):
        where = dict(zip(sizes, at, strict=True))
        one, two, three = (
            v[tuple(where[n] for n in axes if n)]
            for v, axes in ((a, left), (b, right), (got.data, got.axes))
        )
        np.testing.assert_allclose(three, one @ two)


def test_axes_without_names_meet_by_place(run):
    x, y = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(3, 1))
    got = named.simple(x, sample=0) * named.tensor(y)
    np.testing.assert_allclose(got.data, x * y)
    got = named.tensor(y) * named.simple(x.transpose(1, 2, 0), sample=2)
    np.testing.assert_allclose(got.data, (x * y).transpose(1, 2, 0))


# -- mistakes --------------------------------------------------------------------------


def test_strict_names():
    x = named.tensor(X, "N", "T", "C")
    with named.strict():
        assert (x * 2.0 + x).axes == ("N", "T", "C")
        with pytest.raises(UsageError, match="names are strict") as caught:
            x + np.ones(4)
    assert caught.value.who == (
        "add(float64[N=2, T=3, C=4], float64[4])"
    )  # fmt: skip
    assert (x + np.ones(4)).axes == ("N", "T", "C", None)


def test_equal_names_have_equal_dims():
    with pytest.raises(InvalidTypeError) as caught:
        named.tensor(X, "N", "T", "C") * named.tensor(np.ones((3, 1)), "T", "C")
    assert str(caught.value) == (
        "axes of one name have one extent\n"
        "  who:      multiply(float64[N=2, T=3, C=4], float64[T=3, C=1])\n"
        "  where:    axis 'C'\n"
        "  expected: 4\n"
        "  got:      1\n"
        "  to do:    rename one of them: x.rename(T='S'); or drop an axis of 1"
    )


XN = named.tensor(X, "N", "T", "C")
WRONG = [
    (lambda: XN.sum("K"), InvalidTypeError, "no axis 'K'"),
    (lambda: XN.order("N", "T"), InvalidTypeError, "names every axis once"),
    (lambda: XN @ XN, UsageError, "over the one axis that both have"),
    (lambda: XN @ named.tensor(B, "K"), UsageError, "over the one axis"),
    (lambda: XN[0], UsageError, "have no places"),
    (lambda: XN.reshape(2, -1), UsageError, "have no places"),
    (lambda: XN.T, UsageError, "do not tell what transpose is"),
    (lambda: ops.tanh(XN), UsageError, "have no places"),
    (lambda: named.conv(XN, XN), UsageError, "do not tell what conv is"),
    (lambda: named.softmax(XN), UsageError, "along an axis that is named"),
    (lambda: named.sort(XN, "N", "T"), UsageError, "works along one axis"),
    (lambda: named.tensor(X, "N", "N", "C"), InvalidTypeError, "do not fit the axes"),
    (lambda: named.tensor(X, "N", "T"), InvalidTypeError, "do not fit the axes"),
    (lambda: XN * [1.0, 2.0], UsageError, "only tensors have axes"),
    (lambda: named.concat(XN, named.tensor(B, "K"), over="N"), InvalidTypeError,
     "with the same axes are joined"),
    (lambda: named.contract(XN, X, over="C"), InvalidTypeError, "no axis 'C'"),
    (lambda: bool(XN), amanda.errors.Undecided, "does not decide"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "kind", "told"), WRONG)
def test_wrong_uses(wrong, kind, told):
    with pytest.raises(kind, match=told):
        wrong()


def test_a_name_that_is_no_op():
    with pytest.raises(AttributeError, match="no op 'tanhh'"):
        named.tanhh  # noqa: B018 - the question is the test
