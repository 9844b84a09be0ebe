"""Functions that draw random numbers: the numbers are those of `jax.random`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import amanda
from amanda.errors import FormatError

random = jax.random
KEY = random.key(7)
X = np.float32([[1, 2, 3], [4, 5, 6]])


def drawn(key):
    return (random.uniform(key, (4,)), random.normal(key, (2, 3)),
            random.bernoulli(key, 0.3, (6,)), random.randint(key, (5,), 0, 10),
            random.permutation(key, 7), random.categorical(key, jnp.ones((3, 4))),
            random.choice(key, 5, (3,)), random.truncated_normal(key, -1.0, 1.0, (3,)),
            random.exponential(key, (2,)), random.gumbel(key, (2,)))  # fmt: skip


def bits(key):
    return tuple(
        random.bits(key, (3, 5), f"uint{count}") for count in (8, 16, 32)
    )  # fmt: skip


def keys(key):
    """New keys: split, folded, and one of several."""
    first, second = random.split(key)
    many = random.split(key, (3, 2))
    folded = jax.vmap(random.fold_in, (None, 0))(first, jnp.arange(4))
    return tuple(map(random.key_data, (first, second, many, folded, many[1, 0])))


def moved(key):
    """Keys as elements of arrays."""
    many = random.split(key, (3, 2))
    flags = jnp.array([[True, False]] * 3)
    found = (many[::-1].T.reshape(-1)[1:3], jnp.stack([key, key]),
             jnp.concatenate([many, many]), jnp.broadcast_to(key, (2, 3)),
             many[jnp.array([2, 0])], jnp.where(flags, many, many[::-1]),
             lax.dynamic_index_in_dim(many, jnp.int32(1)))  # fmt: skip
    return tuple(map(random.key_data, found))


def looped(key):
    many = random.split(key, 3)
    total, _ = lax.scan(lambda c, k: (c + random.normal(k), None), 0.0, many)
    last = lax.fori_loop(0, 3, lambda i, k: random.split(k)[0], key)
    chosen = lax.cond(total > 0, lambda k: k[0], lambda k: k[1], many)
    each = jax.vmap(lambda k: random.uniform(k, (2,)))(many)
    return total, random.key_data(last), random.key_data(chosen), each


FUNCTIONS = {
    "drawn": (drawn, KEY),
    "bits": (bits, KEY),
    "keys": (keys, KEY),
    "moved": (moved, KEY),
    "looped": (looped, KEY),
    "wrapped data": (
        lambda data: random.normal(random.wrap_key_data(data), (3,)), np.uint32([3, 4])
    ),
    "data as a key": (lambda key: random.normal(key, (3,)), random.PRNGKey(3)),
    "a seed": (
        lambda seed: (random.key_data(random.key(seed)), random.PRNGKey(seed)),
        np.int32(3),
    ),
    "a negative seed": (lambda seed: random.uniform(random.key(seed)), np.int32(-5)),
    "a key from around": (lambda x: x + random.uniform(KEY, x.shape), X),
    "dropout": (
        lambda x: jnp.where(random.bernoulli(KEY, 0.5, x.shape), x * 2, 0), X
    ),
}  # fmt: skip


def data_of(value):
    is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
    return np.asarray(random.key_data(value) if is_key else value)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_the_numbers_are_those_of_jax(name, backend):
    function, argument = FUNCTIONS[name]
    expect_same(function, argument, backend)


def expect_same(function, argument, backend):
    graph = amanda.load(function, "jax", args=(argument,))
    assert graph.check() == []
    hub = amanda.convert(graph, "std")
    wanted = jax.tree.leaves(jax.jit(function)(argument))
    found = amanda.run(hub, [data_of(argument)], backend=backend).values()
    for value, right in zip(found, wanted, strict=True):
        assert value.dtype == right.dtype
        tolerance = 1e-5 if right.dtype.kind == "f" else 0
        np.testing.assert_allclose(value, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["bits", "keys", "looped", "dropout"])
def test_onnx_has_the_same_numbers(name):
    if "onnxruntime" not in amanda.default_host().names("backends"):
        pytest.skip("onnxruntime is not installed")
    expect_same(*FUNCTIONS[name], "onnxruntime")


def test_numbers_of_64_bits():
    with jax.enable_x64(True):
        expect_same(
            lambda key: (random.uniform(key, (3,)), random.bits(key, (3,), "uint64")),
            KEY, "numpy",
        )  # fmt: skip
        seed = np.int64(2**40 + 7)
        expect_same(lambda seed: random.key_data(random.key(seed)), seed, "numpy")


def test_as_many_numbers_as_the_data_has():
    def dropout(x, key):
        return jnp.where(random.bernoulli(key, 0.5, x.shape), x * 2, 0)

    graph = amanda.load(dropout, "jax", args=("float32[batch, 3]", KEY))
    assert str(graph.parameters[1].type) == "uint32[2]"
    hub = amanda.convert(graph, "std")
    for x in (X, np.vstack([X, X])):
        [found] = amanda.run(hub, [x, data_of(KEY)], backend="numpy").values()
        np.testing.assert_array_equal(found, dropout(x, KEY))


def test_keys_of_other_generators_are_refused():
    key = random.key(0, impl="rbg")
    with pytest.raises(FormatError, match=r"(?s)this generator.*key<rbg>.*outside of"):
        amanda.load(random.uniform, "jax", args=(key,))


def test_what_keys_cannot_do_is_refused():
    with pytest.raises(FormatError, match=r"(?s)random_gamma of random keys.*outside"):
        amanda.load(lambda key: random.gamma(key, 2.0), "jax", args=(KEY,))
    with pytest.raises(FormatError, match=r"(?s)scatter of random keys.*key_data"):
        amanda.load(
            lambda keys: keys.at[0].set(keys[1]), "jax", args=(random.split(KEY),)
        )


def test_another_way_to_draw_is_refused():
    with (
        jax.threefry_partitionable(False),
        pytest.raises(FormatError, match="jax_threefry_partitionable"),
    ):
        amanda.load(lambda key: random.uniform(key), "jax", args=(KEY,))


def test_graphs_of_keys_are_the_same_each_time(tmp_path):
    first, second = (amanda.load(keys, "jax", args=(KEY,)) for _ in range(2))
    assert first.same_as(second)
    amanda.save(first, tmp_path / "keys.amanda")
    assert amanda.load(tmp_path / "keys.amanda").same_as(first)
