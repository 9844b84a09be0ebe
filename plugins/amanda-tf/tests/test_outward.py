"""Ops of the hub whose arguments decide what is written, run by TensorFlow.

Shape arguments are inputs of the graph, so that they are known at run time only.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import amanda
from amanda.errors import ConversionError
from amanda_std import ops, trace

pytest.importorskip("tensorflow", reason="needs TensorFlow, which is the backend")

X = np.arange(24, dtype="float32").reshape(2, 3, 4)


def run(function, *feeds, backend="tensorflow"):
    """The results of a function of the hub."""
    arrays = [np.asarray(feed) for feed in feeds]
    types = [
        amanda.parse_type(f"{'string' if a.dtype.kind in 'SUO' else a.dtype}"
                          f"[{', '.join(map(str, a.shape))}]")
        for a in arrays
    ]  # fmt: skip
    graph = trace(function, types)
    given = dict(zip(graph.parameters, arrays, strict=True))
    results = amanda.compile(graph, backend=backend)(given)
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


@pytest.mark.parametrize("rank", [1, 2])
def test_transposed_convolutions_of_any_size(rank):
    """Sizes that are known at run time only: the results are those of known sizes."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 4, *(5, 6)[:rank])).astype("float32")
    w = rng.normal(size=(4, 3, *(3, 2)[:rank])).astype("float32")
    attrs = {
        "strides": [2, 3][:rank], "padding": [(1, 0), (0, 1)][:rank],
        "dilations": [2, 1][:rank], "output_padding": [1, 2][:rank], "groups": 2,
    }  # fmt: skip

    def function(x):
        return ops.conv_transpose(x, w, **attrs)

    (expected,) = run(function, x, backend="numpy")
    type_ = "float32[n, 4, h]" if rank == 1 else "float32[n, 4, h, w]"
    graph = trace(function, [amanda.parse_type(type_)])
    (found,) = amanda.run(graph, [x], backend="tensorflow").values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("k", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_triangles(k, dtype):
    """Also of bools, which are not subtracted, and of infinities."""
    x = X[..., ::-1] % 3 > 0 if dtype == "bool" else X - np.float32("inf")
    for ours, theirs in ((ops.tril, np.tril), (ops.triu, np.triu)):
        (found,) = run(lambda x, ours=ours: ours(x, k), x)
        np.testing.assert_array_equal(found, theirs(x, k))


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


KEY = np.array([7, 0xA4093822], "uint32")
PHILOX = np.array([7, 0xA4093822, 0xFFFFFFFE, 0xFFFFFFFF, 5, 9], "uint32")
TEXTS = np.array([["a b  c", "Grün"], ["", "x,y,z"]], object)
LIKE_NUMPY = {
    **{
        f"{name} of {generator}": (
            lambda key, name=name, generator=generator, more=more: getattr(ops, name)(
                key, (5, 3), generator=generator, **more
            ),
            [KEY if generator == "threefry" else PHILOX])
        for generator in ("threefry", "philox")
        for name, more in (
            ("random_bits", {"dtype": amanda.DType("uint64")}),
            ("random_bits", {"dtype": amanda.DType("uint32")}),
            ("random_uniform", {"dtype": amanda.DType("float64")}),
            ("random_normal", {"dtype": amanda.DType("float32")}),
            ("random_truncated_normal", {"dtype": amanda.DType("float32")}),
        )
    },
    "random_split": (lambda key: ops.random_split(key, 4), [KEY]),
    "random_permutation": (lambda key: ops.random_permutation(key, 9), [KEY]),
    "random_key of Philox": (
        lambda seed: ops.random_key(seed, generator="philox"), [ints(-3, 2**33 + 1)]),
    "string_split": (ops.string_split, [TEXTS]),
    "string_split at commas": (lambda x: ops.string_split(x, delimiter=","), [TEXTS]),
    "string_split once": (
        lambda x: ops.string_split(x, most=1), [np.array(["a b c", "d e", "f"])]),
    "string_split at most twice": (
        lambda x: ops.string_split(x, most=2), [np.array(["a b c", "d e", "f"])]),
    "string_normalize": (
        lambda x: ops.string_normalize(x, case="upper", stopwords=("A", "the")),
        [np.array(["a", "grün", "The", "b"])]),
    "string_normalize to nothing": (
        lambda x: ops.string_normalize(x, stopwords=("a",), case_sensitive=True),
        [np.array([["a", "a"]])]),
    "string_join": (lambda x: ops.string_join(x, separator="-"), [TEXTS]),
    "string_length": (ops.string_length, [TEXTS]),
    "string_length in bytes": (lambda x: ops.string_length(x, unit="bytes"), [TEXTS]),
    "string_from_number": (ops.string_from_number, [np.array([[-3, 12]])]),
    "string_from_number of booleans": (
        ops.string_from_number, [np.array([True, False])]),
    "round of integers": (ops.round, [np.array([-2, 0, 3], "int32")]),
    "astype bool of complex numbers": (
        lambda x: ops.astype(x, dtype=amanda.DType("bool")), [np.array([0j, 1j, 2])]),
    "diagonal above": (lambda x: ops.diagonal(x, offset=2), [X]),
    "diagonal below": (lambda x: ops.diagonal(x, offset=-1), [X]),
    "cumulative_max of integers": (
        lambda x: ops.cumulative_max(x, axis=1), [X.astype("int32") % 5]),
    "searchsorted in rows": (
        ops.searchsorted, [X, X[:, :, ::2] + np.float32(0.5)]),
    "tril beyond": (lambda x: ops.tril(x, 9), [X]),
    "triu beyond": (lambda x: ops.triu(x, 9), [X]),
    "triangular_solve with a unit diagonal": (
        lambda a, b: ops.triangular_solve(a, b, unit=True, transpose=True),
        [np.array([[5.0, 0], [2, 7]]), np.array([[1.0], [4]])]),
    "betainc that broadcasts": (
        ops.betainc,
        [np.array([[1.0], [2]]), np.array([2.0, 3]), np.array([0.3, 0.6])]),
    "erfinv of half precision": (ops.erfinv, [np.array([-0.5, 0.2], "float16")]),
    "slogdet of half precision": (
        ops.slogdet, [np.array([[2, 1], [1, 3]], "float16")]),
    "average of pads in rows that are rounded up": (
        lambda x: ops.avg_pool(x, window=(3,), strides=(2,), padding=((1, 1),),
                               ceil=True, count_pads=True), [X]),
    "bounded while": (
        lambda x: ops.while_(lambda x: ops.less(x, 50.0), lambda x: [x * 2.0], x,
                             max_trips=3), [np.float32(1)]),
    "get_element and has_element": (
        lambda x: (ops.get_element(x), ops.has_element(x), ops.has_element()), [X]),
}  # fmt: skip


@pytest.mark.parametrize("name", LIKE_NUMPY)
def test_results_are_those_of_the_reference_backend(name):
    """numpy's own kernels are tested by oracles of the hub."""
    function, feeds = LIKE_NUMPY[name]
    expected = run(function, *feeds, backend="numpy")
    for got, wanted in zip(run(function, *feeds), expected, strict=True):
        got, wanted = np.asarray(got), np.asarray(wanted)
        assert got.shape == wanted.shape
        if wanted.dtype.kind in "OSU":
            assert list(map(str, got.ravel())) == list(map(str, wanted.ravel()))
        else:
            assert got.dtype == wanted.dtype
            limit = 2e-3 if wanted.dtype == "float16" else 1e-5
            np.testing.assert_allclose(got, wanted, rtol=limit, atol=limit)


@pytest.mark.parametrize("name", ["expi", "log_ndtr"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_functions_that_tensorflow_lacks(name, dtype):
    special = pytest.importorskip("scipy.special", reason="the oracle")
    x = np.array([-700, -80, -40, -12.5, -12, -11.9, -5, -2.1, -2, -1.9, -1, -0.3,
                  -1e-3, 0, 1e-3, 0.5, 2, 6, 30, np.inf, np.nan], dtype)  # fmt: skip
    if name == "expi":
        x = x[np.isnan(x) | (x < 25)]
    (got,) = run(getattr(ops, name), x)
    wanted = getattr(special, name)(x.astype("float64"))
    limit = 1e-12 if dtype == "float64" else 2e-5
    np.testing.assert_allclose(got, wanted, rtol=limit, atol=1e-37)


def test_keys_without_a_seed_differ():
    graph = trace(lambda: ops.next_random_key((3,)), [])
    compiled = amanda.compile(graph, backend="tensorflow")
    keys = [np.asarray(_first(compiled({}))) for _ in range(2)]
    assert keys[0].shape == (3, 2)
    assert keys[0].dtype == "uint32"
    assert len({tuple(row) for key in keys for row in key}) == 6


def _first(results):
    return next(iter(results.values())) if isinstance(results, dict) else results


def test_containers_are_declined_by_name():
    graph = trace(ops.sequence_construct, [amanda.parse_type("float32[2]")])
    with pytest.raises(ConversionError, match="no values of type sequence"):
        amanda.convert(graph, "tensorflow")
    graph = trace(ops.tuple_make, [amanda.parse_type("float32[2]")])
    with pytest.raises(ConversionError, match="tuple_make, op #0: no rule"):
        amanda.convert(graph, "tensorflow")
    graph = amanda.Graph("amanda/std/1")
    graph.result(graph.parameter("sequence<float32[2]>", "x"), "y")
    with pytest.raises(ConversionError, match="no values of type sequence"):
        amanda.convert(graph, "tensorflow")
