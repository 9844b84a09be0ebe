"""Random numbers match those of jax.random and TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.types import DType
from amanda_std import ops

SEEDS = (0, 42, 123456789)


@pytest.fixture(scope="module")
def jax():
    jax = pytest.importorskip("jax", reason="the oracle is JAX")
    if not jax.config.jax_threefry_partitionable:
        pytest.skip("this JAX draws its streams in an older order")
    return jax


def both(jax, seed):
    ours = ops.random_key(np.asarray(seed, "int64"))
    theirs = jax.random.PRNGKey(seed)
    np.testing.assert_array_equal(ours, theirs)
    return ours, theirs


def expect_close(got, want, digits=1e-5):
    want = np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    wide = "float64" if want.dtype.kind in "fV" else want.dtype
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), digits, digits)


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_and_bits_match_jax(jax, seed):
    ours, theirs = both(jax, seed)
    expect_close(ops.random_split(ours, 5), jax.random.split(theirs, 5))
    folded = ops.random_fold_in(ours, np.asarray(77, "int64"))
    expect_close(folded, jax.random.fold_in(theirs, 77))
    for name in ("uint8", "uint16", "uint32"):
        got = ops.random_bits(ours, (7, 3), dtype=DType(name))
        expect_close(got, jax.random.bits(theirs, (7, 3), name))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("seed", SEEDS)
def test_floats_match_jax(jax, seed, dtype):
    ours, theirs = both(jax, seed)
    loose = {"float16": 4e-3, "bfloat16": 3e-2}.get(dtype, 1e-5)
    own = DType(dtype)
    with jax.enable_x64(True):
        random, shape = jax.random, (200, 3)
        got = ops.random_uniform(ours, shape, dtype=own)
        expect_close(got, random.uniform(theirs, shape, dtype), 0)
        got = ops.random_normal(ours, shape, dtype=own)
        expect_close(got, random.normal(theirs, shape, dtype), loose * 10)
        got = ops.random_gumbel(ours, shape, dtype=own)
        expect_close(got, random.gumbel(theirs, shape, dtype), loose * 10)
        got = ops.random_truncated_normal(ours, shape, low=-1.0, high=2.0, dtype=own)
        want = random.truncated_normal(theirs, -1.0, 2.0, shape, dtype)
        expect_close(got, want, loose * 10)


@pytest.mark.parametrize("seed", SEEDS)
def test_choices_match_jax(jax, seed):
    ours, theirs = both(jax, seed)
    random = jax.random
    p = np.array([0.1, 0.5, 0.9], "float32")
    got = ops.random_bernoulli(ours, p, (50, 3))
    expect_close(got, random.bernoulli(theirs, p, (50, 3)))
    with jax.enable_x64(True):
        for dtype, low, high in (("int32", -7, 90), ("uint8", 0, 100), ("int64", 5, 9)):
            got = ops.random_integers(ours, (99,), low, high, dtype=DType(dtype))
            expect_close(got, random.randint(theirs, (99,), low, high, dtype))
        logits = np.log(np.array([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]], "float32"))
        got = ops.random_categorical(ours, logits, (40,))
        expect_close(got, random.categorical(theirs, logits, shape=(40, 2)))
        for count in (10, 3000):
            got = ops.random_permutation(ours, count)
            expect_close(got, random.permutation(theirs, count))


@pytest.fixture(scope="module")
def stateless():
    tf = pytest.importorskip("tensorflow", reason="the oracle is TensorFlow")
    return tf.raw_ops


PAIRS = ((0, 0), (1, 2), (-5, 2**40 + 3))


@pytest.mark.parametrize("seed", PAIRS)
def test_numbers_match_tensorflow(stateless, seed):
    seed = np.asarray(seed, "int64")
    key = ops.random_key(seed, generator="philox")
    shape = (37, 11)
    philox = {"generator": "philox"}
    for name in ("float32", "float64", "float16", "bfloat16"):
        given = {"shape": shape, "seed": seed, "dtype": name}
        attrs = {"dtype": DType(name), **philox}
        want = stateless.StatelessRandomUniform(**given).numpy()
        expect_close(ops.random_uniform(key, shape, **attrs), want, 0)
        want = stateless.StatelessRandomNormal(**given).numpy()
        loose = {"float16": 4e-3, "bfloat16": 3e-2}.get(name, 1e-5)
        expect_close(ops.random_normal(key, shape, **attrs), want, loose)
    given = {"shape": shape, "seed": seed, "dtype": "float32"}
    want = stateless.StatelessTruncatedNormal(**given).numpy()
    expect_close(ops.random_truncated_normal(key, shape, **philox), want)
    for name in ("int32", "int64"):
        low, high = np.asarray(-9, name), np.asarray(1000, name)
        want = stateless.StatelessRandomUniformInt(
            shape=shape, seed=seed, minval=low, maxval=high
        ).numpy()
        attrs = {"dtype": DType(name), **philox}
        expect_close(ops.random_integers(key, shape, -9, 1000, **attrs), want)
    for name in ("uint32", "uint64"):
        want = stateless.StatelessRandomUniformFullInt(
            shape=shape, seed=seed, dtype=name
        ).numpy()
        attrs = {"dtype": DType(name), **philox}
        expect_close(ops.random_bits(key, shape, **attrs), want)
