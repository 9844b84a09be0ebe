"""Values and sizes that data decides: few programs, however many of them there are.

What XLA compiles is counted by JAX's log; results are those of the numpy backend.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amanda
from amanda.errors import AmandaWarning, BackendError
from amanda.types import parse_type
from amanda_std import ops, trace

MANY = 40
"""Values that are fed, one after the other, and then once more."""
X = np.cos(np.arange(60, dtype="float32"))
WEIGHT = np.sin(np.arange(12, dtype="float32")).reshape(3, 4)


def graph_of(function, *types: str):
    names = ["x", "k", "z"][: len(types)]
    return trace(function, [parse_type(t) for t in types], names=names)


def integer(value: int):
    return np.int64(value)


def vector(value: int):
    return np.int64([value])


def double_rows(x, k):
    """Iterates `k` times, and stacks a row of each iteration."""
    step = lambda i, go, v: (go, v * 0.9, ops.tanh(v))  # noqa: E731
    return ops.loop(k, None, step, x)


def stop_early(x, k):
    """A loop that ends when a row is small, after a number that data decides."""
    step = lambda i, go, v: (  # noqa: E731
        ops.greater(ops.max(v), 0.05), v * 0.8, v + 1.0)  # fmt: skip
    return ops.loop(k, None, step, x)


def clip_at(x, k):
    at = ops.squeeze(ops.nonzero(ops.less(x, k)), (0,))
    return ops.exp(ops.gather(x, at)) * 2.0, at


def sum_below(x, k):
    """What follows cannot be padded: a sum goes over what is kept."""
    return ops.sum(ops.compress(x, ops.less(x, k), axis=0), (0,))


def product_below(x, k):
    """Neither padded, nor better done by NumPy."""
    kept = ops.compress(x, ops.less(x, k), axis=0)
    row, column = ops.expand_dims(kept, (0,)), ops.expand_dims(kept, (1,))
    return ops.matmul(ops.softmax(row), column)


ROUNDED = [np.float32(np.sort(X)[i] + 1e-4) for i in range(MANY)]
CASES = {
    "slice of constant length": (lambda x, k: ops.exp(ops.slice(x, k, k + 3)),
                                 "int64[1]", [vector(i) for i in range(MANY)], 2, None),
    "slice of any length": (lambda x, k: ops.exp(ops.slice(x, (0,), k)), "int64[1]",
                            [vector(i) for i in range(MANY)], 16, "k"),
    "slice backwards": (lambda x, k: ops.exp(ops.slice(x, k, (-70,), None, (-1,))),
                        "int64[1]", [vector(i) for i in range(MANY)], 16, "k"),
    "topk": (lambda x, k: (ops.exp(ops.topk(x, k)[0]), ops.topk(x, k)[1]), "int64[]",
             [integer(i) for i in range(MANY)], 16, "k"),
    "range": (lambda x, k: ops.arange(0, k) * 2, "int64[]",
              [integer(i) for i in range(MANY)], 16, "k"),
    "one-hot": (lambda x, k: ops.one_hot(ops.argmax(x, 0), k, np.float32(1),
                                         np.float32(0)) * 3.0,
                "int64[]", [integer(i) for i in range(1, MANY)], 20, "k"),
    "full": (lambda x, k: ops.full(ops.reshape(k, [1]), np.float32(2)) + x[0],
             "int64[]", [integer(i) for i in range(MANY)], 16, "k"),
    "reshape": (lambda x, k: ops.exp(ops.reshape(x, k)), "int64[2]",
                [np.int64([d, -1]) for d in range(1, 61) if 60 % d == 0], 17, "k"),
    "tile": (lambda x, k: ops.tile(x, k) + 1.0, "int64[1]",
             [vector(i) for i in range(MANY)], 20, "k"),
    "stacked loop": (double_rows, "int64[]", [integer(i) for i in range(MANY)], 14,
                     "k"),
    "stacked loop that ends": (stop_early, "int64[]",
                               [integer(i) for i in range(MANY)], 14, None),
    "nonzero": (clip_at, "float32[]", ROUNDED, 18, "nonzero"),
    "sum over what is kept": (sum_below, "float32[]", ROUNDED, 14, "compress"),
}  # fmt: skip
"""Function, type of k, its values, most compilations, name in the warning."""


@pytest.mark.most_cases(3)
@pytest.mark.parametrize("case", CASES)
def test_programs_are_few_and_none_is_compiled_twice(case, compilation_log):
    function, kind, values, most, name = CASES[case]
    graph = graph_of(function, "float32[60]", kind)
    compiled, numpy = amanda.compile(graph, "jax"), amanda.compile(graph, "numpy")
    with warnings.catch_warnings(record=True) as caught, compilation_log() as log:
        warnings.simplefilter("always")
        for value in values:
            expect_equal(compiled([X, value]), numpy([X, value]))
        first = log.count
        for value in values:
            compiled([X, value])
    assert 0 < first <= most
    assert log.count == first == compiled.executable.report().compilations
    texts = [str(w.message) for w in caught if w.category is AmandaWarning]
    assert len(texts) <= 1
    if name is not None:
        assert name in texts[0]
        assert "specializations" in texts[0]


def expect_equal(results, wanted) -> None:
    for key, value in wanted.items():
        assert results[key].dtype == value.dtype
        assert results[key].shape == value.shape
        np.testing.assert_allclose(results[key], value, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_shared_says_so_once(compilation_log):
    """It is compiled for each size; the option that keeps more of them is named."""
    graph = graph_of(product_below, "float32[60]", "float32[]")
    compiled, numpy = amanda.compile(graph, "jax"), amanda.compile(graph, "numpy")
    for value in ROUNDED[:8]:
        expect_equal(compiled([X, value]), numpy([X, value]))
    with pytest.warns(AmandaWarning, match=r"compress.*option `programs`, now 32"):
        compiled([X, ROUNDED[8]])
    for value in ROUNDED[9:12]:
        expect_equal(compiled([X, value]), numpy([X, value]))
    with compilation_log() as log:
        for value in ROUNDED[:12]:
            compiled([X, value])
    assert log.count == 0


def test_a_value_that_had_a_program_keeps_it():
    graph = graph_of(lambda x, k: ops.topk(x, k)[0], "float32[60]", "int64[]")
    compiled = amanda.compile(graph, "jax", specializations=2)
    compiled([X, np.int64(1)])
    compiled([X, np.int64(2)])
    assert compiled.executable.report().python_ops == 0
    with pytest.warns(AmandaWarning, match=r"for 2 values of .*'k'"):
        compiled([X, np.int64(3)])
    assert compiled.executable.report().python_ops == 1
    compiled([X, np.int64(2)])
    assert compiled.executable.report().python_ops == 1
    compiled([X, np.int64(9)])
    assert compiled.executable.report().python_ops == 2


def test_an_invalid_value_is_an_error_after_the_first_ones():
    graph = graph_of(lambda x, k: ops.topk(x, k)[0], "float32[60]", "int64[]")
    compiled = amanda.compile(graph, "jax", specializations=1)
    compiled([X, np.int64(1)])
    with pytest.warns(AmandaWarning), pytest.raises(BackendError, match="61"):
        compiled([X, np.int64(61)])


@pytest.mark.parametrize("given", [0, -1, 2.5, True, "many"])
def test_the_number_of_exact_programs_is_checked(given):
    graph = graph_of(lambda x: x * 2.0, "float32[60]")
    with pytest.raises(BackendError, match=r"'specializations' .* is a number of"):
        amanda.compile(graph, "jax", specializations=given)


def _grow(x, k):
    def step(i, go, v):
        total = ops.sum(v, (0,), keepdims=True)
        return go, ops.concat(v, total * WEIGHT[:1], axis=0)

    return ops.loop(k, None, step, x)


class TestGrowingLoops:
    """Of a loop whose shapes grow only a few iterations are compiled."""

    X = np.float32([[0.1, 0.2, 0.3, 0.4]])

    def test_equal_feeds_compile_nothing(self, compilation_log):
        graph = graph_of(_grow, "float32[n, 4]", "int64[]")
        compiled, numpy = amanda.compile(graph, "jax"), amanda.compile(graph, "numpy")
        feeds = [self.X, np.int64(50)]
        with pytest.warns(AmandaWarning, match="body of loop .*specializations"):
            first = compiled(feeds)
        expect_equal(first, numpy(feeds))
        counts = compiled.executable.report().compilations
        assert 0 < counts <= 12
        with compilation_log() as log:
            for _ in range(3):
                expect_equal(compiled(feeds), first)
        assert log.count == 0
        assert compiled.executable.report().compilations == counts
        assert compiled.executable.report().outside

    def test_short_ones_stay_compiled(self):
        """Other sizes from outside are no growth."""
        graph = graph_of(_grow, "float32[n, 4]", "int64[]")
        compiled = amanda.compile(graph, "jax", programs=31)
        numpy = amanda.compile(graph, "numpy")
        for rows in range(1, 6):
            feeds = [np.repeat(self.X, 3 * rows, 0), np.int64(3)]
            expect_equal(compiled(feeds), numpy(feeds))
        assert compiled.executable.report().outside == {}


def _after_nonzero(x, k):
    at = ops.squeeze(ops.nonzero(ops.greater(x, k)), (0,))
    kept = ops.gather(x, at)
    rows = ops.expand_dims(kept, (1,)) * WEIGHT[:1]
    centred = rows - ops.max(rows, (1,), keepdims=True)
    return ops.cumulative_sum(kept, 0), centred, ops.concat(rows, rows, axis=1), at + 1


SIZED = graph_of(_after_nonzero, "float32[60]", "float32[]")
COMPILED = amanda.compile(SIZED, "jax", specializations=1)
NUMPY = amanda.compile(SIZED, "numpy")


@pytest.mark.filterwarnings("ignore::amanda.errors.AmandaWarning")
@given(st.lists(st.floats(-1, 1, width=16), min_size=60, max_size=60))
@settings(max_examples=40, deadline=None)
def test_any_size_is_as_on_numpy(numbers):
    """No size, one, and all others share a few programs."""
    feeds = [np.float32(numbers), np.float32(0)]
    expect_equal(COMPILED(feeds), NUMPY(feeds))


BOUNDS = {
    "two axes": (lambda x, k, z: ops.slice(x, k, z), 2),
    "the last axis": (lambda x, k, z: ops.slice(x, k, z, (-1,)), 1),
    "axes in another order": (lambda x, k, z: ops.slice(x, k, z, (1, 0)), 2),
    "a known start": (lambda x, k, z: ops.slice(x, (1, -2), z), 2),
    "steps": (lambda x, k, z: ops.slice(x, k, z, (1,), (2,)), 1),
}


@pytest.mark.filterwarnings("ignore::amanda.errors.AmandaWarning")
@pytest.mark.parametrize("case", BOUNDS)
def test_slices_at_any_bounds(case):
    """Negative ones, those beyond the end, and those that cross."""
    function, count = BOUNDS[case]
    kind = f"int64[{count}]"
    graph = graph_of(function, "float32[n, 5]", kind, kind)
    compiled, numpy = amanda.compile(graph, "jax"), amanda.compile(graph, "numpy")
    x = X[:20].reshape(4, 5)
    for start in (-9, -2, 0, 1, 3, 7):
        for stop in (-7, -1, 0, 2, 4, 2**62):
            feeds = [x, *np.int64([[start, stop], [stop, start]])[:, :count]]
            expect_equal(compiled(feeds), numpy(feeds))
