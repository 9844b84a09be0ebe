"""Feeds whose keys are handles: values of the graph, as targets are."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import GoneError, UsageError

pytest.importorskip("amanda_std")
ONE, TWO = np.full(2, 1, "float32"), np.full(2, 2, "float32")


def difference(*names: str | None) -> amanda.Graph:
    graph = amanda.Graph("amanda/std/1")
    x, y = [graph.parameter("float32[2]", name) for name in names]
    graph.result(graph.add("subtract", [x, y], name="d").output, "z")
    graph.result(graph.add("negative", [y], name="n").output, "m")
    return graph


@pytest.mark.parametrize("names", [("x", "y"), (None, None)])
def test_feeds_by_handle(names: tuple[str | None, ...]) -> None:
    from amanda_std import Value

    graph = difference(*names)
    x, y = graph.parameters
    for feeds in ({y: TWO, x: ONE}, {Value(x): ONE, y: TWO}):
        assert amanda.run(graph, feeds, backend="numpy")["z"].tolist() == [-1, -1]
        run = amanda.compile(graph, "numpy")
        assert run(feeds)["z"].tolist() == [-1, -1]
        session = amanda.Session(graph, "numpy")
        assert session.run(["z"], feeds)["z"].tolist() == [-1, -1]
        assert session.run(["z"], {x: TWO})["z"].tolist() == [0, 0]
    target = graph["n"].output
    assert amanda.run(graph, {y: TWO}, [target], "numpy")[target].tolist() == [-2, -2]


def test_wrong_handles() -> None:
    graph, other = difference("x", "y"), amanda.Graph("amanda/std/1")
    x, y = graph.parameters
    foreign = other.parameter("float32[2]", "x")
    run = amanda.compile(graph, "numpy")
    for feeds, words in (
        ({foreign: ONE, y: TWO}, "of another graph"),
        ({graph["d"].output: ONE, y: TWO}, "is not an input"),
        ({x: ONE, "x": ONE, y: TWO}, "fed twice"),
    ):
        with pytest.raises(UsageError, match=words):
            run(feeds)
    with pytest.raises(UsageError, match="another graph"):
        amanda.run(graph, {foreign: ONE}, ["m"], "numpy")
    with pytest.raises(UsageError, match="not a value of the session"):
        amanda.Session(graph, "numpy").run(["m"], {foreign: ONE})


def test_snap_leaves_a_handle_that_is_gone() -> None:
    graph = amanda.Graph()
    gone = graph.add("a", []).output
    old = graph.add("b", []).output
    graph.remove(gone.op)
    new = graph.add("c", []).output
    graph.replace(old.op, [new])
    assert amanda.snap([gone, {"k": (old,)}]) == [gone, {"k": (new,)}]
    with pytest.raises(GoneError):
        gone.resolve()


def test_an_array_of_out_may_be_a_feed() -> None:
    """Results are those of the feeds as they were when the call began."""
    graph = difference("x", "y")
    x, y = graph.parameters
    value = graph["d"].output
    graph.result(graph.add("add", [x, value]).output, "t")
    a, b = np.float32([1, 2]), np.float32([10, 20])
    found = amanda.compile(graph, "numpy")({x: a, y: b}, out={"z": a})
    assert found["z"] is a
    assert a.tolist() == [-9, -18]
    assert found["t"].tolist() == [-8, -16]
