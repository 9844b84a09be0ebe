"""Ops of the hub whose arguments decide what is written, run by TensorFlow.

Shape arguments are inputs of the graph, so that they are known at run time only.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import amanda
from amanda_std import ops, trace

pytest.importorskip("tensorflow", reason="needs TensorFlow, which is the backend")

X = np.arange(24, dtype="float32").reshape(2, 3, 4)


def run(function, *feeds):
    """The results of a function of the hub, by TensorFlow."""
    arrays = [np.asarray(feed) for feed in feeds]
    types = [
        amanda.parse_type(f"{'string' if a.dtype.kind in 'SUO' else a.dtype}"
                          f"[{', '.join(map(str, a.shape))}]")
        for a in arrays
    ]  # fmt: skip
    graph = trace(function, types)
    given = dict(zip(graph.parameters, arrays, strict=True))
    results = amanda.compile(graph, backend="tensorflow")(given)
    if isinstance(results, dict):
        return list(results.values())
    return list(results) if isinstance(results, list | tuple) else [results]


def ints(*values):
    return np.array(values, "int64")


COMPUTED = {
    "squeeze": (
        ops.squeeze, [X[:, :1], ints(-2)], X[:, 0]),
    "expand_dims": (
        ops.expand_dims, [X, ints(-1, 0)], X[None, ..., None]),
    "reshape that copies dims": (
        lambda x, s: ops.reshape(x, s, copy_zero=True), [X, ints(0, -1)],
        X.reshape(2, 12)),
    "slice": (
        ops.slice_, [X, ints(0, -10), ints(2**62, 3), ints(2, 1)], X[:, :3]),
    "slice with steps": (
        ops.slice_, [X, ints(3, 1), ints(-(2**62), -(2**62)), ints(2, 0), ints(-2, -1)],
        X[1::-1, :, 3::-2]),
    "slice whose steps alone are computed": (
        lambda x, s: ops.slice_(x, [3], [0], [2], s), [X, ints(-1)], X[:, :, 3:0:-1]),
    "pad and crop": (
        ops.pad, [X, np.array([[1, -1], [-1, 0], [0, 2]])],
        np.pad(X[:1, 1:], [(1, 0), (0, 0), (0, 2)])),
    "pad of axes": (
        ops.pad, [X, np.array([[2, 1]]), np.float32(7), ints(-1)],
        np.pad(X, [(0, 0), (0, 0), (2, 1)], constant_values=7)),
    **{
        f"pad of mode {mode}": (
            lambda x, p, mode=mode: ops.pad(x, p, mode=mode),
            [X, np.array([[5, 2], [1, 4], [0, 0]])],
            np.pad(X, [(5, 2), (1, 4), (0, 0)], mode))
        for mode in ("edge", "reflect", "wrap")
    },
    "logsumexp": (
        ops.logsumexp, [X, ints(1)], np.log(np.exp(X.astype("d")).sum(1))),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_shape_arguments_known_at_run_time(name):
    function, feeds, expected = COMPUTED[name]
    (got,) = run(function, *feeds)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [[(1, 2), (0, 0), (3, 3)], [(4, 0), (7, 5), (0, 1)]])
def test_static_pads(mode, pads):
    (got,) = run(lambda x: ops.pad(x, pads, mode=mode), X)
    np.testing.assert_array_equal(got, np.pad(X, pads, mode))


def naive_pool(x, window, strides, pads, dilations, reduce, fill):
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    spans = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    sizes = [
        (n - span) // s + 1
        for n, span, s in zip(padded.shape[2:], spans, strides, strict=True)
    ]
    y = np.empty((*x.shape[:2], *sizes), "float64")
    for place in np.ndindex(*sizes):
        cut = tuple(
            slice(i * s, i * s + span, d)
            for i, s, span, d in zip(place, strides, spans, dilations, strict=True)
        )
        y[(..., *place)] = reduce(padded[(..., *cut)])
    return y


@pytest.mark.parametrize("padding", ["valid", "same_upper", [(1, 2), (0, 1)]])
@pytest.mark.parametrize("dilations", [(2, 1), (2, 3)])
def test_dilated_pooling(padding, dilations):
    x = np.random.default_rng(0).normal(size=(2, 3, 9, 8)).astype("float32")
    window, strides = (2, 3), (2, 1)
    pads = padding if isinstance(padding, list) else [(0, 0), (0, 0)]
    if padding == "same_upper":
        spans = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
        needed = [
            max((-(-n // s) - 1) * s + span - n, 0)
            for n, s, span in zip(x.shape[2:], strides, spans, strict=True)
        ]
        pads = [(n // 2, n - n // 2) for n in needed]
    attrs = {"window": window, "strides": strides, "dilations": dilations}
    axes = (-2, -1)
    (most,) = run(lambda x: ops.max_pool(x, padding=padding, **attrs), x)
    plan = (window, strides, pads, dilations)
    np.testing.assert_array_equal(
        most, naive_pool(x, *plan, lambda w: w.max(axes), -np.inf)
    )
    (mean,) = run(lambda x: ops.avg_pool(x, padding=padding, **attrs), x)
    average = naive_pool(x, *plan, lambda w: np.nanmean(w, axes), np.nan)
    np.testing.assert_allclose(mean, average, rtol=1e-5, atol=1e-6)
    (counted,) = run(
        lambda x: ops.avg_pool(x, padding=padding, count_pads=True, **attrs), x
    )
    whole = naive_pool(x, *plan, lambda w: w.mean(axes), 0)
    np.testing.assert_allclose(counted, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("rank", [1, 2])
def test_transposed_convolutions(rank, groups):
    """The adjoint of the convolution: <conv(y), x> = <y, conv_transpose(x)>."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 4, *(5, 6)[:rank])).astype("float32")
    w = rng.normal(size=(4, 3, *(3, 2)[:rank])).astype("float32")
    attrs = {"strides": [2, 1][:rank], "padding": [(1, 0)] * rank, "groups": groups}
    (back,) = run(lambda x, w: ops.conv_transpose(x, w, **attrs), x, w)
    y = rng.normal(size=back.shape).astype("float32")
    (there,) = run(lambda y, w: ops.conv(y, w, **attrs), y, w)
    np.testing.assert_allclose((there * x).sum(), (y * back).sum(), rtol=1e-4)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("sorted", [True, False])
def test_unique_slices(axis, sorted):
    x = np.random.default_rng(2).integers(0, 2, (6, 5, 2)).astype("float32")
    x[4] = x[1]
    found = run(lambda x: ops.unique(x, axis=axis, sorted=sorted), x)
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    order = np.arange(len(first)) if sorted else np.argsort(first)
    np.testing.assert_array_equal(found[0], np.take(values, order, axis))
    np.testing.assert_array_equal(found[1], first[order])
    np.testing.assert_array_equal(found[2], np.argsort(order)[inverse.ravel()])
    np.testing.assert_array_equal(found[3], counts[order])


@pytest.mark.parametrize(
    "equation", ["i , i", "ab,bc", "...ii ->...i", " bij, bjk -> bik ", "b...a"]
)
def test_einsum_equations(equation):
    """With spaces, without a result, and diagonals."""
    rng = np.random.default_rng(3)
    shapes = {"i , i": [(4,)] * 2, "ab,bc": [(2, 3), (3, 4)],
              "...ii ->...i": [(3, 5, 5)], " bij, bjk -> bik ": [(2, 3, 4), (2, 4, 5)],
              "b...a": [(2, 3, 4)]}  # fmt: skip
    xs = [rng.normal(size=shape) for shape in shapes[equation]]
    (got,) = run(lambda *xs: ops.einsum(*xs, equation=equation), *xs)
    expected = np.einsum(equation.replace(" ", ""), *xs)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_scatters_multiply():
    rng = np.random.default_rng(4)
    x, updates = rng.normal(size=(4, 3)), rng.normal(size=(2, 2, 3))
    at = np.array([[[0], [-1]], [[0], [2]]])
    expected = x.copy()
    np.multiply.at(expected, at[..., 0], updates)
    (got,) = run(lambda x, i, u: ops.scatter_nd(x, i, u, reduction="mul"),
                 x, at, updates)  # fmt: skip
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    rows = np.array([[1, -4, 0], [1, 0, 3]])
    expected = x.copy()
    np.multiply.at(expected, (rows, np.arange(3)), updates[0])
    (got,) = run(lambda x, i, u: ops.scatter_elements(x, i, u, reduction="mul"),
                 x, rows, updates[0])  # fmt: skip
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_gather_nd_of_batches():
    at = ints(*range(2)).reshape(2, 1, 1) + np.array([[0], [1]])
    (got,) = run(lambda x, i: ops.gather_nd(x, i, batch_dims=1), X, at)
    expected = np.stack([X[b][at[b, :, 0]] for b in range(2)])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float8_e5m2", "float8_e4m3fn"])
def test_casts_from_and_to_small_elements(dtype):
    x = np.array([-3.5, 0, 0.3, 6.7, 7], "float32")
    small = np.abs(x) if dtype == "uint4" else x
    narrow = getattr(ml_dtypes, dtype)
    (got,) = run(lambda x: ops.astype(x, dtype=amanda.DType(dtype)), small)
    np.testing.assert_array_equal(got.astype("f"), small.astype(narrow).astype("f"))
    (back,) = run(
        lambda x: ops.astype(x, dtype=amanda.DType("float16")), small.astype(narrow)
    )
    np.testing.assert_array_equal(back, small.astype(narrow).astype("float16"))


def test_remainders_of_narrow_floats():
    a, b = np.array([-4.3, 7.2, 5], "float16"), np.array([2.1, -3.4, 8], "float16")
    (got,) = run(ops.truncated_remainder, a, b)
    np.testing.assert_array_equal(got, np.fmod(a, b))


def test_short_time_transforms_of_computed_length():
    x = np.random.default_rng(5).normal(size=(2, 40))
    (got,) = run(lambda x, n: ops.stft(x, n, 4), x, np.int64(8))
    frames = np.stack([x[:, i : i + 8] for i in range(0, 33, 4)], 1)
    np.testing.assert_allclose(got, np.fft.rfft(frames), atol=1e-12)
