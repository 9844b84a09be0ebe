"""A graph as a function of JAX: gradients, jit, vmap, training."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import amanda
from amanda.errors import BackendError, UsageError
from amanda.types import parse_type
from amanda_jax import as_function
from amanda_std import ops, trace

W = np.sin(np.arange(12, dtype="float32")).reshape(3, 4)
B = np.cos(np.arange(4, dtype="float32"))
X = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)


def graph_of(function, *types: str):
    names = ["x", "y"][: len(types)]
    graph = trace(function, [parse_type(t) for t in types], names=names)
    for op, name in zip((o for o in graph if o.type == "constant"), "wb", strict=False):
        graph.rename(op, name)
    return graph


def layer():
    return graph_of(lambda x: ops.tanh(ops.matmul(x, W) + B), "float32[n, 3]")


def test_parameters_are_the_weights_by_name():
    function, params = as_function(layer())
    assert {k: v.shape for k, v in params.items()} == {"w": (3, 4), "b": (4,)}
    for call in (function, jax.jit(function)):
        np.testing.assert_allclose(call(params, X), np.tanh(X @ W + B), rtol=1e-5)
    np.testing.assert_allclose(function(params, x=X), np.tanh(X @ W + B), rtol=1e-5)


def test_gradients_are_those_of_finite_differences():
    function, params = as_function(layer())

    def loss(params):
        return (function(params, X) ** 2).sum()

    found = jax.grad(loss)(params)
    wide = {k: np.asarray(v, "float64") for k, v in params.items()}

    def exact(params):
        return (np.tanh(X.astype("float64") @ params["w"] + params["b"]) ** 2).sum()

    for name, value in wide.items():
        for at in np.ndindex(value.shape):
            step = np.zeros_like(value)
            step[at] = 1e-6
            up, down = (exact({**wide, name: value + s}) for s in (step, -step))
            assert found[name][at] == pytest.approx((up - down) / 2e-6, abs=2e-3)


def test_vmap_adds_an_axis():
    function, params = as_function(layer())
    rows = np.stack([X, -X, 2 * X])
    got = jax.vmap(function, in_axes=(None, 0))(params, rows)
    np.testing.assert_allclose(got, np.tanh(rows @ W + B), rtol=1e-5)


def test_it_can_be_trained():
    function, params = as_function(layer())
    wanted = np.full((2, 4), 0.3, "float32")

    @jax.jit
    def step(params):
        slope = jax.grad(lambda p: ((function(p, X) - wanted) ** 2).mean())(params)
        return jax.tree.map(lambda p, g: p - 2.0 * g, params, slope)

    for _ in range(200):
        params = step(params)
    np.testing.assert_allclose(function(params, X), wanted, atol=0.02)


def test_several_results_and_shapes_that_are_computed():
    def both(x):
        flat = ops.reshape(x, [ops.dim(x, axis=0), -1])
        return ops.sum(flat, (1,)), ops.shape_of(flat)

    function, params = as_function(graph_of(both, "float32[n, 3, 2]"))
    assert params == {}
    x = np.ones((4, 3, 2), "float32")
    total, shape = jax.jit(function)(params, x)
    assert total.tolist() == [6] * 4
    assert shape.tolist() == [4, 6]


def test_loops_are_differentiated():
    def looped(x):
        return ops.loop(np.int64(3), None, lambda _, c, v: (c, v * x, v), x)[0]

    function, _ = as_function(graph_of(looped, "float32[]"))
    # x * x * x * x: the slope is 4 x^3
    slope = jax.grad(lambda x: jnp.sum(function({}, x)))(jnp.float32(2))
    assert float(slope) == pytest.approx(32)


def test_64_bits_where_jax_is_told_so():
    graph = graph_of(lambda x: x * 2.0, "float64[n]")
    with pytest.raises(BackendError, match="for which JAX is not configured"):
        as_function(graph)
    with jax.enable_x64(True):
        function, params = as_function(graph)
        assert function(params, np.float64([1])).dtype == "float64"


def test_what_is_no_function_of_jax_is_told():
    with pytest.raises(BackendError, match="nonzero #0: data decides the shape"):
        as_function(graph_of(ops.nonzero, "float32[n]"))
    with pytest.raises(BackendError, match="known only at run time"):
        as_function(graph_of(ops.reshape, "float32[n]", "int64[2]"))
    with pytest.raises(UsageError, match="expected: amanda/std/1"):
        as_function(amanda.Graph("amanda/onnx/18"))
    function, params = as_function(layer())
    with pytest.raises(UsageError, match="has no parameter 'b'"):
        function({"w": params["w"]}, X)
    with pytest.raises(UsageError, match="and 1 more are missing"):
        function(X, X)
    with pytest.raises(UsageError, match="do not fit the inputs"):
        function(params, X, X)
