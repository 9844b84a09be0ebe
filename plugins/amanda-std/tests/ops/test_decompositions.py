"""Definitions of primitives by other ops, over the whole range of their arguments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from amanda_std.ops import OPS

DTYPES = ("float32", "float64")
EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52}


def decomposed(name, *xs):
    """An op computed by its definition, eagerly on arrays."""
    with np.errstate(all="ignore"):
        return np.asarray(OPS[name].definition(*xs))


def difference(found, wanted):
    """The largest relative difference, in units in the last place."""
    unit = EPSILON[str(found.dtype)]
    return float(np.abs(found.astype("float64") / wanted - 1).max() / unit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("goal", [np.inf, -np.inf, 0.0, 1.0, np.nan])
def test_next_numbers(dtype, goal):
    rng, info = np.random.default_rng(0), np.finfo(dtype)
    words = rng.integers(0, 2**info.bits, 20_000, dtype=f"uint{info.bits}")
    powers = 2.0 ** np.arange(info.minexp - info.nmant, info.maxexp)
    edges = np.array([0, np.inf, np.nan, info.max, info.tiny, *powers], dtype)
    near = np.nextafter(edges, np.array(np.inf, dtype))
    below = np.nextafter(edges, np.array(-np.inf, dtype))
    a = np.concatenate([words.view(dtype), edges, -edges, near, below, -near])
    b = np.full_like(a, goal)
    found, wanted = decomposed("nextafter", a, b), np.nextafter(a, b)
    np.testing.assert_array_equal(found, wanted)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(wanted)[number])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma_functions(dtype, name):
    """Places near the mean, where both are near 1/2, and far from it."""
    rng = np.random.default_rng(1)
    a = np.exp(rng.uniform(np.log(1e-4), np.log(3e3), 1500))
    ratios = np.where(rng.random(1500) < 0.5, np.exp(rng.normal(0, 1.5, 1500)),
                      1 + rng.normal(0, 2, 1500) / np.sqrt(a))  # fmt: skip
    a, x = a.astype(dtype), np.abs(a * ratios).astype(dtype)
    wanted = getattr(special, name)(a.astype("float64"), x.astype("float64"))
    found = decomposed(name, a, x)
    common, rare = wanted > 1e-3, wanted > 1e-30
    # exponents of rare events are large numbers, of which an error is multiplied
    assert difference(found[common], wanted[common]) < 500
    assert difference(found[rare], wanted[rare]) < 4000
    assert np.abs(found - wanted).max() < 100 * EPSILON[dtype]


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_ends_of_incomplete_gamma_functions(name):
    ends = np.array([0.0, 1.0, 2.5, np.inf, -1.0, np.nan])
    a, x = np.meshgrid(ends, ends)
    wanted = getattr(special, name)(a, x)
    np.testing.assert_allclose(decomposed(name, a, x), wanted, rtol=1e-14, atol=0)
    rows = decomposed(name, ends[:3, None], ends[None, :2])
    assert rows.shape == (3, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scaled_error_function(dtype):
    x = np.concatenate([np.linspace(-3, 60, 5001), np.geomspace(1, 1e6, 50)])
    x = x.astype(dtype)
    wanted = special.erfcx(x.astype("float64"))
    assert difference(decomposed("erfcx", x), wanted) < 150
    ends = np.array([np.inf, -np.inf, np.nan, 0], dtype)
    found = decomposed("erfcx", ends)
    np.testing.assert_allclose(found, [0, np.inf, np.nan, 1], rtol=150 * EPSILON[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_cube_roots(dtype):
    x = np.concatenate([np.geomspace(1e-30, 1e30, 4001), np.arange(1.0, 200) ** 3])
    x = np.concatenate([x, -x]).astype(dtype)
    assert difference(decomposed("cbrt", x), np.cbrt(x.astype("float64"))) < 3
    ends = np.array([np.inf, -np.inf, np.nan, 0, -0.0], dtype)
    found = decomposed("cbrt", ends)
    np.testing.assert_array_equal(found, ends)
    assert np.signbit(found[-1])
