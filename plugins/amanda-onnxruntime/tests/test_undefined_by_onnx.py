"""What ONNX leaves open, or onnxruntime computes otherwise, has the hub's results."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_std import ops, trace


def run(function, array):
    graph = trace(function, [parse_type(f"{array.dtype}{[*array.shape]}")])
    compiled = amanda.compile(graph, "onnxruntime")
    return [np.asarray(y) for y in compiled([array]).values()]


@pytest.mark.parametrize("shape", [(0, 6, 5), (2, 0, 5), (2, 6, 0)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [[-1], [-2, -1], [0], [-3, 2]])
@pytest.mark.parametrize("name", ["sum", "prod", "logsumexp", "l1", "l2", "squares"])
def test_reductions_of_no_elements(name, axes, keepdims, shape):
    def reduce(x):
        if name == "l1":
            return ops.sum(ops.abs(x), axes, keepdims=keepdims)
        if name in ("l2", "squares"):
            total = ops.sum(ops.square(x), axes, keepdims=keepdims)
            return ops.sqrt(total) if name == "l2" else total
        return getattr(ops, name)(x, axes, keepdims=keepdims)

    x = np.zeros(shape, np.float32)
    expected = np.sum(x, axis=tuple(axes), keepdims=keepdims)
    value = {"prod": 1.0, "logsumexp": -np.inf}.get(name, 0.0)
    (found,) = run(reduce, x)
    np.testing.assert_array_equal(found, np.full_like(expected, value))


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_positions_of_extrema_in_an_empty_batch(op):
    (found,) = run(lambda x: getattr(ops, op)(x, -1), np.zeros((0, 3), np.float32))
    assert found.shape == (0,)


@pytest.mark.parametrize("descending", [False, True])
def test_nan_are_the_largest_where_sorted(descending):
    x = np.array([[3, np.nan, -1, 7], [np.nan, 2, np.nan, 1], [5, 4, 6, 0]], np.float32)
    expected = np.sort(x, axis=-1)  # NumPy's have NaN last
    expected = expected[:, ::-1] if descending else expected

    def both(x):
        order = ops.argsort(x, descending=descending)
        return ops.sort(x, descending=descending), order

    found, order = run(both, x)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.take_along_axis(x, order, -1), expected)


@pytest.mark.parametrize("value", [0.0, 1.5, -np.inf])
def test_padding_takes_part_in_maxima(value):
    """onnxruntime merges a Pad into MaxPool, whose pads are in no maximum."""
    x = np.full((1, 1, 3, 3), -1, np.float32)

    def pool(x):
        y = ops.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], np.float32(value))
        return ops.max_pool(y, window=(2, 2))

    expected = np.full((1, 1, 4, 4), max(value, -1), np.float32)
    expected[..., 1:3, 1:3] = -1
    (found,) = run(pool, x)
    np.testing.assert_array_equal(found, expected)
