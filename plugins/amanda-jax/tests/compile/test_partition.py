"""Graphs in pieces: cut where data decides, what the host drives, what XLA has not."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amanda
from amanda.types import parse_type
from amanda_jax.compile import block_reuse
from amanda_std import ops, trace

WEIGHT = np.sin(np.arange(40, dtype="float32")).reshape(5, 8)


def graph_of(function, *types: str):
    names = ["x", "y", "z"][: len(types)]
    return trace(function, [parse_type(t) for t in types], names=names)


def ramp(*shape: int) -> np.ndarray:
    return np.cos(np.arange(np.prod(shape), dtype="float32")).reshape(shape)


def expect_numpy(compiled, graph, *feeds) -> None:
    wanted = amanda.run(graph, feeds, backend="numpy")
    for key, value in compiled(feeds).items():
        assert value.dtype == wanted[key].dtype
        assert value.shape == wanted[key].shape
        np.testing.assert_allclose(value, wanted[key], rtol=1e-5, atol=1e-6)


class TestDonatedInputs:
    """No piece writes over what another one reads."""

    def expect_twice(self, graph, *feeds) -> None:
        compiled = amanda.compile(graph, "jax", donate="x", results="jax")
        wanted = amanda.run(graph, feeds, backend="numpy")
        for _ in range(2):
            made = compiled([*map(jax.device_put, feeds)])
            for key, value in made.items():
                np.testing.assert_allclose(value, wanted[key], rtol=1e-5, atol=1e-5)
        assert compiled.executable.report().pieces > 1

    def test_before_and_after_a_cut(self):
        def function(x):
            y = ops.tanh(x) * 2.0
            at = ops.squeeze(ops.nonzero(ops.greater(ops.sum(x, (1,)), 0.0)), (0,))
            return y, ops.gather(x, at, axis=0)

        graph = graph_of(function, "float32[n, 5]")
        self.expect_twice(graph, ramp(4, 5))

    @pytest.mark.parametrize("again", [True, False])
    def test_in_blocks_that_share_a_program(self, again, monkeypatch):
        """The first one is fed what is donated, the others what is read once more."""
        monkeypatch.setattr(block_reuse, "MIN_REPEATS", 6)
        weights = [ramp(5, 5) + i / 8 for i in range(12)]

        def function(x):
            y, kept = x, []
            for weight in weights:
                y = ops.matmul(y, weight)
                for _ in range(4):
                    y = ops.tanh(y * 1.5)
                y = ops.sin(y + x if again else y + 1.0)
                kept.append(y)
            return kept

        self.expect_twice(graph_of(function, "float32[n, 5]"), ramp(4, 5))

    def test_what_decides_a_shape_is_asked_first(self):
        """The program that tells it does not take what is then to be cut."""

        def function(x):
            return ops.broadcast_to(np.float32(1), ops.abs(x)), x * 2

        graph = graph_of(function, "int32[2]")
        self.expect_twice(graph, np.array([2, 3], "int32"))


class TestDataThatDecidesShapes:
    def positive(self, x):
        """Rows of a product whose first element is positive, and where they are."""
        y = ops.matmul(x, WEIGHT)
        first = ops.squeeze(ops.slice(y, [0], [1], [1]), (1,))
        places = ops.nonzero(ops.greater(first, 0.0))
        at = ops.squeeze(places, (0,))
        rows = ops.gather(y, at, axis=0)
        return ops.tanh(rows) * 2.0, ops.dim(rows, axis=0), at

    def test_a_program_before_and_one_after(self):
        graph = graph_of(self.positive, "float32[n, 5]")
        compiled = amanda.compile(graph, "jax")
        for n in (1, 7, 0, 3):
            expect_numpy(compiled, graph, ramp(n, 5))
        report = compiled.executable.report()
        assert report.pieces == report.programs == 2
        assert report.outside == {}
        assert report.dynamic_sizes == {"nonzero #0": 4}
        assert report.weight_bytes == WEIGHT.nbytes
        assert "cut to its size: nonzero #0, 4 times" in str(report)

    @pytest.mark.parametrize("count", [1, 3])
    def test_one_cut_for_all_that_can_run_together(self, count):
        def apart(x):
            return [ops.sum(ops.nonzero(x * float(i + 2))) for i in range(count)]

        graph = graph_of(lambda x: tuple(apart(x)), "float32[n]")
        compiled = amanda.compile(graph, "jax")
        expect_numpy(compiled, graph, np.float32([0, 1, 0, 2]))
        report = compiled.executable.report()
        assert report.pieces == 2
        assert sum(report.dynamic_sizes.values()) == count
        assert report.outside == {}

    def test_unique_and_compress(self):
        def function(x, y):
            values = ops.unique(x)[0]
            kept = ops.compress(y, ops.greater(y, 0.0), axis=0)
            return values * 2, ops.exp(kept)

        graph = graph_of(function, "int32[n]", "float32[m]")
        compiled = amanda.compile(graph, "jax")
        expect_numpy(compiled, graph, np.int32([3, 1, 3]), ramp(4))
        expect_numpy(compiled, graph, np.int32([2]), ramp(9))

    def test_inside_a_loop(self):
        def looped(x):
            def body(_, go, v):
                count = ops.astype(ops.size(ops.nonzero(v)), dtype="float32")
                return go, ops.concat(v, ops.expand_dims(count, (0,)))

            return ops.loop(np.int64(3), None, body, x)

        graph = graph_of(looped, "float32[n]")
        compiled = amanda.compile(graph, "jax")
        expect_numpy(compiled, graph, np.float32([0, 1]))
        report = compiled.executable.report()
        assert sum(report.dynamic_sizes.values()) == 3
        assert report.python_driven == (
            "loop #1: it contains nonzero: data decides the shape of its result",
        )


class TestValuesThatDecideShapes:
    def until_largest(self, x):
        y = ops.tanh(ops.matmul(x, WEIGHT))
        stop = ops.expand_dims(ops.argmax(y, 0), (0,))
        return ops.slice(y, [0], stop), y

    def test_cut_in_two_and_nothing_computed_twice(self):
        graph = graph_of(self.until_largest, "float32[5]")
        compiled = amanda.compile(graph, "jax")
        for i in range(4):
            expect_numpy(compiled, graph, ramp(5 + i)[i:])
        report = compiled.executable.report()
        assert report.pieces == 2
        assert report.outside == {}
        assert report.python_driven == ()
        assert len(report.decided_by) == 1
        assert report.weight_bytes == WEIGHT.nbytes

    def test_programs_for_shapes_are_kept_up_to_a_number(self):
        graph = graph_of(lambda x: x * 2.0, "float32[n]")
        compiled = amanda.compile(graph, "jax", programs=3)
        seen = []
        for n in (1, 2, 3, 1, 4, 4, 1):
            expect_numpy(compiled, graph, ramp(n))
            seen.append(compiled.executable.report().compilations)
        assert seen == [1, 2, 3, 3, 4, 4, 5]  # all are forgotten when a fourth comes


class TestTheHostDrives:
    def test_bodies_are_programs(self):
        def doubled(x):
            return ops.while_(
                lambda v: ops.less(ops.size(v), np.array(20)),
                lambda v: ops.concat(v, ops.sin(v)),
                x,
            )

        graph = graph_of(doubled, "float32[n]")
        compiled = amanda.compile(graph, "jax")
        expect_numpy(compiled, graph, ramp(3))
        expect_numpy(compiled, graph, ramp(5))
        report = compiled.executable.report()
        assert report.outside == {}
        assert len(report.python_driven) == 1

    def test_what_is_around_is_one_program_each(self):
        def function(x, c):
            y = ops.matmul(x, WEIGHT)
            [z] = ops.if_(c, lambda: ops.sum(y), lambda: ops.exp(y))
            return ops.tanh(z) + 1.0

        graph = graph_of(function, "float32[2, 5]", "bool[]")
        compiled = amanda.compile(graph, "jax")
        for c in (True, False):
            expect_numpy(compiled, graph, ramp(2, 5), np.array(c))
        report = compiled.executable.report()
        assert report.pieces == 2
        assert report.outside == {}


class TestState:
    def test_a_variable_is_kept_from_call_to_call(self):
        def count(x):
            v = ops.variable(np.zeros(2, "float32"), key="total")
            return ops.tanh(ops.assign_add(v, ops.exp(x)))

        graph = graph_of(count, "float32[2]")
        compiled = amanda.compile(graph, "jax")
        total = np.zeros(2, "float32")
        for i in range(3):
            x = np.float32([i, -i])
            total = total + np.exp(x)
            np.testing.assert_allclose(compiled([x])[0], np.tanh(total), rtol=1e-5)
        np.testing.assert_allclose(compiled.state["total"], total, rtol=1e-5)
        compiled.state.reset()
        assert compiled.state["total"].tolist() == [0, 0]

    def test_probes_are_seen(self):
        seen = []
        graph = graph_of(lambda x: ops.probe(x + 1.0, label="here") * 2.0, "float32[]")
        compiled = amanda.compile(graph, "jax", observe=lambda *told: seen.append(told))
        assert compiled([np.float32(2)])[0] == 6
        assert [(label, float(value)) for label, value in seen] == [("here", 3)]


@pytest.mark.filterwarnings("ignore::amanda.errors.AmandaWarning")  # of many sizes
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_feeds_of_any_shape_and_value_on_one_executable(data):
    """One executable that is cut, specialised and jitted, beside numpy."""
    rows = data.draw(st.integers(0, 4))
    x = data.draw(st.lists(st.integers(-3, 3), min_size=5 * rows, max_size=5 * rows))
    width = data.draw(st.sampled_from([1, 2, 4, 8]))
    feeds = np.float32(x).reshape(rows, 5), np.int64([-1, width])
    expect_numpy(MIXED, MIXED_GRAPH, *feeds)


def _mixed(x, shape):
    y = ops.reshape(ops.matmul(x, WEIGHT), shape)
    at = ops.nonzero(ops.greater(ops.sum(y, (1,)), 0.0))
    kept = ops.gather(y, ops.squeeze(at, (0,)), axis=0)
    return ops.tanh(kept), ops.sum(kept, (0,))


MIXED_GRAPH = graph_of(_mixed, "float32[n, 5]", "int64[2]")
MIXED = amanda.compile(MIXED_GRAPH, "jax")


def test_parts_of_constants_whose_sizes_data_decides():
    """What Python computes is not copied into programs, also where it is constant."""

    def function(x, numbers, mask):
        at = ops.compress(numbers, mask, axis=0)
        size = ops.reshape(ops.max(at) + np.int64(1), [1])
        zeros = ops.full(ops.concat(size, ops.shape_of(x)), ops.number_like(x, value=0))
        return ops.scatter_nd(zeros, ops.expand_dims(at, [1]), ops.stack(x, x * 2.0))

    graph = graph_of(function, "float32[4]", "int64[3]", "bool[3]")
    for value in (np.array([True, False, True]), np.arange(3)):
        constant = graph.constant(value).output
        graph.replace_uses(graph.parameters[-1], constant)
        graph.remove_parameter(len(graph.parameters) - 1)
    expect_numpy(amanda.compile(graph, "jax"), graph, ramp(4))


def test_what_jax_has_not_runs_on_numpy_where_that_is_allowed():
    graph = graph_of(lambda x: ops.tanh(ops.dawsn(ops.exp(x))) + 1.0, "float32[n]")
    compiled = amanda.compile(graph, "jax", fallback="numpy")
    expect_numpy(compiled, graph, ramp(5))
    report = compiled.executable.report()
    assert [piece.backend for piece in report.pieces] == ["jax", "numpy", "jax"]
    assert report.pieces[1].why == (
        "jax: dawsn #1: JAX does not have the special function dawsn",
    )
    assert [crossing.bytes for crossing in report.transfers] == [20, 20]
