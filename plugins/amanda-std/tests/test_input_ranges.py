"""Ranges of inputs: what is found is what kernels accept, by definition or algebra."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
import pytest

import amanda
from amanda.feeds import InputRange, find_input_ranges, generate_feeds
from amanda.graph import Graph
from amanda_std import ops, trace
from amanda_std.engine.annotations import Index
from amanda_std.hub.op_samples import op_samples
from amanda_std.input_ranges.readers import DOMAINS, INDEX_READERS
from amanda_std.ops import OPS, find

INDEX = Index.__metadata__[0]
HUB = "amanda/std/1"


def graph_of(build: Callable[..., object], type: str) -> Graph:
    """A graph of a function with one input, which has no name."""
    return trace(build, [amanda.parse_type(type)])


def range_of(build: Callable[..., object], type: str) -> InputRange | None:
    """The range of the only input of a graph."""
    return find_input_ranges(graph_of(build, type)).get(0)


def table(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


def test_every_index_has_a_row() -> None:
    declared = {
        (name, param.name)
        for name in OPS
        for param in find(name).form.params
        if param.kind == INDEX
    }
    rows = {(name, arg) for name, row in INDEX_READERS.items() for arg in row}
    assert declared - rows == set()
    for name, argument in rows:
        assert argument in {param.name for param in find(name).form.params}
    assert len(declared) > 50


SAMPLES = {
    name: sample
    for name, sample in op_samples(INDEX_READERS, 4).items()
    if "empty" not in name
}


@pytest.mark.parametrize("name", SAMPLES)
def test_generated_indices_are_accepted(name: str) -> None:
    """Each op with an index runs on numpy with feeds that are generated for it."""
    graph = SAMPLES[name]().graph
    for seed in (1, 2):
        amanda.run(graph, generate_feeds(graph, seed=seed), backend="numpy")


@pytest.mark.parametrize("name", DOMAINS)
def test_functions_are_finite_in_their_domain(name: str) -> None:
    graph = Graph(HUB)
    x = graph.parameter("float32[1000]", "x")
    graph.result(find(name)(x), "y")
    (y,) = amanda.run(graph, generate_feeds(graph, seed=3), backend="numpy").values()
    assert np.isfinite(y).all()
    negative = amanda.run(graph, {"x": np.full(1000, -2.0, "f4")}, backend="numpy")
    assert name in ("digamma", "lgamma") or not np.isfinite(negative["y"]).any()


@pytest.mark.parametrize(
    ("build", "low", "high"),
    [
        (lambda x: ops.gather(table(30, 2), x), 0, 29),
        (lambda x: ops.gather(table(30, 2), x, 1), 0, 1),
        (lambda x: ops.gather(table(30, 2), ops.astype(x, dtype="int32")), 0, 29),
        (lambda x: ops.gather(table(30, 2), ops.reshape(x, (2, 2))), 0, 29),
        (lambda x: ops.gather(table(30, 2), ops.concat(x, x)), 0, 29),
        (lambda x: ops.gather(table(30, 2), x + 2), -2, 27),
        (lambda x: ops.gather(table(30, 2), 2 - x), -27, 2),
        (lambda x: ops.gather(table(30, 2), 3 * x), 0, 29 / 3),
        (lambda x: ops.gather(table(30, 2), x - np.arange(4)), 3, 29),
        (lambda x: ops.gather(table(30, 2), ops.clip(x, 0, 50)), 0, 29),
        (lambda x: ops.one_hot(x, 7, np.float32(1), np.float32(0)), 0, 6),
        (lambda x: ops.take(table(5, 3), x, axis=1), 0, 2),
        (
            lambda x: ops.gather(
                table(30, 2), ops.where(x < np.int64(0), x + np.int64(30), x)
            ),
            0,
            29,
        ),
        (
            lambda x: (
                ops.gather(table(30, 2), x).sum() + ops.gather(table(9, 2), x).sum()
            ),
            0,
            8,
        ),
    ],
)
def test_indices_are_followed(
    build: Callable[..., object], low: float, high: float
) -> None:
    found = range_of(build, "int64[4]")
    assert found == InputRange(low, high, "index")


def test_what_is_no_index_is_free() -> None:
    assert range_of(lambda x: x * x, "int64[4]") is None
    assert range_of(ops.tanh, "float32[4]") is None
    assert range_of(lambda x: ops.gather(table(3), x * x), "int64[4]") is None


@pytest.mark.parametrize(
    ("build", "low", "high"),
    [
        (ops.log, 1 / 64, 1),
        (ops.sqrt, 0, 1),
        (lambda x: ops.sqrt(x + np.float32(0.5)), -0.5, 0.5),
        (lambda x: ops.log(1 - x), 0, 1 - 1 / 64),
        (lambda x: ops.asin(x / np.float32(4)), -4, 4),
        (ops.acosh, 1, inf),
    ],
)
def test_domains_are_followed(
    build: Callable[..., object], low: float, high: float
) -> None:
    found = range_of(build, "float32[4]")
    assert found is not None
    assert (found.low, inf if found.high is None else found.high) == (low, high)


SCORES = np.zeros((2, 4), "float32")
LOW = np.float32(-1e9)


@pytest.mark.parametrize(
    ("build", "type", "keeps"),
    [
        (lambda m: ops.where(m, SCORES, LOW), "bool[2, 4]", True),
        (lambda m: ops.where(m, LOW, SCORES), "bool[2, 4]", False),
        (lambda m: ops.where(~m, LOW, SCORES), "bool[2, 4]", True),
        (
            lambda m: ops.where(ops.astype(m, dtype="bool"), SCORES, LOW),
            "int64[2, 4]",
            True,
        ),
        (
            lambda m: ops.where(ops.equal(m, np.int64(0)), LOW, SCORES),
            "int64[2, 4]",
            True,
        ),
        (
            lambda m: ops.where(ops.equal(m, np.int64(1)), LOW, SCORES),
            "int64[2, 4]",
            False,
        ),
        (
            lambda m: (1 - ops.astype(m, dtype="float32")) * LOW + SCORES,
            "int64[2, 4]",
            True,
        ),
        (lambda m: ops.astype(m, dtype="float32") * LOW + SCORES, "int64[2, 4]", False),
        (lambda m: (1 - m) * LOW + SCORES, "float32[2, 4]", True),
    ],
)
def test_masks_never_mask_everything(
    build: Callable[..., object], type: str, keeps: bool
) -> None:
    """A softmax over the scores has a position in every row that is not masked."""
    assert range_of(build, type) == InputRange(0, 1, "mask", keeps)
    graph = graph_of(build, type)
    for seed in range(5):
        feeds = generate_feeds(graph, seed=seed)
        (scores,) = amanda.run(graph, feeds, backend="numpy").values()
        assert (scores.max(-1) == 0).all()
        assert set(np.unique(feeds[0])) <= {0, 1}


def test_inputs_that_bodies_read() -> None:
    def branch(x: object) -> object:
        return ops.gather(table(11, 2), x)

    graph = Graph(HUB)
    condition = graph.parameter("bool[]", "condition")
    x = graph.parameter("int64[3]", "x")
    (y,) = ops.if_(condition, lambda v: [branch(v)], lambda v: [branch(v)], x)
    graph.result(y)
    assert find_input_ranges(graph)["x"] == InputRange(0, 10, "index")


def test_sizes_of_shapes() -> None:
    graph = Graph(HUB)
    x = graph.parameter("float32[2, 3]", "x")
    shape = graph.parameter("int64[3]", "shape")
    graph.result(ops.reshape(x, shape), "y")
    assert find_input_ranges(graph)["shape"].role == "shape"
    feeds = generate_feeds(graph, seed=1)
    assert amanda.run(graph, feeds, backend="numpy")["y"].shape == (1, 1, 6)


def test_differences_of_corners_are_indices() -> None:
    """A box has its corners in order, so that its width is no negative index."""
    graph = Graph(HUB)
    box = graph.parameter("int64[5, 4]", "box")
    left, right = (ops.gather(box, np.int64(i), 1) for i in (0, 2))
    graph.result(ops.gather(table(9, 2), ops.subtract(right, left)), "y")
    assert find_input_ranges(graph)["box"] == InputRange(0, 8, "ordered")
    found = generate_feeds(graph, seed=2)["box"]
    assert (np.diff(found) >= 0).all()


def test_divisors_of_integers_are_positive() -> None:
    found = range_of(lambda x: ops.floor_divide(np.int64(7), x), "int64[4]")
    assert found == InputRange(1, None)


def test_sizes_of_dims_are_those_that_are_given() -> None:
    """The range of an index of an axis with a symbolic size depends on `dims`."""
    graph = Graph(HUB)
    x = graph.parameter("float32[n, 2]", "x")
    at = graph.parameter("int64[8]", "at")
    graph.result(ops.gather(x, at))
    assert find_input_ranges(graph, dims={"n": 6})["at"].high == 5
    feeds = generate_feeds(graph, seed=1, dims={"n": 6})
    assert feeds["x"].shape == (6, 2)
    assert 1 < feeds["at"].max() <= 5
    assert str(graph.parameters[0].type) == "float32[n, 2]"


def test_nothing_is_known_of_a_namespace_without_a_mapping() -> None:
    """No error of a plug-in either: random feeds are drawn for such graphs, too."""
    graph = Graph("toy/any/1")
    graph.parameter("float32[n]", "x")
    assert find_input_ranges(graph) == {}
    assert all(not entry.fault for entry in amanda.default_host().entries("hooks"))
