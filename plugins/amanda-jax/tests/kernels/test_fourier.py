"""Transforms of real numbers, which are halves and their mirrors."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_std import ops, trace


@pytest.mark.parametrize("size", [None, 1, 2, 5, 8])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("inverse", [False, True])
def test_of_real_numbers_as_of_complex_ones(size, axis, inverse):
    def transformed(x):
        return ops.dft(x, size, axis, inverse=inverse)

    x = np.cos(np.arange(42.0)).reshape(6, 7, 1)
    with_zeros = np.concatenate([x, np.zeros_like(x)], -1)
    graph = trace(transformed, [parse_type("float64[n, m, k]")])
    run = amanda.compile(graph, "jax")
    [found], [wanted] = run([x]).values(), run([with_zeros]).values()
    by_numpy = (np.fft.ifft if inverse else np.fft.fft)(x[..., 0], size, axis)
    pairs = np.stack([by_numpy.real, by_numpy.imag], -1)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found, pairs, rtol=1e-12, atol=1e-12)


def test_half_of_the_frequencies_has_no_imaginary_part_at_all():
    graph = trace(lambda x: ops.dft(x, None, 0), [parse_type("float32[10, 3, 1]")])
    x = np.arange(30, dtype="float32").reshape(10, 3, 1)
    [found] = amanda.run(graph, [x], backend="jax").values()
    assert not found[[0, 5], :, 1].any()
