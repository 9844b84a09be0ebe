"""Pooling touches elements in proportion to the data, whatever the window."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_std import grad, ops, trace
from amanda_std.ops.nn.window_reduction import (
    axis_windows,
    count_elements,
    reduce_windows,
)


class CountingFold:
    """A ufunc that counts the elements that it makes."""

    def __init__(self, function):
        self.function, self.elements = function, 0

    def __call__(self, a, b):
        y = self.function(a, b)
        self.elements += y.size
        return y


def windows_over(n, k, *, stride=1, dilation=1, pads=(0, 0), ceil=False):
    room = n + sum(pads) - (k - 1) * dilation - 1
    count = -(-room // stride) + 1 if ceil else room // stride + 1
    given = ((n,), (k,), (stride,), (pads,), (dilation,), (count,))
    return axis_windows(*given)


def seen_by_each(n, windows):
    """The elements that each window sees, by its definition."""
    (each,) = windows
    before, after = each.pads
    for i in range(each.places):
        at = [i * each.stride - before + t * each.dilation for t in range(each.window)]
        yield [p for p in at if max(0, -before) <= p < min(n, n + after)]


FORMS = [
    dict(zip(("n", "k", "stride", "dilation", "pads", "ceil"), row, strict=True))
    for row in itertools.product(
        (1, 5, 12), (1, 2, 7), (1, 3), (1, 2), ((0, 0), (3, 4), (-1, -1)), (0, 1)
    )
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_each_window_has_its_own_elements(form):
    n = form["n"]
    windows = windows_over(**form)
    if windows[0].places < 1:
        pytest.skip("there is no window")
    x = np.random.default_rng(0).normal(size=n)
    seen = list(seen_by_each(n, windows))
    sums = reduce_windows(x, windows, np.add, 0.0)
    np.testing.assert_allclose(sums, [x[p].sum() for p in seen], atol=1e-12)
    tops = reduce_windows(x, windows, np.maximum, -np.inf)
    assert tops.tolist() == [max(x[p], default=-np.inf) for p in seen]
    assert count_elements(windows, False).tolist() == [len(p) for p in seen]


@pytest.mark.parametrize("k", [2, 640, 10**9])
def test_windows_are_clipped_to_the_data(k):
    (each,) = windows = axis_windows((2,), (k,), (k,), ((0, k - 2),), (1,), (1,))
    fold = CountingFold(np.add)
    assert reduce_windows(np.float32([1, 2]), windows, fold, 0).tolist() == [3.0]
    assert len(each.taps()) == 2
    assert fold.elements == 1


def test_overlapping_windows_share_their_parts():
    n, k = 4096, 1000
    fold = CountingFold(np.add)
    reduce_windows(np.ones(n), windows_over(n, k), fold, 0.0)
    assert fold.elements < 2 * n * k.bit_length()  # one by one: n * k


def test_sums_keep_their_digits_and_do_not_spread_nan():
    """No sum is a difference of longer ones."""
    x = np.ones(400, "float32")
    x[100], x[300] = 1e9, np.nan
    sums = reduce_windows(x, windows_over(400, 50), np.add, 0)
    free = np.array([not {100, 300} & set(range(i, i + 50)) for i in range(351)])
    assert (sums[free] == 50).all()
    assert np.isnan(sums[251:301]).all()
    assert not np.isnan(sums[:251]).any()
    assert not np.isnan(sums[301:]).any()


POOLS = {
    "max_pool": ops.max_pool,
    "avg_pool": ops.avg_pool,
    "lp_pool": ops.lp_pool,
    "max_pool_with_indices": lambda *x, **attrs: ops.max_pool_with_indices(*x, **attrs)[
        0
    ],
}


@pytest.mark.parametrize("name", POOLS)
def test_a_kernel_larger_than_the_image(name):
    x = np.float32([[[[1, 2, 3], [4, 5, 7]]]])
    want = {"avg_pool": 22 / 6, "lp_pool": np.sqrt(104.0)}.get(name, 7.0)
    attrs = {"window": (640, 800), "strides": (640, 800), "ceil": True}
    got = POOLS[name](x, **attrs, padding=((0, 638), (0, 797)))
    np.testing.assert_allclose(got, [[[[want]]]], rtol=1e-6)


@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
def test_gradients_of_a_kernel_larger_than_the_image(name):
    attrs = {"window": (640, 640), "strides": (640, 640), "ceil": True}
    graph = trace(
        lambda x: POOLS[name](x, **attrs, padding=((0, 638), (0, 637))),
        [parse_type("float32[1, 1, 2, 3]")],
    )
    graph.result(grad(graph, graph.results[0], graph.parameters)[0])
    assert len(graph) < 200
    x = np.float32([[[[1, 2, 3], [4, 5, 7]]]])
    _, slope = amanda.run(graph, [x], backend="numpy").values()
    want = np.full(x.shape, 1 / 6) if name == "avg_pool" else x == 7
    np.testing.assert_allclose(slope, want, rtol=1e-6)


def test_half_precision_averages_are_accumulated_in_single():
    x = np.ones((1, 1, 4096), "float16")
    assert ops.avg_pool(x, window=(4096,)).item() == 1.0
