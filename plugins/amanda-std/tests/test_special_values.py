"""NaN, infinities, signed zeros, empty shapes and negative pads, on numpy and jax.

The oracle is NumPy, by algebra.
"""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_std import ops, trace

NAN, INF = np.nan, np.inf


@pytest.fixture(params=["numpy", "jax"])
def backend(request):
    if request.param == "jax":
        pytest.importorskip("amanda_jax", reason="amanda-jax is not installed")
    return request.param


def run(backend, function, *arrays):
    kinds = [
        parse_type(f"{v.dtype}[{', '.join(map(str, np.shape(v)))}]") for v in arrays
    ]
    graph = trace(function, kinds)
    [found] = amanda.run(graph, list(arrays), backend=backend).values()
    return np.asarray(found)


def assert_same(found, wanted):
    """Equal, with NaN and the signs of zeros."""
    wanted = np.asarray(wanted, found.dtype)
    np.testing.assert_array_equal(found, wanted)
    zeros = wanted == 0
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("window", [2, 3, 12])
def test_the_maximum_of_a_window_is_never_nan(backend, window, dtype):
    x = np.random.default_rng(0).standard_normal((2, 3, 40)).astype(dtype)
    x[..., ::3] = NAN
    x[0, 0, 8:24] = NAN  # windows of NaN alone
    x[1, 1, 5] = -INF
    seen = np.lib.stride_tricks.sliding_window_view(x, window, 2)
    wanted = np.where(np.isnan(seen), -INF, seen).max(-1)
    found = run(backend, lambda x: ops.max_pool(x, window=(window,)), x)
    assert_same(found, wanted)


def test_the_index_of_a_maximum_is_never_that_of_nan(backend):
    x = np.array([[[NAN, 1.0, 3.0, NAN, 2.0, NAN]]], "float32")
    at = run(backend, lambda x: ops.max_pool_with_indices(x, window=(3,))[1], x)
    assert_same(at, [[[2, 2, 2, 4]]])


def test_the_average_of_negative_zeros_is_zero(backend):
    x = np.full((1, 1, 8), -0.0, "float32")
    assert_same(
        run(backend, lambda x: ops.avg_pool(x, window=(3,)), x), np.zeros((1, 1, 6))
    )


PADS = [((-1, -1), (-1, -1)), ((-1, 1), (2, -2)), ((0, 0), (-2, 0)), ((-3, 0), (0, 2))]


def cropped(x, pads):
    """Padded or cropped by indexing."""
    for axis, (a, b) in enumerate(pads, 2):
        at = np.arange(-a, x.shape[axis] + b)
        inside = (at >= 0) & (at < x.shape[axis])
        x = np.take(x, at.clip(0, x.shape[axis] - 1), axis)
        x = x * inside.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return x


def convolved(x, w, groups=1):
    """Windows of the data times the kernel."""
    parts = zip(np.split(x, groups, 1), np.split(w, groups), strict=True)
    view = np.lib.stride_tricks.sliding_window_view
    size = w.shape[2:]
    found = [
        np.einsum("nchwij,ocij->nohw", view(part, size, (2, 3)), kernel)
        for part, kernel in parts
    ]
    return np.concatenate(found, 1)


@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize(("groups", "kernel"), [(1, (2, 3)), (2, (2, 2)), (1, (1, 1))])
def test_negative_pads_of_a_convolution_crop(backend, pads, groups, kernel):
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (2, 2, 6, 7)).astype("float32")
    w = rng.integers(-4, 5, (4, 2 // groups, *kernel)).astype("float32")
    found = run(backend, lambda x, w: ops.conv(x, w, padding=pads, groups=groups), x, w)
    assert_same(found + 0.0, convolved(cropped(x, pads), w, groups) + 0.0)


@pytest.mark.parametrize("pads", PADS)
def test_negative_pads_of_a_transposed_convolution_add_zeros(backend, pads):
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (1, 2, 4, 4)).astype("float32")
    w = rng.integers(-4, 5, (2, 3, 3, 3)).astype("float32")
    whole = convolved(cropped(x, ((2, 2),) * 2), w.swapaxes(0, 1)[:, :, ::-1, ::-1])
    wanted = cropped(whole, [(-a, -b) for a, b in pads])
    found = run(backend, lambda x, w: ops.conv_transpose(x, w, padding=pads), x, w)
    assert_same(found + 0.0, wanted + 0.0)


@pytest.mark.parametrize("shapes", [
    ((0, 2, 5, 5), (3, 2, 2, 2)), ((1, 2, 5, 5), (0, 2, 2, 2)),
])  # fmt: skip
def test_a_convolution_of_nothing_is_empty(backend, shapes):
    x, w = (np.ones(shape, "float32") for shape in shapes)
    found = run(backend, lambda x, w: ops.conv(x, w), x, w)
    assert found.shape == (shapes[0][0], shapes[1][0], 4, 4)


@pytest.mark.parametrize("batch", [0, 1])
def test_coordinates_without_numbers_select_the_whole(backend, batch):
    x = np.arange(12, dtype="float32").reshape(2, 3, 2)
    at = np.zeros((2, 4, 0), "int64")
    found = run(backend, lambda x, i: ops.gather_nd(x, i, batch_dims=batch), x, at)
    if batch:
        assert_same(found, np.broadcast_to(x[:, None], (2, 4, 3, 2)))
    else:
        assert_same(found, np.broadcast_to(x, (2, 4, 2, 3, 2)))


def test_a_threshold_of_nan_suppresses_no_box(backend):
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [0, 0.1, 1, 1]]], "float32")
    scores = np.array([[[0.9, 0.8, 0.7]]], "float32")
    found = run(
        backend, lambda b, s, t: ops.nms(b, s, None, t), boxes, scores,
        np.array(NAN, "float32"),
    )  # fmt: skip
    assert found[:, 2].tolist() == [0, 1, 2]


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_infinite_pixels_do_not_reach_positions_outside(backend, mode):
    """Of a position outside the image, the sample is 0 whatever the pixels are."""
    x = np.full((1, 1, 3, 3), INF, "float32")
    x[0, 0, 1] = NAN
    grid = np.array([[[[9.0, 0.0], [-9.0, 0.3], [INF, 0.0], [3e38, -3e38]]]], "float32")
    found = run(backend, lambda x, g: ops.grid_sample(x, g, mode=mode), x, grid)
    assert_same(found + 0.0, np.zeros((1, 1, 1, 4)))


def test_signs_of_zeros(backend):
    x = np.array([-0.0, 0.0, 2.0, -3.0, NAN], "float32")
    assert_same(run(backend, lambda x: ops.sign(x), x), [0.0, 0.0, 1.0, -1.0, NAN])
    if backend == "numpy":  # XLA does not order zeros
        high = np.array(-0.0, "float32")
        y = run(backend, lambda x, h: ops.clip(x, None, h), x[:2], high)
        assert_same(y, [-0.0, 0.0])


def test_an_empty_region_has_no_maximum(backend):
    """The maximum of nothing is 0, not minus infinity times 0."""
    x = np.ones((1, 1, 4, 4), "float32")
    rois = np.array([[2.0, 2, 2, 2]], "float32")
    found = run(
        backend,
        lambda x, r, b: ops.roi_align(
            x, r, b, size=(1, 1), ratio=0, mode="max", half_pixel=True
        ),
        x, rois, np.array([0], "int64"),
    )  # fmt: skip
    assert_same(found, np.zeros((1, 1, 1, 1)))
