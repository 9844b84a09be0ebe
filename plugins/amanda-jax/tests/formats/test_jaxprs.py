"""Functions of JAX as graphs: what they compute is what JAX computes by itself."""

from __future__ import annotations

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import amanda
from amanda.errors import ConversionError, FormatError, UsageError

WEIGHT = np.sin(np.arange(12, dtype="float32")).reshape(3, 4)
X = np.linspace(-2, 2, 6, dtype="float32").reshape(2, 3)
IMAGE = np.cos(np.arange(2 * 3 * 8 * 6, dtype="float32")).reshape(2, 3, 8, 6)
KERNEL = np.sin(np.arange(4 * 3 * 3 * 3, dtype="float32")).reshape(4, 3, 3, 3)
SQUARE = np.float32([[0, 2, 1, 3], [4, 1, 0, 1], [1, 5, 2, 2], [3, 1, 1, 7]])
N = np.int32([[5, -7, 3], [2, 9, -1]])


def convolved(layout: str, kernel: str):
    def run(x):
        order = ["NCHW".index(c) for c in layout]
        w = jnp.transpose(KERNEL, ["OIHW".index(c) for c in kernel])
        return lax.conv_general_dilated(
            jnp.transpose(x, order), w, (2, 1), ((1, 0), (1, 1)),
            dimension_numbers=(layout, kernel, layout),
        )  # fmt: skip

    return run


def pooled(x):
    windows = (1, 1, 3, 2), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (0, 0))
    return (
        lax.reduce_window(x, -jnp.inf, lax.max, *windows),
        lax.reduce_window(x, jnp.inf, lax.min, *windows),
        lax.reduce_window(x, 0.0, lax.add, *windows),
    )


def looped(x):
    last, rows = lax.scan(lambda c, r: (c + r.sum() * 0.5, c * r), x[0, 0], x)
    back, _ = lax.scan(lambda c, r: (c * 0.5 + r, None), x[0], x, reverse=True)
    once = lax.fori_loop(0, 5, lambda i, c: c * 1.5 + i, x)
    return last, rows, back, once


def chosen(x):
    small = lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: v - 1, x)
    rows = [lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x) for i in (0, 2)]
    return small, *rows


def attention(x):
    """With names that are batched, summed and kept, and a mask made of numbers."""
    q = jnp.einsum("td,dhe->the", x, WEIGHT.reshape(3, 2, 2))
    scores = jnp.einsum("the,she->hts", q, q) / 2.0
    mask = jnp.tril(jnp.ones((x.shape[0],) * 2, bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    return jnp.einsum("hts,she->the", weights, q)


FUNCTIONS = {
    "a layer": (lambda x: jnp.tanh(x @ WEIGHT + 1), X),
    "softmax": (jax.nn.softmax, X),
    "gelu": (jax.nn.gelu, X),
    "gelu, exact": (lambda x: jax.nn.gelu(x, approximate=False), X),
    "silu": (jax.nn.silu, X),
    "log_softmax": (lambda x: jax.nn.log_softmax(x, axis=0), X),
    "attention": (attention, X),
    "elements": (
        lambda x: (jnp.sin(x), jnp.exp2(x), jnp.abs(x) ** 1.5, x**3, x**-2, x**0,
                   jnp.round(x * 3), jnp.floor(x), jnp.sign(x), jnp.expm1(x),
                   jnp.clip(x, -1, 1), jnp.arctan2(x, 2.0), jnp.cbrt(x),
                   lax.erf_inv(x / 3), lax.rsqrt(jnp.abs(x) + 1), jnp.isfinite(x)),
        X,
    ),
    "rounded away": (
        lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
        np.float32([-2.5, -1.5, -0.5, 0.5, 1.5, 2.4]),
    ),
    "integers": (
        lambda n: (n // 2, n % 3, lax.div(n, 2), lax.rem(n, 3), n & 6, n | 1, n ^ 5,
                   ~n, n << 2, n >> 1, n.astype("float32") / 2, -n, n == 3),
        N,
    ),
    "logic": (lambda n: ((n > 2) & (n < 6), (n > 2) | ~(n < 0), (n > 2) ^ (n < 6)), N),
    "where": (lambda x: jnp.where(x > 0, x, x * 0.1), X),
    "moves": (
        lambda x: (x.T, x.reshape(3, 2), x[::-1], x[:, None], x[:1, 1:3],
                   jnp.concatenate([x, x], 1), jnp.pad(x, ((1, 2), (0, 1))),
                   lax.pad(x, 0.5, ((-1, 2, 0), (1, -1, 0))),
                   lax.pad(x, 0.5, ((-3, 5, 0), (4, -5, 0))),
                   lax.pad(x, 0.5, ((-2, 4, 3), (1, -4, 1))),
                   jnp.broadcast_to(x[0], (4, 3)),
                   jnp.split(x, 3, axis=1)[1], jnp.tile(x, (2, 2)), jnp.roll(x, 1, 1)),
        X,
    ),
    "reductions": (
        lambda x: (x.sum(), x.sum(0), x.mean(1), x.max(0), x.min(), x.prod(1),
                   jnp.var(x, 1), (x > 0).any(0), (x > 0).all(), jnp.argmax(x, 1),
                   jnp.argmin(x, 0), jnp.cumsum(x, 0), jnp.cumprod(x, 1),
                   lax.cummax(x, 1, reverse=True), jax.nn.logsumexp(x, 1)),
        X,
    ),
    "order": (
        lambda x: (jnp.sort(x, 0), jnp.argsort(-x, axis=1), *lax.top_k(x, 2)), X
    ),
    "looked up": (
        lambda x: (x[jnp.array([1, 0, 1])], jnp.take(x, jnp.array([[2, 0]]), axis=1),
                   jnp.take(x, jnp.array([0, 9]), axis=0, mode="clip"),
                   jnp.asarray(WEIGHT)[jnp.array([2])]),
        X,
    ),
    "dynamic slices": (
        lambda x: (lax.dynamic_slice(x, (0, 1), (2, 2)),
                   lax.dynamic_update_slice(x, x[:1, :1] * 9, (1, 2))),
        X,
    ),
    "made of numbers": (lambda x: (x + jnp.arange(3), x * jnp.eye(3)[:2]), X),
    "convolution": (convolved("NCHW", "OIHW"), IMAGE),
    "convolution, channels behind": (convolved("NHWC", "HWIO"), IMAGE),
    "convolution, of cut data": (
        lambda x: lax.conv_general_dilated(x, KERNEL[:, :, :1, :1], (1, 1),
                                           ((-9, 12), (8, -7))),
        IMAGE,
    ),
    "windows": (pooled, IMAGE),
    "products": (
        lambda x: (x @ x.T, jnp.einsum("ij,kj->ik", x, x), jnp.outer(x[0], x[1]),
                   jnp.einsum("bij,bjk->bik", x[:, :, None], x[:, None]), x[0] @ x[1]),
        X,
    ),
    "loops": (looped, X),
    "choices": (chosen, X),
    "scattered": (
        lambda x: (x.at[0].add(1.5), x.at[jnp.array([1, 1, 9]), :2].add(x[0, 0]),
                   x.at[:, jnp.array([0, 2, 0])].subtract(2.0), x.at[1].multiply(3.0),
                   x.at[jnp.array([0, 0])].max(0.25), x.at[1, 1:].min(-0.5),
                   jax.grad(lambda x: (x[jnp.array([1, 0, 1])] ** 2).sum())(x)),
        X,
    ),
    "solved": (
        lambda x: (jnp.linalg.solve(SQUARE[:3, :3], x.T), jnp.linalg.inv(SQUARE),
                   *jnp.linalg.slogdet(SQUARE * x[0, 0]), jnp.linalg.det(SQUARE),
                   *lax.linalg.lu(SQUARE[:, :2] + x[0, 0]), *lax.linalg.lu(SQUARE[:3]),
                   lax.linalg.lu_pivots_to_permutation(jnp.int32([2, 2, 3]), 4)),
        X,
    ),
    "gradients of windows": (
        lambda x: (jax.grad(lambda v: (pooled(v)[0] ** 2).sum())(x),
                   jax.jvp(lambda v: pooled(v)[0], (x,), (x * x,))[1],
                   jax.grad(lambda v: pooled(jnp.round(v))[0].sum())(x)),
        IMAGE,
    ),
    "a gradient": (jax.grad(lambda x: jnp.sum(jnp.tanh(x @ WEIGHT) ** 2)), X),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_graph_computes_what_the_function_does(name):
    function, x = FUNCTIONS[name]
    graph = amanda.load(jax.jit(function), args=(x,))
    assert graph.check() == []
    hub = amanda.convert(graph, "amanda/std/1")
    wanted = jax.tree.leaves(function(jnp.asarray(x)))
    got = amanda.run(hub, [x], backend="numpy")
    assert len(got) == len(wanted)
    for value, right in zip(got.values(), wanted, strict=True):
        assert value.dtype == right.dtype
        np.testing.assert_allclose(value, right, rtol=2e-5, atol=1e-5)


def test_inputs_and_results_are_called_as_in_the_function():
    def function(x, pair, *, scale):
        return {"sum": x + pair["left"] * scale, "both": (x, pair["right"])}

    args = (X, {"left": X, "right": X[0]})
    graph = amanda.load(function, "jax", args=args, kwargs={"scale": np.float32(2)})
    assert [p.name for p in graph.parameters] == [
        "x", "pair.left", "pair.right", "scale",
    ]  # fmt: skip
    assert [p.name for p in graph.outputs] == ["both.0", "both.1", "sum"]
    assert graph.namespace == f"amanda/jax/{jax.__version__}"


class WithoutSignature:
    __signature__ = "unknown"

    def __call__(self, *values):
        return sum(values)


@pytest.mark.parametrize(
    ("function", "args", "names"),
    [
        (lambda x, *rest, **more: x, (X, X, {"a": X}), ["x", "rest.0", "rest.1.a"]),
        (functools.partial(lambda x, y: x + y, X), (X,), ["y"]),
        (jax.vmap(lambda a, b: a * b), (X, X), ["a", "b"]),
        (jax.jit(lambda n, x, y: x * n + y, static_argnums=0), (3, X, X), ["x", "y"]),
        (WithoutSignature(), (X, X), ["args.0", "args.1"]),
    ],
)
def test_inputs_have_the_names_of_parameters(function, args, names):
    graph = amanda.load(function, "jax", args=args)
    assert [p.name for p in graph.parameters] == names


def test_static_arguments_are_no_inputs():
    function = jax.jit(
        lambda n, x, *, mode, scale: x * n * scale if mode == "up" else x,
        static_argnums=0, static_argnames="mode",
    )  # fmt: skip
    given = {"mode": "up", "scale": np.float32(2)}
    graph = amanda.load(function, "jax", args=(3, X), kwargs=given)
    assert [p.name for p in graph.parameters] == ["x", "scale"]
    hub = amanda.convert(graph, "std")
    feeds = {"x": X, "scale": given["scale"]}
    [found] = amanda.run(hub, feeds, backend="numpy").values()
    np.testing.assert_array_equal(found, function(3, X, **given))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"args": 3}, r"(?s)`args` has.*a tuple or a list.*3 \(int\)"),
        ({"args": X}, r"(?s)`args` has.*a tuple or a list.*\(ndarray\)"),
        ({"args": (X,), "kwargs": 3}, r"(?s)`kwargs` has.*a dict.*3 \(int\)"),
    ],
)
def test_arguments_are_a_tuple_and_a_dict(given, message):
    with pytest.raises(UsageError) as caught:
        amanda.load(jnp.sin, "jax", **given)
    assert re.match(message, str(caught.value))


def test_arrays_from_around_are_weights():
    graph = amanda.load(jax.jit(lambda x: x @ WEIGHT), args=(X,))
    [weight] = [op for op in graph if op.type == "constant"]
    np.testing.assert_array_equal(weight.attrs["value"].numpy(), WEIGHT)


def test_it_is_traced_for_shapes_alone():
    form = jax.ShapeDtypeStruct((5, 3), "float32")
    graph = amanda.load(jax.jit(lambda x: x @ WEIGHT), args=(form,))
    assert str(graph.results[0].type) == "float32[5, 4]"


def test_a_jaxpr_is_read_too():
    closed = jax.make_jaxpr(lambda x: jnp.tanh(x) * 2)(X)
    hub = amanda.convert(amanda.load(closed), "amanda/std/1")
    [got] = amanda.run(hub, [X], backend="numpy").values()
    np.testing.assert_allclose(got, np.tanh(X) * 2, rtol=1e-5)


def test_its_ops_are_those_of_the_dictionary():
    graph = amanda.load(jax.jit(attention), args=(X,))
    known = amanda.namespace(graph.namespace)
    assert {op.type for op in graph if op.type != "constant"} <= set(known)


def test_a_function_becomes_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    if "onnx" not in amanda.default_host().names("formats"):
        pytest.skip("amanda-onnx is not installed")
    graph = amanda.load(jax.jit(attention), args=(X,))
    model = amanda.convert(graph, "onnx@18")
    amanda.save(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(
        tmp_path / "model.onnx", providers=["CPUExecutionProvider"]
    )
    [got] = session.run(None, {session.get_inputs()[0].name: X})
    np.testing.assert_allclose(got, attention(jnp.asarray(X)), rtol=1e-5, atol=1e-6)


def test_what_cannot_be_read_is_told():
    with pytest.raises(UsageError, match="pass its arguments"):
        amanda.load(jax.jit(jnp.sin))
    with pytest.raises(FormatError, match="only functions of JAX"):
        amanda.load(7, "jax")
    with pytest.raises(FormatError, match="cannot be traced") as caught:
        amanda.load(jax.jit(lambda x: x.reshape(7)), args=(X,))
    assert "reshape" in str(caught.value)


def test_what_has_no_meaning_in_the_hub_is_a_gap_with_its_reason():
    places = jnp.array([0, 0])
    graph = amanda.load(jax.jit(lambda x: x.at[places].apply(jnp.sin)), args=(X,))
    with pytest.raises(ConversionError, match="pass unique_indices=True"):
        amanda.convert(graph, "amanda/std/1")


def test_loops_side_by_side_end_each_for_itself():
    """What vmap makes of a loop whose end depends on the data."""

    def halved(x):
        return lax.while_loop(
            lambda v: v[0] > 1, lambda v: (v[0] / 2, v[1] + 1), (x, 0)
        )

    x = np.float32([9, 0.5, 3, 64])
    graph = amanda.convert(amanda.load(jax.vmap(halved), "jax", args=(x,)), "std")
    last, rounds = amanda.run(graph, [x], backend="numpy").values()
    np.testing.assert_allclose(last, [9 / 16, 0.5, 0.75, 1])
    assert rounds.tolist() == [4, 0, 2, 6]


def test_halves_are_rounded_as_it_is_told():
    x = np.float32([-2.5, -1.5, 0.5, 2.5])
    for method, wanted in (
        (lax.RoundingMethod.TO_NEAREST_EVEN, [-2, -2, 0, 2]),
        (lax.RoundingMethod.AWAY_FROM_ZERO, [-3, -2, 1, 3]),
    ):
        traced = jax.make_jaxpr(lambda v, how=method: lax.round(v, how))(x)
        graph = amanda.convert(amanda.load(traced, "jax"), "std")
        assert amanda.run(graph, [x], backend="numpy")[0].tolist() == wanted
