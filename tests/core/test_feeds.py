"""Random feeds: what a plug-in says of inputs decides the values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import amanda
from amanda.errors import LimitError, UsageError
from amanda.feeds import InputRange, find_input_ranges, generate_feeds
from amanda.graph import Graph
from amanda.host import use_host

RANGES = {
    "ids": InputRange(3, 9, "index"),
    "mask": InputRange(0, 1, "mask"),
    "padding": InputRange(0, 1, "mask", keeps=False),
    "position_ids": InputRange(0, 4, "position"),
    "lengths": InputRange(1, 6, "length"),
    "sizes": InputRange(1, None, "size"),
    "shape": InputRange(1, None, "shape"),
    "p": InputRange(0.25, 1),
    "positive": InputRange(1, None),
    1: InputRange(5, 5, "index"),
    "unknown": InputRange(0, 1),
}


@pytest.fixture
def host() -> Iterator[amanda.Host]:
    """A host with one listener, which knows the inputs of every graph."""

    def find_ranges(graph: Graph) -> object:
        return RANGES

    made = amanda.Host(points=())
    made.register("hooks", "find_input_ranges", find_ranges)
    with use_host(made):
        yield made


def feeds_of(*inputs: tuple[str | None, str], **options: object) -> dict:
    graph = Graph("toy/any/1")
    for name, type_ in inputs:
        graph.parameter(amanda.parse_type(type_), name)
    return generate_feeds(graph, seed=7, **options)


@pytest.mark.usefixtures("host")
def test_values_are_in_their_ranges() -> None:
    found = feeds_of(
        ("ids", "int32[100]"), (None, "int64[2]"), ("p", "float16[200]"),
        ("positive", "float32[50]"), ("lengths", "int64[100]"),
    )  # fmt: skip
    assert found["ids"].dtype == np.int32
    assert set(found["ids"].tolist()) == {3, 4, 5, 6, 7, 8, 9}
    assert found[1].tolist() == [5, 5]
    assert found["p"].dtype == np.float16
    assert 0.25 <= found["p"].min() < 0.4 < 0.9 < found["p"].max() <= 1
    assert 1 <= found["positive"].min() < found["positive"].max() <= 2
    assert set(found["lengths"].tolist()) == {1, 2, 3, 4, 5, 6}


@pytest.mark.usefixtures("host")
def test_masks_have_padding_at_the_end() -> None:
    found = feeds_of(("mask", "int64[50, 8]"), ("padding", "bool[50, 8]"))
    used = found["mask"].astype(bool)
    for rows in (used, ~found["padding"]):
        assert (np.diff(rows.astype(int), axis=1) <= 0).all()
        assert set(rows.sum(1).tolist()) == {4, 5, 6, 7, 8}
    pixels = feeds_of(("mask", "float32[3, 4, 6]"))["mask"]
    assert (pixels == pixels[:, :1]).all()


@pytest.mark.usefixtures("host")
def test_positions_increase_and_sizes_are_small() -> None:
    found = feeds_of(("position_ids", "int64[2, 7]"), ("sizes", "int64[3]"),
                     ("shape", "int64[3]"))  # fmt: skip
    assert found["position_ids"].tolist() == [[0, 1, 2, 3, 4, 0, 1]] * 2
    assert found["sizes"].tolist() == [1, 1, 1]
    assert found["shape"].tolist() == [1, 1, -1]


def test_values_of_inputs_that_nothing_is_known_of() -> None:
    with use_host(amanda.Host(points=())):
        found = feeds_of(("i", "int8[1000]"), ("f", "float32[10000]"),
                         ("b", "bool[4, 6]"), ("s", "string[2]"))  # fmt: skip
        assert set(found["i"].tolist()) == {0, 1}
        assert abs(found["f"].mean()) < 0.05 < abs(found["f"].std()) < 1.05
        assert found["s"].tolist() == ["a", "a"]
        again = feeds_of(("i", "int8[1000]"), ("f", "float32[10000]"))
        assert (again["i"] == found["i"]).all()
        assert find_input_ranges(Graph("toy/any/1")) == {}


@pytest.mark.usefixtures("host")
def test_sizes_of_dims() -> None:
    inputs = ("ids", "int64[batch, past + 1]"), ("mask", "int64[batch, ?]")
    found = feeds_of(*inputs, dims={"batch": 3, "past": 4})
    assert [each.shape for each in found.values()] == [(3, 5), (3, 1)]
    assert list(feeds_of(*inputs, inputs=["mask"])) == ["mask"]


@pytest.mark.usefixtures("host")
def test_what_has_no_random_value() -> None:
    with pytest.raises(UsageError, match="there is no random value for x"):
        feeds_of(("x", "float32[...]"))
    with pytest.raises(LimitError, match="do not fit the memory"):
        feeds_of(("x", "float32[n]"), dims={"n": 1 << 50})


def test_ranges_intersect() -> None:
    both = InputRange(0, 29, "index").intersect(InputRange(-2, 10))
    assert both == InputRange(0, 10, "index")
    assert InputRange(0, 3).intersect(InputRange(5, 9)) == InputRange(0, 3)
    assert InputRange(0).intersect(InputRange(None, 4, "index")) == InputRange(
        0, 4, "index"
    )
