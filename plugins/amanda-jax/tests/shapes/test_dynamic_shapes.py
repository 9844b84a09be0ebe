"""What data decides the size of, inside of one program with a bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amanda
from amanda.errors import BackendError, UsageError
from amanda.types import parse_type
from amanda_std import ops, trace

WEIGHT = np.sin(np.arange(40, dtype="float32")).reshape(5, 8)


def graph_of(function, *types: str):
    names = ["x", "y", "z"][: len(types)]
    return trace(function, [parse_type(t) for t in types], names=names)


def expect_numpy(compiled, graph, *feeds) -> None:
    wanted = amanda.run(graph, feeds, backend="numpy")
    for key, value in compiled(feeds).items():
        assert value.dtype == wanted[key].dtype
        assert value.shape == wanted[key].shape
        np.testing.assert_allclose(value, wanted[key], rtol=1e-4, atol=1e-5)


def ramp(*shape: int) -> np.ndarray:
    return np.cos(np.arange(np.prod(shape), dtype="float32")).reshape(shape)


def positive(x):
    """Rows of a product whose first element is positive, and where they are."""
    y = ops.matmul(x, WEIGHT)
    first = ops.squeeze(ops.slice(y, [0], [1], [1]), (1,))
    at = ops.squeeze(ops.nonzero(ops.greater(first, 0.0)), (0,))
    rows = ops.gather(y, at, axis=0)
    return ops.tanh(rows) * 2.0, ops.softmax(ops.matmul(rows, WEIGHT.T)), at


class TestOneProgram:
    def test_rows_that_data_chooses(self):
        graph = graph_of(positive, "float32[n, 5]")
        compiled = amanda.compile(graph, "jax", padded={"nonzero": 6})
        for n in (1, 7, 3, 7):
            expect_numpy(compiled, graph, ramp(n, 5))
        report = compiled.executable.report()
        assert report.outside == {}
        assert report.pieces == 1
        assert report.compilations == 3  # one for each shape that was fed
        assert any("6 at most" in note for note in report.control_flow)

    def test_more_than_the_bound_is_right_too(self):
        graph = graph_of(positive, "float32[n, 5]")
        compiled = amanda.compile(graph, "jax", padded="nonzero=2")
        for n in (3, 12, 3, 0):
            expect_numpy(compiled, graph, ramp(n, 5))
        told = compiled.executable.report().control_flow
        assert "there was more, 1 times" in told

    def test_unique(self):
        def function(x):
            values, first, inverse, counts = ops.unique(x)
            return values * 2, first, inverse + 1, counts

        graph = graph_of(function, "int64[n]")
        compiled = amanda.compile(graph, "jax", padded={"unique": 4})
        for x in ([3, 1, 3], [2], [5, 4, 3, 2, 1, 0], [7, 7, 7, 8]):
            expect_numpy(compiled, graph, np.array(x))
        # one for each shape that was fed; beyond the bound `unique` and what follows it
        assert compiled.executable.report().compilations == 6

    def test_compress(self):
        def function(x):
            kept = ops.compress(x, ops.greater(ops.max(x, (1,)), 0.5), axis=0)
            return ops.exp(kept)

        graph = graph_of(function, "float32[n, 3]")
        compiled = amanda.compile(graph, "jax", padded={"compress": 5})
        for n in (1, 4, 9):
            expect_numpy(compiled, graph, ramp(n, 3))

    def test_boxes(self):
        def function(boxes, scores):
            kept = ops.nms(boxes, scores, np.int64(3), np.float32(0.4))
            box = ops.squeeze(ops.slice(kept, [2], [3], [1]), (1,))
            return kept, ops.gather(ops.squeeze(boxes, (0,)), box, axis=0)

        graph = graph_of(function, "float32[1, n, 4]", "float32[1, 2, n]")
        compiled = amanda.compile(graph, "jax", padded={"nms": 8})
        random = np.random.default_rng(0)
        for n in (1, 6, 12):
            low = random.uniform(0, 1, (1, n, 2))
            boxes = np.concatenate([low, low + random.uniform(0.1, 1, (1, n, 2))], -1)
            scores = random.uniform(0, 1, (1, 2, n))
            expect_numpy(
                compiled, graph, boxes.astype("float32"), scores.astype("float32")
            )

    def test_what_it_costs_and_how_many_are_kept(self):
        graph = graph_of(positive, "float32[n, 5]")
        compiled = amanda.compile(graph, "jax", padded={"nonzero": 6}, programs=2)
        assert compiled.executable.report().programs == 1
        with pytest.raises(UsageError, match="nothing was compiled yet"):
            compiled.executable.cost()
        for n in (1, 2, 3, 4, 5, 4, 1):
            expect_numpy(compiled, graph, ramp(n, 5))
            assert compiled.executable._code._jitted._cache_size() <= 2
        assert compiled.executable.cost().flops >= 2 * 5 * 8 * 1  # of its product

    def test_a_sequence_is_fed(self):
        kinds = "sequence<float32[n]>", "float32[]"
        graph = graph_of(lambda xs, y: ops.nonzero(ops.sequence_at(xs, 1) - y), *kinds)
        compiled = amanda.compile(graph, "jax", padded={"nonzero": 4})
        feeds = [ramp(2), ramp(3)], np.float32(0)
        for feed in feeds[0], feeds[0][::-1]:
            expect_numpy(compiled, graph, feed, feeds[1])

    def test_two_of_a_kind_by_name(self):
        graph = graph_of(lambda x: (ops.nonzero(x), ops.nonzero(x - 1.0)), "float32[n]")
        first, second = (op for op in graph if op.type == "nonzero")
        graph.rename(first, "here")
        graph.rename(second, "there")
        compiled = amanda.compile(graph, "jax", padded={"here": 4, "there": 8})
        expect_numpy(compiled, graph, np.float32([0, 1, 2, 0, 1]))
        assert compiled.executable.report().pieces == 1


GRAPH = graph_of(positive, "float32[n, 5]")
COMPILED = amanda.compile(GRAPH, "jax", padded={"nonzero": 3})


@given(st.integers(0, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_any_data_is_as_on_numpy(rows, seed):
    x = np.random.default_rng(seed).normal(size=(rows, 5)).astype("float32")
    expect_numpy(COMPILED, GRAPH, x)


class TestRefused:
    @pytest.mark.parametrize(
        ("function", "padded", "text"),
        [
            (lambda x: ops.sum(ops.nonzero(x)), "nonzero=4", "goes over the axis of"),
            (lambda x: ops.size(ops.nonzero(x)), "nonzero=4", "depends on the size of"),
            (lambda x: ops.nonzero(ops.nonzero(x)), "nonzero=4",
             "reads padded values itself"),
            (lambda x: (ops.nonzero(x), ops.unique(x)[0]), "nonzero=4",
             "unique #1: data decides the shape"),
            (ops.nonzero, "unique=4", "no op 'unique' has a result size"),
            (ops.nonzero, "nonzero=0", "cannot be read"),
            (ops.nonzero, {"nonzero": "few"}, "cannot be read"),
            (ops.nonzero, "nonzero", "the option 'padded' of backend 'jax' cannot"),
        ],
    )  # fmt: skip
    def test_it_is_told_by_the_op(self, function, padded, text):
        with pytest.raises(BackendError) as told:
            amanda.compile(graph_of(function, "float32[6]"), "jax", padded=padded)
        assert text in str(told.value)

    @pytest.mark.parametrize(
        "others",
        [
            {"mesh": {"data": 1}},
            {"distributed": True},
            {"buckets": "n=8"},
            {"cache": "folder"},
            {"donate": "x"},
            {"cache": "folder", "donate": ("x",)},
        ],
    )
    def test_options_that_do_not_go_with_it(self, others):
        graph = graph_of(ops.nonzero, "float32[n]")
        with pytest.raises(BackendError, match=r"'padded'.* does not go with") as told:
            amanda.compile(graph, "jax", padded="nonzero=4", **others)
        assert told.value.got == ", ".join(others)
