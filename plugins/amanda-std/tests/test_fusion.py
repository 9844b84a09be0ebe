"""Formulas that the pass `fuse` replaces; results by numpy and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import erf, erfc

from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.passes import drop, fold, fuse, simplify

X = parse_type("float32[n, 4]")
IMAGE = parse_type("float32[n, 8, 8, 2]")
ROOT = math.sqrt(0.5)


def random(*shape):
    return np.random.default_rng(3).uniform(-4, 4, shape).astype("float32")


def fused(function, *types):
    """The types of ops of a function, constants aside, after the pass."""
    graph = trace(function, types or [X])
    fuse(graph)
    fold(graph)
    drop(graph)
    return graph, [op.type for op in graph if not op.is_constant]


def layer_norm(x, scale, bias, *, barrier=True):
    """The formula of Keras."""
    mean = ops.mean(x, (-1,), keepdims=True)
    center = ops.stop_gradient(mean) if barrier else mean
    variance = ops.mean(ops.squared_difference(x, center), (-1,), keepdims=True)
    s = ops.rsqrt(variance + np.float32(1e-6)) * scale
    return x * s + (-mean * s + bias)


def layer_norm_of_difference(x, square, by_root, *, mean_axis=-1):
    """The formula that PyTorch exported to ONNX before it has an op."""
    d = x - ops.mean(x, (mean_axis,), keepdims=True)
    total = ops.mean(square(d), (-1,), keepdims=True) + np.float32(1e-6)
    return by_root(d, total) * SCALE[0] + BIAS[0]


def by_sqrt(d, total):
    return d / ops.sqrt(total)


SCALE, BIAS = (np.float32([[1, 2, -3, 4]]), np.float32([[5, 6, 7, 8]]))


def numpy_layer_norm(x):
    x = x.astype("float64")
    y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return y * SCALE + BIAS


@pytest.mark.parametrize(
    ("function", "expected", "left"),
    [
        (lambda x: x * 0.5 * (ops.erf(x * ROOT) + 1), None, ["gelu"]),
        (lambda x: (1 + ops.erf(x / 2**0.5)) * (0.5 * x), None, ["gelu"]),
        (lambda x: 0.5 * (x * (1 + ops.erf(x * ROOT))), None, ["gelu"]),
        (lambda x: x * 0.5 * ops.erfc(-x * ROOT), None, ["gelu"]),
        (
            lambda x: ops.clip(x + 3, 0.0, 6.0) / 6,
            lambda x: np.clip(x + 3, 0, 6) / 6,
            ["hardsigmoid"],
        ),
        (
            lambda x: x * (ops.clip(x + 3, 0.0, 6.0) * (1 / 6)),
            lambda x: x * np.clip(x + 3, 0, 6) / 6,
            ["hardswish"],
        ),
        (lambda x: layer_norm(x, SCALE, BIAS), numpy_layer_norm, ["layer_norm"]),
        (
            lambda x: layer_norm(x, SCALE[0], BIAS[0], barrier=False),
            numpy_layer_norm,
            ["layer_norm"],
        ),
        (
            lambda x: layer_norm_of_difference(x, lambda d: d**2.0, by_sqrt),
            numpy_layer_norm,
            ["layer_norm"],
        ),
        (
            lambda x: layer_norm_of_difference(x, ops.square, by_sqrt),
            numpy_layer_norm,
            ["layer_norm"],
        ),
        (
            lambda x: layer_norm_of_difference(
                x, lambda d: d * d, lambda d, total: ops.rsqrt(total) * d
            ),
            numpy_layer_norm,
            ["layer_norm"],
        ),
    ],
)
def test_formulas(run, function, expected, left):
    graph, kinds = fused(function)
    assert kinds == left
    x = random(3, 4)
    wanted = x * erfc(-x * ROOT) / 2 if expected is None else expected(x)
    np.testing.assert_allclose(run(graph, x)[0], wanted, rtol=2e-5, atol=2e-5)


def gelu_by_tanh(x, cube, factor=0.044715):
    return 0.5 * x * (1 + ops.tanh((2 / np.pi) ** 0.5 * (x + factor * cube)))


@pytest.mark.parametrize("cube", [lambda x: x**3.0, lambda x: x * x * x])
def test_gelu_by_tanh(run, cube):
    graph, kinds = fused(lambda x: gelu_by_tanh(x, cube(x)))
    assert kinds == ["gelu"]
    x = random(3, 4)
    inner = (2 / np.pi) ** 0.5 * (x + 0.044715 * x.astype("float64") ** 3)
    wanted = 0.5 * x * (1 + np.tanh(inner))
    np.testing.assert_allclose(run(graph, x)[0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: gelu_by_tanh(x, x**3.0, 0.05),
        lambda x: gelu_by_tanh(x, x**2.0),
        lambda x: gelu_by_tanh(x, x * x),
        lambda x: x * 0.51 * (ops.erf(x * ROOT) + 1),
        lambda x: x * 0.5 * (ops.erf(x * 0.7) + 1),
        lambda x: x * 0.5 * (ops.erf(x * ROOT) + 2),
        lambda x: x * 0.5 * ops.erfc(x * ROOT),
        lambda x: ops.relu(x) * 0.5 * (ops.erf(x * ROOT) + 1),
        lambda x: ops.clip(x + 3, 0.0, 6.5) / 6,
        lambda x: ops.clip(x + 2, 0.0, 6.0) / 6,
        lambda x: ops.clip(x + 3, 0.0, 6.0) / 5,
        lambda x: layer_norm(x, SCALE, BIAS) - layer_norm(x, SCALE, x),
        lambda x: layer_norm_of_difference(x, lambda d: d**3.0, by_sqrt),
        lambda x: layer_norm_of_difference(x, lambda d: d * 2, by_sqrt),
        lambda x: layer_norm_of_difference(x, ops.square, by_sqrt, mean_axis=0),
        lambda x: layer_norm_of_difference(x, lambda d: ops.square(x), by_sqrt),
        lambda x: layer_norm_of_difference(x, ops.square, lambda d, t: x / ops.sqrt(t)),
    ],
)
def test_other_formulas_stay(run, function):
    graph = trace(function, [X])
    x = random(3, 4)
    before = run(graph, x)[0]
    graph, kinds = fused(function)
    assert set(kinds) & {"gelu", "hardsigmoid", "hardswish"} == set()
    assert kinds.count("layer_norm") <= 1
    np.testing.assert_allclose(run(graph, x)[0], before, rtol=1e-4, atol=1e-4)


def test_gelu_by_its_definition(run):
    graph, _ = fused(lambda x: x * 0.5 * (ops.erf(x * ROOT) + 1))
    x = random(3, 4)
    wanted = x * 0.5 * (erf(x.astype("float64") * ROOT) + 1)
    np.testing.assert_allclose(run(graph, x)[0], wanted, rtol=1e-5, atol=1e-6)


KERNEL = random(3, 3, 2, 5)


def convolved(pads, value=None, padding=None, **attrs):
    def function(x):
        y = ops.pad(x, pads, value, **attrs)
        return ops.conv(
            y,
            KERNEL,
            layout="N*C",
            kernel_layout="*IO",
            strides=(2, 2),
            padding=padding,
        )

    return function


SPATIAL = [(0, 0), (1, 2), (0, 3), (0, 0)]


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (convolved(SPATIAL), ["conv"]),
        (convolved(SPATIAL, np.float32(0), "valid"), ["conv"]),
        (convolved(SPATIAL, padding=((1, 0), (0, 1))), ["conv"]),
        (convolved([(1, 2)], axes=[1]), ["conv"]),
        (convolved(SPATIAL, np.float32(1)), ["pad", "conv"]),
        (convolved(SPATIAL, mode="reflect"), ["pad", "conv"]),
        (convolved(SPATIAL, padding="same_upper"), ["pad", "conv"]),
        (convolved([(1, 0), *SPATIAL[1:]]), ["pad", "conv"]),
        (convolved([(0, 0), (-1, 2), (0, 3), (0, 0)]), ["pad", "conv"]),
    ],
)
def test_zeros_around_data_are_padding_of_the_convolution(run, function, left):
    x = random(2, 8, 8, 2)
    before = run(trace(function, [IMAGE]), x)[0]
    graph, kinds = fused(function, IMAGE)
    assert kinds == left
    np.testing.assert_allclose(run(graph, x)[0], before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "left"),
    [((-1, 8, 8, 3), ["matmul"]), ((-1, 4, 16, 3), ["reshape", "matmul", "reshape"])],
)
def test_products_of_rows(run, shape, left):
    w, x = random(2, 3), random(2, 8, 8, 2)

    def function(x):
        return ops.reshape(ops.matmul(ops.reshape(x, (-1, 2)), w), shape)

    graph, kinds = fused(function, IMAGE)
    assert kinds == left
    wanted = (x.reshape(-1, 2) @ w).reshape(shape)
    np.testing.assert_allclose(run(graph, x)[0], wanted, rtol=1e-5, atol=1e-5)


def test_a_reduction_keeps_the_axes_that_are_added_again(run):
    def function(x):
        return ops.reshape(ops.mean(x, (1, 2)), (-1, 1, 1, 2)), ops.reshape(
            ops.sum(x, (1,)), (-1, 4, 2, 2)
        )

    graph = trace(function, [IMAGE])
    assert simplify(graph) == 1
    drop(graph)
    assert [op.type for op in graph] == ["mean", "sum", "reshape"]
    x = random(2, 8, 8, 2)
    wanted = x.mean((1, 2), keepdims=True)
    np.testing.assert_allclose(run(graph, x)[0], wanted, rtol=1e-5, atol=1e-6)
