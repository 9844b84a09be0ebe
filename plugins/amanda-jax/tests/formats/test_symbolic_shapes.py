"""Functions of JAX that are read for symbolic sizes compute what JAX does for each."""

from __future__ import annotations

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import amanda
from amanda.errors import ConversionError, FormatError, UsageError
from amanda.graph import set_dims
from amanda.types import Sym

WEIGHT = np.sin(np.arange(32, dtype="float32")).reshape(4, 8)
BACK = np.cos(np.arange(32, dtype="float32")).reshape(8, 4)
KERNEL = np.sin(np.arange(3 * 3 * 2 * 4, dtype="float32")).reshape(3, 3, 2, 4)
TABLE = np.cos(np.arange(28, dtype="float32")).reshape(7, 4)


def mlp(x):
    return jax.nn.relu(x @ WEIGHT + 1.0) @ BACK


def conv_net(x):
    y = lax.conv_general_dilated(
        x, KERNEL, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    y = jax.nn.relu(y)
    y = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return y.reshape(y.shape[0], -1) @ jnp.ones((36, 2))


def of_any_image(x):
    """With padding that depends on the size of the image."""
    y = lax.conv_general_dilated(
        x, KERNEL, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    windows = (1, 2, 2, 1), (1, 2, 2, 1), "SAME"
    return (y, lax.reduce_window(y, -jnp.inf, lax.max, *windows),
            lax.reduce_window(y, 0.0, lax.add, *windows), y.mean((1, 2)))  # fmt: skip


def attention(x):
    """Causal, over [batch, time, channels]."""
    q, k, v = (x @ WEIGHT[:, i : i + 4] for i in (0, 2, 4))
    scores = jnp.einsum("btd,bsd->bts", q, k) / 2.0
    mask = jnp.tril(jnp.ones((x.shape[1],) * 2, bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return x + jnp.einsum("bts,bsd->btd", weights, v)


def layer_norm(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * TABLE[0]


def over_time(x):
    """Of [time, batch, channels]: the last state, and all of them."""
    start = jnp.zeros((x.shape[1], 4)) + jnp.arange(x.shape[0]).sum()

    def step(carry, row):
        carry = jnp.tanh(carry + row) + jnp.arange(x.shape[1])[:, None]
        return carry, carry * 2

    return lax.scan(step, start, x)


def indexed(x):
    return (x[0], x[-1], x[1:], x[:-1], x[::-1], x[:, 1:3],
            lax.dynamic_slice_in_dim(x, 1, x.shape[0] - 1),
            lax.dynamic_update_slice(x, x[:1] * 9, (1, 0)))  # fmt: skip


def placed(x):
    places = jnp.arange(x.shape[0])
    angles = places[:, None] / (10.0 ** jnp.arange(4.0))
    return x + jnp.sin(angles), lax.iota("float32", x.shape[0]) * x.shape[0]


def reduced(x):
    return (x.mean(0), x.sum(), jnp.var(x, 0), jnp.argmax(x, 0), jnp.argmin(x), x.max(),
            (x > 0).any(0), jax.nn.logsumexp(x, 0), jnp.prod(x, 0))  # fmt: skip


def broadcast(x):
    return (jnp.broadcast_to(x[:, None], (x.shape[0], 3, 4)), jnp.zeros_like(x) + 1,
            jnp.full(x.shape, 2.5), x[:, None, :] - x[None],
            jnp.outer(x[:, 0], x[:, 1]), jnp.eye(x.shape[0]))  # fmt: skip


def reshaped(x):
    return (x.reshape(-1), x.reshape(x.shape[0], 2, 2), x.reshape(2 * x.shape[0], 2),
            x.reshape(-1, 2).T, x.T.reshape(4, -1), jnp.ravel(x)[None])  # fmt: skip


def joined(x):
    return (jnp.concatenate([x, x[:1], x]), jnp.stack([x, x + 1], 1),
            jnp.tile(x, (2, 3)), jnp.pad(x, ((1, 2), (0, 1))), jnp.repeat(x, 2, axis=0),
            lax.pad(x, 0.5, ((-1, 3, 1), (0, 0, 2))), jnp.roll(x, 1, 0))  # fmt: skip


def ordered(x):
    return (jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cummax(x, 0, reverse=True),
            jnp.sort(x, 0), jnp.argsort(x, axis=0), *lax.top_k(x, 2),
            *lax.top_k(x[:, 0], x.shape[0]))  # fmt: skip


def looped(x):
    return (lax.fori_loop(0, x.shape[0], lambda i, c: c * 0.5 + i, x),
            lax.cond(x[0, 0] > 0, lambda v: v + jnp.arange(x.shape[0])[:, None],
                     lambda v: v * 2, x))  # fmt: skip


def loss(x):
    return jnp.mean(mlp(x) ** 2)


def cross_entropy(x):
    labels = jnp.arange(x.shape[0]) % 4
    chosen = jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], axis=1)
    one_hot = jax.nn.one_hot(labels, 4)
    return -chosen.mean(), (x * one_hot).sum(1)


def scattered(x):
    return (x.at[0].set(1.5), x.at[:, 1].add(2.0), x.at[-1].multiply(3.0),
            x.at[jnp.arange(x.shape[0]), jnp.arange(x.shape[0]) % 4].set(0.5),
            jax.grad(lambda v: (v[1:] ** 2).sum() + v[0].sum())(x))  # fmt: skip


FUNCTIONS = {
    "mlp": (mlp, ["float32[b, 4]"]),
    "convolutions": (conv_net, ["float32[b, 6, 6, 2]"]),
    "convolutions of any image": (of_any_image, ["float32[1, b + 3, t + 4, 2]"]),
    "gradient of convolutions": (
        jax.grad(lambda x: (conv_net(x) ** 2).sum()), ["float32[b, 6, 6, 2]"]
    ),
    "attention": (attention, ["float32[b, t, 4]"]),
    "gradient of attention": (
        jax.grad(lambda x: (attention(x) ** 2).sum()), ["float32[b, t, 4]"]
    ),
    "layer norm": (layer_norm, ["float32[b, t, 4]"]),
    "embedding": (lambda i: jnp.asarray(TABLE)[i], ["int32[b, t]"]),
    "taken": (
        lambda x, i: (jnp.take(x, i, axis=0), x[i],
                      jnp.take(x, i, axis=0, mode="clip")),
        ["float32[b, 4]", "int32[t]"],
    ),
    "gradient of an embedding": (
        lambda i: jax.grad(lambda table: (table[i] ** 2).sum())(TABLE), ["int32[b, t]"]
    ),
    "over time": (over_time, ["float32[t, b, 4]"]),
    "gradient over time": (
        jax.grad(lambda x: (over_time(x)[1] ** 2).sum() * 1e-3), ["float32[t, b, 4]"]
    ),
    "examples one by one": (
        jax.vmap(lambda row: jnp.tanh(row @ WEIGHT)[jnp.argmax(row)]),
        ["float32[b, 4]"],
    ),
    "indexed": (indexed, ["float32[b, 4]"]),
    "placed": (placed, ["float32[b, 4]"]),
    "reduced": (reduced, ["float32[b, 4]"]),
    "broadcast": (broadcast, ["float32[b, 4]"]),
    "reshaped": (reshaped, ["float32[b, 4]"]),
    "joined": (joined, ["float32[b, 4]"]),
    "ordered": (ordered, ["float32[b, 4]"]),
    "loops": (looped, ["float32[b, 4]"]),
    "gradient": (jax.value_and_grad(loss), ["float32[b, 4]"]),
    "cross entropy": (cross_entropy, ["float32[b, 4]"]),
    "scattered": (scattered, ["float32[b, 4]"]),
    "products": (
        lambda x, y: (x @ y, (x @ y).sum(1)), ["float32[b, t]", "float32[t, b]"]
    ),
    "expressions": (
        lambda x, y: (jnp.concatenate([x, y[1:]]), y[:-1] * 2, jnp.arange(x.shape[0]),
                      jnp.zeros((x.shape[0] // 2, y.shape[0] - 1))),
        ["float32[2*b, 4]", "float32[b + 1, 4]"],
    ),
}  # fmt: skip


def feeds_of(types, sizes):
    random = np.random.default_rng(0)
    for text in types:
        type = amanda.parse_type(text)
        shape = [amanda.types.evaluate(dim, sizes) for dim in type.shape]
        if type.dtype.kind == "int":
            yield random.integers(0, min(sizes.values(), default=2), shape).astype(
                "int32"
            )
        else:
            yield random.normal(size=shape).astype("float32")


def load_hub(function, types):
    graph = amanda.load(jax.jit(function), "jax", args=tuple(types))
    assert graph.check() == []
    return amanda.convert(graph, "amanda/std/1")


def expect_same(function, hub, feeds, backend):
    wanted = jax.tree.leaves(jax.jit(function)(*feeds))
    found = amanda.run(hub, feeds, backend=backend)
    assert len(found) == len(wanted)
    for value, right in zip(found.values(), wanted, strict=True):
        assert value.dtype == right.dtype
        np.testing.assert_allclose(value, right, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_size_gives_what_jax_does(name):
    function, types = FUNCTIONS[name]
    hub = load_hub(function, types)
    for sizes in ({"b": 2, "t": 3}, {"b": 5, "t": 4}):
        expect_same(function, hub, list(feeds_of(types, sizes)), "numpy")


@pytest.mark.parametrize("backend", ["jax", "onnxruntime"])
@pytest.mark.parametrize("name", ["attention", "over time", "joined", "reduced"])
def test_other_backends_take_any_size(name, backend):
    if backend not in amanda.default_host().names("backends"):
        pytest.skip(f"{backend} is not installed")
    function, types = FUNCTIONS[name]
    hub = load_hub(function, types)
    for sizes in ({"b": 2, "t": 3}, {"b": 5, "t": 4}):
        expect_same(function, hub, list(feeds_of(types, sizes)), backend)


@pytest.mark.parametrize("name", ["indexed", "expressions", "over time"])
def test_symbols_in_attributes_are_saved(name, tmp_path):
    function, types = FUNCTIONS[name]
    graph = amanda.load(function, "jax", args=tuple(types))
    for file in (tmp_path / "graph.amanda", tmp_path / "graph.json"):
        amanda.save(graph, file)
        assert amanda.load(file).same_as(graph)
    hub = amanda.convert(amanda.load(tmp_path / "graph.amanda"), "std")
    feeds = list(feeds_of(types, {"b": 3, "t": 2}))
    expect_same(function, hub, feeds, "numpy")


def test_dims_of_jax_are_read():
    b, t = jax.export.symbolic_shape("b, t")
    dims = (
        2 * b + 1,
        b // 2,
        b % 3,
        jax.core.max_dim(b, 3),
        jax.core.min_dim(b, t),
        b * b * t,
    )
    forms = [jax.ShapeDtypeStruct((dim, b, t), "float32") for dim in dims]
    graph = amanda.load(lambda *xs: xs, "jax", args=forms)
    assert [str(port.type.shape.dims[0]) for port in graph.parameters] == [
        "2*b+1", "b//2", "b-3*(b//3)", "max(3, b)", "min(b, t)", "b*b*t",
    ]  # fmt: skip
    back = [str(port.type) for port in graph.parameters]
    again = amanda.load(lambda *xs: xs, "jax", args=back)
    assert [str(port.type) for port in again.parameters] == back


def test_the_body_of_a_loop_has_sizes_that_its_inputs_have_not():
    def counted(x, y):
        return lax.fori_loop(
            0, 3, lambda i, c: c + jnp.ones(y.shape).sum() * i, x.sum()
        )

    types = ["float32[b]", "float32[t, b]"]
    hub = load_hub(counted, types)
    expect_same(counted, hub, list(feeds_of(types, {"b": 2, "t": 3})), "numpy")


def test_a_size_is_given_later():
    graph = amanda.load(reshaped, "jax", args=("float32[b, 4]",))
    set_dims(graph, {"b": 3})
    hub = amanda.convert(graph, "std")
    assert all(port.type.shape.is_static for port in hub.results)
    feeds = list(feeds_of(["float32[3, 4]"], {}))
    expect_same(reshaped, hub, feeds, "numpy")


@pytest.mark.parametrize("name", ["lambda", "my-size", "s0", "min", None])
def test_a_size_has_any_name(name):
    def function(x, y):
        return jnp.arange(x.shape[0] * y.shape[0] // 2 + x.shape[0])

    graph = amanda.load(function, "jax", args=("int32[b]", "int32[s1]"))
    set_dims(graph, {"b": Sym.named(name) if name else Sym.unknown()})
    hub = amanda.convert(graph, "std")
    expect_same(function, hub, list(feeds_of(["int32[3]", "int32[5]"], {})), "numpy")


def test_a_jaxpr_has_symbolic_sizes_too():
    (b,) = jax.export.symbolic_shape("b")
    closed = jax.make_jaxpr(mlp)(jax.ShapeDtypeStruct((b, 4), "float32"))
    hub = amanda.convert(amanda.load(closed, "jax"), "std")
    expect_same(mlp, hub, list(feeds_of(["float32[5, 4]"], {})), "numpy")


def test_text_may_be_a_static_argument():
    function = jax.jit(lambda mode, x: x * 2 if mode == "[a]" else x, static_argnums=0)
    graph = amanda.load(function, "jax", args=("[a]", "float32[b]"))
    assert [op.type for op in graph if op.type != "constant"] == ["mul"]


@pytest.mark.parametrize(
    "text", ["float32[?]", "float32[...]", "qint8[b]", "float32[mod]"]
)
def test_types_that_jax_cannot_trace_are_refused(text):
    with pytest.raises(
        UsageError, match=r"(?s)a function of JAX is traced.*args"
    ) as caught:
        amanda.load(jnp.sin, "jax", args=(amanda.parse_type(text),))
    assert text in str(caught.value)


def test_what_jax_cannot_trace_for_all_sizes_is_told():
    def spaced(x):
        return x + jnp.linspace(0.0, 1.0, x.shape[0])

    with pytest.raises(FormatError, match=r"(?s)spaced cannot be traced.*of one size"):
        amanda.load(spaced, "jax", args=("float32[b]",))


def test_a_size_that_no_input_determines_is_refused():
    graph = amanda.load(lambda x: x * x.shape[0], "jax", args=("float32[b*b]",))
    with pytest.raises(ConversionError, match="needs the size b, which no input"):
        amanda.convert(graph, "std")


def test_a_symbol_where_a_number_is_required_is_refused():
    graph = amanda.load(
        lambda x: jnp.fft.fft(x, axis=0), "jax", args=("complex64[b, 4]",)
    )
    with pytest.raises(ConversionError, match=r"fft, .* has the size b, and must be a"):
        amanda.convert(graph, "std")


def test_going_back_to_jax_is_refused_for_symbolic_sizes():
    hub = load_hub(mlp, ["float32[b, 4]"])
    with pytest.raises(ConversionError, match="JAX primitives need static shapes"):
        amanda.convert(hub, "jax")
