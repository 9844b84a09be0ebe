"""Definitions for targets without computed axes and unsigned integers, by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.mapping import Decline
from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.mappings import COMPUTED_ARGUMENTS, INT64_DEFINITIONS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4)).astype("float32")


def run(function, x, *others):
    """A function of a tensor with symbolic dims, and others of static ones."""
    dims = ["abc"[: x.ndim], *([*map(str, y.shape)] for y in others)]
    types = [
        parse_type(f"{y.dtype}[{','.join(each)}]")
        for y, each in zip((x, *others), dims, strict=True)
    ]
    graph = trace(function, types)
    (found,) = amanda.compile(graph, "numpy")([x, *others]).values()
    return found


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any", "mean"])
def test_reductions_over_computed_axes(name, keepdims):
    x = X > 0 if name in ("all", "any") else X
    define = COMPUTED_ARGUMENTS[name]
    for axes in ([1], [0, -1], [2, 1, 0]):
        found = run(lambda x, a: define(x, a, keepdims=keepdims), x, np.array(axes))
        expected = getattr(np, name)(x, axis=tuple(axes), keepdims=keepdims)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        assert found.dtype == x.dtype


@pytest.mark.parametrize("keepdims", [False, True])
def test_logarithms_of_sums_over_computed_axes(keepdims):
    define = COMPUTED_ARGUMENTS["logsumexp"]
    found = run(lambda x, a: define(x, a, keepdims=keepdims), X + 300, np.array([2, 0]))
    expected = np.log(np.exp(X).sum((0, 2), keepdims=keepdims)) + 300
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cumulative_sums_along_computed_axes(axis):
    found = run(COMPUTED_ARGUMENTS["cumulative_sum"], X, np.array([axis]))
    np.testing.assert_allclose(found, np.cumsum(X, axis), rtol=1e-5)


def test_shapes_of_computed_axes():
    for axes in ([0], [-1, 1], [2, 0]):
        found = run(COMPUTED_ARGUMENTS["expand_dims"], X, np.array(axes))
        np.testing.assert_array_equal(found, np.expand_dims(X, axes))
    for axes in ([0], [-1], [-3, 2]):
        x = X[:1, :, :1]
        found = run(COMPUTED_ARGUMENTS["squeeze"], x, np.array(axes))
        np.testing.assert_array_equal(found, np.squeeze(x, tuple(axes)))


@pytest.mark.parametrize(
    ("starts", "stops", "axes", "steps"),
    [
        ([1, 0], [3, 100], [0, 2], [1, 2]), ([-1], [-100], [1], [-2]),
        ([10, -3], [0, 1000], [-1, 0], [-1, 1]), ([1], [2], [0], [1]),
        ([2], [1], [0], [1]), ([1], [2], [0], [-1]),
    ],
)  # fmt: skip
def test_slices_along_computed_axes(starts, stops, axes, steps):
    x = RNG.normal(size=(5, 6, 7))
    place = [slice(None)] * 3
    for start, stop, axis, step in zip(starts, stops, axes, steps, strict=True):
        place[axis] = slice(start, None if stop == -100 else stop, step)
    found = run(
        COMPUTED_ARGUMENTS["slice"], x, *map(np.array, (starts, stops, axes, steps))
    )
    np.testing.assert_array_equal(found, x[tuple(place)])


@pytest.mark.parametrize("k", [-2, 0, 1, 5])
def test_computed_diagonals(k):
    for name, function in (("tril", np.tril), ("triu", np.triu)):
        found = run(COMPUTED_ARGUMENTS[name], X, np.array(k))
        np.testing.assert_array_equal(found, function(X, k))
    define = COMPUTED_ARGUMENTS["eye"]
    dtype = amanda.DType("float32")
    found = run(
        lambda x, n: define(n, ops.dim(x, axis=0), k=k, dtype=dtype), X, np.array(3)
    )
    np.testing.assert_array_equal(found, np.eye(3, 2, k))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap", "symmetric"])
def test_padding_by_computed_sizes(mode):
    x = RNG.normal(size=(4, 5))
    define = COMPUTED_ARGUMENTS["pad"]
    for pads in ([[1, 2], [0, 3]], [[3, 0], [2, 2]], [[-1, 2], [1, -2]]):
        found = run(lambda x, p: define(x, p, mode=mode), x, np.array(pads))
        inner = x[max(-pads[0][0], 0) :, : 5 - max(-pads[1][1], 0)]
        widths = np.maximum(pads, 0)
        np.testing.assert_array_equal(found, np.pad(inner, widths, mode=mode))


def test_padding_with_a_computed_value_and_computed_axes():
    define = COMPUTED_ARGUMENTS["pad"]
    found = run(lambda x, v: define(x, [[1, 0], [0, 2]], v, [0, 2]), X, np.float32(7))
    expected = np.pad(X, [(1, 0), (0, 0), (0, 2)], constant_values=7)
    np.testing.assert_array_equal(found, expected)
    pads, axes = np.array([[1, 0], [0, 2]]), np.array([0, -1])
    found = run(lambda x, p, a: define(x, p, None, a), X, pads, axes)
    np.testing.assert_array_equal(found, np.pad(X, [(1, 0), (0, 0), (0, 2)]))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_transforms_along_computed_axes(axis, inverse):
    x = RNG.normal(size=(3, 4, 2))
    define = COMPUTED_ARGUMENTS["dft"]
    found = run(lambda x, a: define(x, None, a, inverse=inverse), x, np.array(axis))
    numbers, at = x[..., 0] + 1j * x[..., 1], range(2)[axis % 3]
    expected = (np.fft.ifft if inverse else np.fft.fft)(numbers, axis=at)
    np.testing.assert_allclose(found, np.stack([expected.real, expected.imag], -1))


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply,
    "divide": np.floor_divide, "floor_divide": np.floor_divide,
    "remainder": np.remainder, "maximum": np.maximum, "minimum": np.minimum,
    "less": np.less, "greater_equal": np.greater_equal, "bitwise_xor": np.bitwise_xor,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unsigned_integers_by_int64(dtype):
    most = np.iinfo(dtype).max
    half = most // 2
    a = np.array([0, 1, 5, most, most - 1, half + 1, 7, most, 100, half], dtype)
    b = np.array([1, 3, most, most, 2, half + 2, 7, 1, half + 5, half + 1], dtype)
    for name, function in BINARY.items():
        found = run(INT64_DEFINITIONS[name], a, b)
        np.testing.assert_array_equal(found, function(a, b), err_msg=name)
        assert found.dtype == function(a, b).dtype
    counts = np.array([0, 1, 2, 15, 3, 15, 4, 9, 8, 1], dtype)
    if dtype == "uint64":
        counts[:3] = 63, 64, 0
    found = run(INT64_DEFINITIONS["bitwise_right_shift"], a, counts)
    np.testing.assert_array_equal(found, np.right_shift(a, counts))


@pytest.mark.parametrize("dtype", ["uint16", "uint64"])
def test_orders_of_unsigned_integers(dtype):
    most = np.iinfo(dtype).max
    x = np.array([[5, most, 0], [most // 2 + 1, 7, most - 1]], dtype)
    for name, function in {
        "sort": lambda x: np.sort(x, -1), "argsort": lambda x: np.argsort(x, -1),
        "max": np.max, "min": np.min, "sign": np.sign, "abs": np.abs,
        "argmax": lambda x: np.argmax(x, 0), "sum": lambda x: x.sum(dtype=dtype),
    }.items():  # fmt: skip
        found = run(INT64_DEFINITIONS[name], x)
        np.testing.assert_array_equal(found, function(x), err_msg=name)


def test_definitions_decline_what_a_target_has():
    with pytest.raises(Decline):
        run(lambda x: COMPUTED_ARGUMENTS["sum"](x, [0]), X)
    with pytest.raises(Decline):
        run(INT64_DEFINITIONS["add"], X, X)
