"""Transforms of pairs, by the whole and by halves: against numpy in double precision.

That real numbers take the half, the traced program tells.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amanda.types import DType
from amanda_jax.kernels import JAX, fourier
from amanda_std.backends import use_kernels

CLOSE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-13}


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def by_numpy(
    x: np.ndarray, size: Any, axis: int, inverse: bool, onesided: bool
) -> np.ndarray:
    """Pairs of real and imaginary parts in and out, or real parts alone."""
    axis %= x.ndim
    whole = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    if inverse and onesided:
        return np.fft.irfft(whole, size, axis)[..., None]
    if onesided:
        made = np.fft.rfft(x[..., 0], size, axis)
    else:
        made = (np.fft.ifft if inverse else np.fft.fft)(whole, size, axis)
    return np.stack([made.real, made.imag], -1)


def check(
    x: np.ndarray, size: Any = None, axis: Any = -2, *, inverse: bool = False,
    onesided: bool = False, way: str,
) -> np.ndarray:  # fmt: skip
    """The transform as numpy has it, by `way`; gives what came out."""
    at = axis[0] if isinstance(axis, tuple) else axis
    wide = x.astype("float64")
    wanted = by_numpy(wide, size, at, inverse, onesided)

    def function(x):
        return fourier.dft(x, size, axis, inverse=inverse, onesided=onesided)

    with jax.enable_x64(True), use_kernels(JAX):
        program = jax.jit(function).lower(x).as_text()
        got = jax.jit(function)(x)
    assert got.dtype == x.dtype
    assert got.shape == wanted.shape
    name = DType.of(x.dtype).name
    np.testing.assert_allclose(
        np.asarray(got).astype("float64"), wanted, rtol=CLOSE[name],
        atol=CLOSE[name] * np.abs(wanted).max(initial=0),
    )  # fmt: skip
    assert re.search(rf"\b{way}\b", program)
    return np.asarray(got)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("size", [None, 1, 2, 5, 8, 9])
@pytest.mark.parametrize("axis", [0, 1, -2, -3, (0,), (1,)])
@pytest.mark.parametrize("shape", [(6, 7, 1), (2, 1, 1), (1, 2, 1)])
def test_real_numbers_take_the_half(shape, axis, size, inverse):
    check(random(*shape), size, axis, inverse=inverse, way="RFFT")


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("dtype", CLOSE)
def test_every_type(dtype, inverse):
    real = random(3, 10, 1).astype(DType(dtype).numpy)
    pairs = random(3, 10, 2).astype(DType(dtype).numpy)
    check(real, inverse=inverse, way="RFFT")
    check(pairs, inverse=inverse, way="IFFT" if inverse else "FFT")


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("size", [None, 1, 2, 5, 8])
@pytest.mark.parametrize("axis", [0, 1, (0,), -2])
@pytest.mark.parametrize("shape", [(6, 7, 2), (6, 1, 2), (1, 7, 2)])
def test_pairs_take_the_whole(shape, axis, size, inverse):
    way = "IFFT" if inverse else "FFT"
    check(random(*shape), size, axis, inverse=inverse, way=way)


@pytest.mark.parametrize("size", [None, 5, 8])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_the_first_half_only(axis, size):
    check(random(6, 7, 1), size, axis, onesided=True, way="RFFT")
    half = random(6, 7, 2)
    check(half, size, axis, inverse=True, onesided=True, way="IRFFT")


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(("size", "middle"), [(8, [0, 4]), (7, [0])])
def test_what_has_no_imaginary_part_has_none(size, middle, inverse):
    """The sum of all, and of all in turns of sign: the rest is the mirror exactly."""
    x = random(3, size, 1).astype("float32") * np.float32(1e6)
    got = check(x, inverse=inverse, way="RFFT")
    assert not got[:, middle, 1].any()
    for i in range(1, size):
        np.testing.assert_array_equal(got[:, i, 0], got[:, size - i, 0])
        np.testing.assert_array_equal(got[:, i, 1], -got[:, size - i, 1])


@pytest.mark.parametrize("last", [1, 2])
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("shape", [(0, 4), (2, 0, 4), (0, 1)])
def test_a_batch_of_none(shape, dtype, inverse, last):
    with jax.enable_x64(True), use_kernels(JAX):
        x = jnp.zeros((*shape, last), dtype)
        got = fourier.dft(x, inverse=inverse, onesided=False)
        wide = fourier.dft(x, 6, inverse=inverse, onesided=False)
    assert (got.shape, got.dtype) == ((*shape, 2), dtype)
    assert (wide.shape, wide.dtype) == ((*shape[:-1], 6, 2), dtype)
