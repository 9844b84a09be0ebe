"""Gradients where definitions have kinks, poles or equal values; second ones too."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda_std import ops


def derivatives(run, function, *arrays, order=2):
    """The derivatives of the sum of a function of one array, by order."""

    def all_of(x):
        found = [function(x)]
        for _ in range(order):
            found.append(found[-1].sum().grad(x))
        return tuple(found[1:])

    return [np.asarray(v) for v in run(amanda.function(all_of).graph(*arrays), *arrays)]


@pytest.mark.parametrize("name", ["softplus", "log of sigmoid", "cross-entropy"])
def test_the_slope_of_softplus_changes_at_zero(run, name):
    """Of x at 0: softplus has the derivatives sigmoid(0) and sigmoid'(0)."""
    function, first, second = {
        "softplus": (ops.softplus, 0.5, 0.25),
        "log of sigmoid": (lambda x: ops.log(ops.sigmoid(x)), 0.5, -0.25),
        "cross-entropy": (
            lambda x: ops.sigmoid_cross_entropy(x, x * 0.0 + 1.0, reduction="sum"),
            -0.5, 0.25,
        ),
    }[name]  # fmt: skip
    got = derivatives(run, function, np.array([0.0, 1e-9]))
    np.testing.assert_allclose(got[0], [first, first], rtol=1e-6)
    np.testing.assert_allclose(got[1], [second, second], rtol=1e-6)


@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("exponent", [0, 1, 2])
def test_powers_at_zero(run, exponent, as_tensor):
    x = np.array([0.0, 2.0, -3.0])
    p = np.full(3, float(exponent)) if as_tensor else exponent
    got = derivatives(run, lambda v: v**p, x)
    first = {0: 0 * x, 1: 0 * x + 1, 2: 2 * x}[exponent]
    np.testing.assert_allclose(got[0], first)
    np.testing.assert_allclose(got[1], [2.0 if exponent == 2 else 0.0] * 3)


def test_a_power_of_zero_by_its_exponent(run):
    """d/dp x^p = x^p log(x): log(2) at 2^0, and 0 at 0^2."""

    def function(x, p):
        return tuple((x**p).sum().grad([x, p]))

    x, p = np.array([2.0, 0.0]), np.array([0.0, 2.0])
    got = run(amanda.function(function).graph(x, p), x, p)
    np.testing.assert_allclose(got[0], [0.0, 0.0])
    np.testing.assert_allclose(got[1], [np.log(2), 0.0])


def test_the_gradient_of_a_complex_power(run):
    """That of a holomorphic function is its derivative: 3 z^2."""
    z = np.array([1 + 2j, -0.5j, 0])
    graph = amanda.function(lambda z: ops.real(ops.pow(z, 3.0)).sum().grad(z)).graph(z)
    np.testing.assert_allclose(run(graph, z)[0], 3 * z**2, atol=1e-12)


def test_vectors_of_zeros(run):
    """A direction that is not defined has a finite gradient: beside others, it must not
    turn them to NaN."""
    a, zero = np.array([[3.0, 4.0]]), np.zeros((1, 2))
    similar = amanda.function(
        lambda a, b: ops.cosine_similarity(a, b, axis=-1, epsilon=0.25).grad(b)
    )
    found = run(similar.graph(a, zero), a, zero)[0]
    np.testing.assert_allclose(found, a / 5 / 0.25)  # a.b / (|a| epsilon)
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    for p in (1, 2, 3):
        norm = amanda.function(
            lambda x, p=p: ops.lp_norm(x, p=p, axis=-1)[:, 0].sum().grad(x)
        )
        found = run(norm.graph(rows), rows)[0]
        size = sum(abs(rows[1]) ** p) ** (1 / p)
        slope = -3 * rows[1] ** (p - 1) / size ** (p + 1)
        slope[0] += 1 / size
        np.testing.assert_allclose(found, [[0, 0], slope], rtol=1e-12)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ij,ij->j", [(1, 3), (4, 3)]), ("ij,jk->ik", [(2, 1), (4, 3)])],
)
def test_equations_that_broadcast(run, equation, shapes):
    """The gradient of a sum over a broadcast axis has the shape of its operand."""
    a, b = (np.arange(1.0, 1 + np.prod(s)).reshape(s) for s in shapes)
    both = amanda.function(
        lambda a, b: tuple(ops.einsum(a, b, equation=equation).sum().grad([a, b]))
    )
    got = run(both.graph(a, b), a, b)
    if equation == "ij,ij->j":
        expected = b.sum(0, keepdims=True), np.broadcast_to(a, (4, 3))
    else:
        expected = np.full((2, 1), b.sum()), np.full((4, 3), a.sum())
    for have, want in zip(got, expected, strict=True):
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_second_gradients_of_singular_values(backend):
    """Against differences of the first gradient. XLA may contract a difference of
    squares, which is then not exactly 0 for equal values."""
    if backend == "jax":
        pytest.importorskip("amanda_jax", reason="amanda-jax is not installed")
    random = np.random.default_rng(0)
    x, w, v = random.normal(size=(3, 3, 3))

    def function(x):
        u, s, vh = ops.svd(x)
        first = ((u @ (ops.expand_dims(s**2, (-1,)) * vh)) * w).sum().grad(x)
        return first, (first * v).sum().grad(x)

    compiled = amanda.compile(amanda.function(function).graph(x), backend)
    second = list(compiled([x]).values())[1]
    step = 1e-5
    for place in np.ndindex(3, 3):
        change = np.zeros((3, 3))
        change[place] = step
        up, down = (next(iter(compiled([x + c]).values())) for c in (change, -change))
        slope = ((up - down) * v).sum() / (2 * step)
        np.testing.assert_allclose(second[place], slope, rtol=1e-5, atol=1e-6)
