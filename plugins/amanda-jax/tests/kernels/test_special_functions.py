"""Special functions, against scipy in double precision.

Samples have few numbers, and allow float64 what float32 would reach: here it must have
its own digits. Small floats are rounded once, from single precision.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special as by_scipy

from amanda.types import DType
from amanda_jax.kernels import JAX, special_functions

NUMBERS: dict[str, tuple[list[float], ...]] = {
    "erfc": ([-6, -1, -0.1, 0, 0.3, 1, 3, 8],),
    "erfcx": ([-3, -1, -0.1, 0, 0.3, 1, 8, 1000],),
    "erfinv": ([-0.999, -0.5, -0.1, 0, 0.25, 0.9],),
    "lgamma": ([0.001, 0.5, 1.5, 2.5, 10, 100, -0.5, -3.7],),
    "digamma": ([0.001, 0.5, 1, 2, 10, 100, -0.5, -3.7],),
    "ndtri": ([0.001, 0.1, 0.5, 0.75, 0.99],),
    "log_ndtr": ([-40, -20, -5, -1, 0, 1],),
    "i0": ([-10, -8, -1, 0, 0.5, 8],),
    "i0e": ([-300, -8, -1, 0, 0.5, 30],),
    "i1": ([-10, -8, -1, 0, 0.5, 8],),
    "i1e": ([-300, -8, -1, 0, 0.5, 30],),
    "expi": ([-8, -3, -1, -0.1, 0.1, 1, 5, 10],),
    "spence": ([0, 0.1, 0.5, 1, 1.5, 2, 10, 100],),
    "zeta": ([1.5, 2, 3.5, 6, 1.25], [1, 0.75, 2.5, 3, 1]),
    "j0": ([-30, -5, -1, 0, 0.3, 2, 5.5, 9],),
    "j1": ([-30, -5, -1, 0, 0.3, 2, 5.5, 9],),
    "y0": ([0, 0.001, 0.3, 1, 2, 5.5, 9, 30],),
    "y1": ([0, 0.001, 0.3, 1, 3, 5.5, 9, 30],),
    "k0": ([0, 0.001, 0.3, 1, 2, 2.5, 9],),
    "k0e": ([0, 0.001, 0.3, 1, 2, 2.5, 9, 300],),
    "k1": ([0, 0.001, 0.3, 1, 2, 2.5, 9],),
    "k1e": ([0, 0.001, 0.3, 1, 2, 2.5, 9, 300],),
    "polygamma": ([0, 1, 2, 3, 4, 1, 2], [0.5, 1, 2.5, 10, 0.75, -2.25, -0.5]),
    "gammainc": ([0.5, 1, 3, 10, 5], [0.25, 1, 2, 9, 0]),
    "gammaincc": ([0.5, 1, 3, 10, 5], [0.25, 1, 2, 9, 0]),
    "betainc": ([0.5, 2, 8, 1, 5], [0.5, 3, 4, 1, 0.5], [0.125, 0.5, 0.9, 0.25, 0.9]),
}
"""Rows of numbers for each parameter; of polygamma, the first ones are integers."""

NAMES = {"lgamma": "gammaln", "digamma": "psi"}

CLOSE = {"float64": 1e-12, "float32": 4e-6, "float16": 2e-3, "bfloat16": 8e-3}


def given(name: str, dtype: str) -> list[np.ndarray]:
    kind = DType(dtype).numpy
    made = [np.array(row, kind) for row in NUMBERS[name]]
    if name == "polygamma":
        made[0] = np.array(NUMBERS[name][0], "int64")
    return made


def test_all_of_them():
    assert special_functions.KERNELS.keys() == NUMBERS.keys()


@pytest.mark.most_cases(6)
@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("name", NUMBERS)
def test_as_scipy_in_double_precision(name, dtype):
    """Of the same numbers, which the type has rounded before.

    JAX's log_ndtr has a series of three terms from -20 down, good for 11 digits."""
    xs = given(name, dtype)
    function = getattr(by_scipy, NAMES.get(name, name))
    wide = [x.astype("float64") if x.dtype.kind != "i" else x for x in xs]
    wanted = function(*wide)
    with jax.enable_x64(True):
        got = JAX[name](*map(jnp.asarray, xs))
    assert got.dtype == xs[-1].dtype
    loose = max(CLOSE[dtype], 1e-10 if name == "log_ndtr" else 0)
    np.testing.assert_allclose(
        np.asarray(got).astype("float64"), wanted, rtol=loose, atol=loose / 16
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", NUMBERS)
def test_small_floats_are_rounded_once(name, dtype):
    """What single precision gives, as the small float that is next to it."""
    xs = given(name, dtype)
    single = [x.astype("float32") if x.dtype.kind != "i" else x for x in xs]
    with jax.enable_x64(True):
        exact = special_functions.KERNELS[name](*map(jnp.asarray, single))
        got = special_functions.KERNELS[name](*map(jnp.asarray, xs))
    np.testing.assert_array_equal(
        np.asarray(got), np.asarray(exact).astype(DType(dtype).numpy)
    )


@pytest.mark.parametrize("dtype", CLOSE)
def test_an_order_of_polygamma_for_a_row(dtype):
    """One order, broadcast, keeps its own type while the numbers become wider."""
    kind = DType(dtype).numpy
    x = np.array([[0.5], [2.0]], kind)
    with jax.enable_x64(True):
        got = special_functions.KERNELS["polygamma"](
            np.array([1, 2, 3]), jnp.asarray(x)
        )
    wanted = by_scipy.polygamma(np.array([1, 2, 3]), x.astype("float64"))
    assert (got.shape, got.dtype) == ((2, 3), kind)
    loose = CLOSE[dtype]
    np.testing.assert_allclose(np.asarray(got).astype("float64"), wanted, rtol=loose)
