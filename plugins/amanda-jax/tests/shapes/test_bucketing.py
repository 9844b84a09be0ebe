"""Sizes padded to a few: what is compiled, what comes out, what is refused and why."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amanda
from amanda.errors import BackendError, UsageError
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_std import ops, trace


def ramp(*shape: int) -> np.ndarray:
    return np.sin(np.arange(np.prod(shape), dtype="float32")).reshape(shape)


def graph_of(function, *types: str) -> Graph:
    names = ["x", "y", "z"][: len(types)]
    return trace(function, [parse_type(t) for t in types], names=names)


def expect_numpy(compiled, graph: Graph, *feeds) -> None:
    wanted = amanda.run(graph, feeds, backend="numpy")
    got = compiled(feeds)
    assert list(got) == list(wanted)
    for have, want in zip(got.values(), wanted.values(), strict=True):
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


KERNEL, WEIGHT, MIXING = ramp(4, 2, 3, 3), ramp(100, 3), ramp(8, 24)


def images(x):
    y = ops.relu(ops.conv(x, KERNEL, padding=((1, 1), (1, 1))))
    y = ops.max_pool(y, window=(2, 2), strides=(2, 2), ceil=True)
    y = ops.reshape(y, [ops.dim(y, axis=0), -1])
    return ops.softmax(ops.matmul(y, WEIGHT[:36]))


def attention(x):
    """Heads over steps, batch and heads laid together on the way."""
    n, s = ops.dim(x, axis=0), ops.dim(x, axis=1)
    parts = ops.split(ops.matmul(x, MIXING), axis=-1, outputs=3)
    heads = [
        ops.reshape(
            ops.transpose(ops.reshape(part, [n, s, 2, 4]), perm=(0, 2, 1, 3)),
            [n * 2, s, 4],
        )
        for part in parts
    ]
    q, k, v = heads
    weights = ops.softmax(ops.matmul(q, ops.swap_last(k)) / 2.0)
    y = ops.reshape(ops.matmul(weights, v), [n, 2, s, 4])
    y = ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), [n, s, 8])
    return ops.layer_norm(y + x, ramp(8), ramp(8)), ops.mean(y, (1,))


def tokens(ids):
    """Each step by itself, but for those before it: what steps can be padded in."""
    s = ops.dim(ids, axis=1)
    x = ops.gather(ramp(11, 8), ids, axis=0)
    x = x + ops.slice(ramp(64, 8), [0], ops.expand_dims(s, (0,)))
    x = ops.gelu(ops.matmul(x, ramp(8, 8)))
    return ops.cumulative_sum(x, axis=1), ops.argmax(x, -1)


def recurrent(x):
    """A state goes from step to step, for each example by itself."""

    def step(now, row):
        after = ops.tanh(ops.matmul(now, ramp(8, 8)) + row)
        return after, after

    zeros = ops.full(ops.stack(ops.dim(x, axis=0), np.int64(8)), np.float32(0))
    return ops.scan(step, None, zeros, x, carried=1, axes=(1,), out_axes=(1,))


class TestPadded:
    def test_a_program_for_each_bucket(self):
        graph = graph_of(images, "float32[batch, 2, 5, 5]")
        compiled = amanda.compile(graph, "jax", buckets={"batch": (2, 4, 8)})
        for n in (1, 2, 3, 5, 7, 8, 4):
            expect_numpy(compiled, graph, ramp(n, 2, 5, 5))
        report = compiled.executable.report()
        assert report.compilations == 3
        assert report.buckets == {
            "2 of 'batch'": 2,
            "4 of 'batch'": 2,
            "8 of 'batch'": 3,
        }
        assert "padded to 8 of 'batch', 3 times" in str(report)

    def test_what_is_larger_than_all_runs_as_it_is(self):
        graph = graph_of(images, "float32[batch, 2, 5, 5]")
        compiled = amanda.compile(graph, "jax", buckets="batch=2")
        for n in (3, 1):
            expect_numpy(compiled, graph, ramp(n, 2, 5, 5))
        assert list(compiled.executable.report().buckets) == [
            "2 of 'batch'",
            "3 of 'batch'",
        ]

    def test_powers_of_two(self):
        graph = graph_of(images, "float32[batch, 2, 5, 5]")
        compiled = amanda.compile(graph, "jax", buckets="batch")
        for n in (1, 3, 4, 5, 6, 9):
            expect_numpy(compiled, graph, ramp(n, 2, 5, 5))
        assert compiled.executable.report().compilations == 4  # 1, 4, 8, 16

    @pytest.mark.parametrize("told", ["16", " 64 16 ", (16,), np.int64([64, 16])])
    def test_numbers_and_texts_of_them(self, told):
        graph = graph_of(lambda x: x * x, "float32[n]")
        compiled = amanda.compile(graph, "jax", buckets={"n": told})
        expect_numpy(compiled, graph, ramp(5))
        assert compiled.executable.report().buckets == {"16 of 'n'": 1}

    def test_batch_and_steps(self):
        graph = graph_of(tokens, "int64[n, s]")
        compiled = amanda.compile(graph, "jax", buckets="n=4 8, s=16 64")
        for n, s in ((1, 3), (4, 16), (5, 3), (8, 17), (2, 1)):
            expect_numpy(compiled, graph, np.arange(n * s).reshape(n, s) % 11)
        assert compiled.executable.report().compilations == 3

    def test_a_size_that_two_inputs_have(self):
        graph = graph_of(lambda x, y: x * y + 1.0, "float32[n, 2]", "float32[n, 1]")
        compiled = amanda.compile(graph, "jax", buckets="n=8")
        expect_numpy(compiled, graph, ramp(3, 2), ramp(3, 1))
        with pytest.raises(UsageError, match=r"not \[n, 1\] where n is 3 by 'x'"):
            compiled([ramp(3, 2), ramp(1, 1)])

    def test_results_of_jax_and_feeds_of_jax(self):
        graph = graph_of(lambda x: (x, ops.exp(x)), "float32[n]")
        compiled = amanda.compile(graph, "jax", buckets="n=8", results="jax")
        x = jax.numpy.arange(3, dtype="float32")
        same, made = compiled([x]).values()
        assert isinstance(made, jax.Array)
        assert same.tolist() == [0, 1, 2]
        np.testing.assert_allclose(made, np.exp([0, 1, 2]), rtol=1e-6)

    def test_feeds_of_any_kind(self):
        graph = graph_of(lambda x: x * 2.0, "float32[n]")
        compiled = amanda.compile(graph, "jax", buckets="n=8")
        for feed in ([1, 2, 3], np.float32([1, 2, 3]), np.float32([])):
            [made] = compiled([feed]).values()
            assert made.dtype == "float32"
            assert made.tolist() == [2.0 * element for element in feed]

    def test_places_from_the_front_are_looked_up(self):
        graph = graph_of(lambda x: ops.gather(x, np.int64([0, 2]), 0), "float32[n, 4]")
        compiled = amanda.compile(graph, "jax", buckets="n=8")
        for n in (3, 5):
            expect_numpy(compiled, graph, ramp(n, 4))

    def test_64_bits(self):
        graph = graph_of(lambda x: x + 2**40, "int64[n]")
        compiled = amanda.compile(graph, "jax", buckets="n=8")
        expect_numpy(compiled, graph, np.arange(3))


FUNCTIONS = [
    (images, "float32[batch, 2, 5, 5]", "batch=4 8"),
    (attention, "float32[n, s, 8]", "n=4 8"),
    (recurrent, "float32[n, s, 8]", "n=4 8"),
]
COMPILED = [
    (graph := graph_of(f, t), amanda.compile(graph, "jax", buckets=sizes))
    for f, t, sizes in FUNCTIONS
]


@given(
    st.sampled_from(range(len(COMPILED))),
    st.integers(1, 9),
    st.integers(1, 3),
    st.data(),
)
@settings(max_examples=25, deadline=None)
def test_any_size_is_as_without_padding(which, n, s, data):
    graph, compiled = COMPILED[which]
    shape = (n, 2, 5, 5) if which == 0 else (n, s, 8)
    seed = data.draw(st.integers(0, 2**32 - 1))
    x = np.random.default_rng(seed).normal(0, 3, shape).astype("float32")
    expect_numpy(compiled, graph, x)


def looped(x):
    return ops.loop(np.int64(3), None, lambda _, go, v: (go, v - ops.mean(v)), x)[0]


def counted(x):
    """A size that a loop makes of a size: no type tells it."""
    count = ops.loop(
        np.int64(2), None, lambda _, go, v: (go, v + v), ops.dim(x, axis=0)
    )[0]
    return ops.full(ops.expand_dims(count, (0,)), np.float32(1))


def shrinking(x):
    ten = ops.subtract(np.int64(10), ops.dim(x, axis=0))
    return ops.arange(0, ten)


class TestRefused:
    @pytest.mark.parametrize(
        ("function", "text"),
        [
            (lambda x: ops.sum(x, (0,)), "sum #0 goes over the axis of 'n'"),
            (lambda x: ops.softmax(x, axes=(0,)), "goes over the axis of 'n'"),
            (lambda x: ops.mean(x), "(of mean) goes over the axis of 'n'"),
            (lambda x: ops.matmul(ops.transpose(x), x), "adds up along the axis"),
            (lambda x: ops.flip(x, (0,)), "flip #0 turns round the axis of 'n'"),
            (lambda x: ops.concat(x, x), "concat #0 joins along the axis of 'n'"),
            (lambda x: ops.reshape(x, [-1, 8]), "reorders elements"),
            (lambda x: ops.reshape(ops.transpose(x), [-1]), "inside of another"),
            (lambda x: ops.slice(x, [-1], [2**62]), "takes a part of the axis of 'n'"),
            (lambda x: ops.gather(x, np.int64([-1]), 0), "gathers along the axis"),
            (lambda x: ops.cumulative_sum(x, 0, reverse=True), "goes back along"),
            (lambda x: x + ramp(1, 4) * ops.astype(ops.size(x), dtype="float32"),
             "computes with the size of 'n'"),
            (lambda x: ops.shape_of(x), "result 0 depends on the size of 'n'"),
            (ops.nonzero, "nonzero #0 is not known to keep padding apart"),
            (looped, "has a body in which"),
            (counted, "'n'"),
            (shrinking, "not padded"),
            (lambda x: x + ops.transpose(x), "'n'"),
            (lambda x: ops.random_uniform(ops.random_key(3), ops.shape_of(x)), "'n'"),
        ],
    )  # fmt: skip
    def test_what_mixes_is_named(self, function, text):
        graph = graph_of(function, "float32[n, 4]")
        with pytest.raises(BackendError, match="cannot be padded along 'n'") as told:
            amanda.compile(graph, "jax", buckets="n=8")
        assert text in str(told.value)

    def test_all_that_mixes_is_told_at_once(self):
        graph = graph_of(
            lambda x: (ops.sum(x, (0,)) * 2.0, ops.max(x, (0,))), "float32[n, 4]"
        )
        with pytest.raises(BackendError) as told:
            amanda.compile(graph, "jax", buckets="n")
        assert len(told.value.problems) == 2

    @pytest.mark.parametrize(
        ("buckets", "text"),
        [
            ("m=8", "no input has a dim 'm'"),
            ("n=0", "cannot be read"),
            ("n=few", "cannot be read"),
            ({"n": 8}, "cannot be read"),
            ({"n": [8.5]}, "cannot be read"),
            ({"n": ["16"]}, "cannot be read"),
            ({"n": "1 6 few"}, "cannot be read"),
        ],
    )
    def test_options_that_do_not_fit(self, buckets, text):
        graph = graph_of(ops.exp, "float32[n]")
        with pytest.raises(BackendError, match=text):
            amanda.compile(graph, "jax", buckets=buckets)
