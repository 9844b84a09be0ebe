"""Device placement: transfers in plans, gradients, files and passes."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import InvalidTypeError
from amanda.types import parse_type
from amanda_std import grad, ops, trace
from amanda_std.engine.values import constant_of

X = parse_type("float32[2, 3]")


def moved(x):
    there = ops.transfer(x, to="gpu:0", source="cpu")
    return ops.transfer(there * 2.0, to="cpu", source="gpu:0")


def places(graph):
    return [op.attrs["to"] for op in graph.ops.select("transfer")]


def test_plans_show_copies_memory_and_callbacks():
    def function(x):
        room = ops.allocate((2, 3), dtype="float32", device="gpu:0")
        (shown,) = ops.host_callback(room, function="same", types=("float32[2, 3]",))
        return moved(x) + shown

    graph = trace(function, [X])
    run = amanda.compile(graph, "numpy", callbacks={"same": lambda x: x})
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(run([x])[0], x * 2)
    plan = str(run.plan())
    assert plan.count(" to gpu:0(") == 2  # the memory, and x
    assert plan.count(" to cpu(") == 1
    assert plan.count(" of same(") == 1


def test_transfers_are_not_folded():
    """A constant is on no device; equal transfers are one."""

    def function(x):
        table = np.arange(6, dtype="float32").reshape(2, 3)
        a, b = (ops.transfer(table, to="gpu:0") for _ in range(2))
        room = ops.allocate((2, 3), dtype="float32", device="gpu:0")
        return x + ops.transfer(x, to="gpu:0") + a + b, room

    graph = trace(function, [X])
    amanda.improve(graph, "canonical", "simplify", "fold", "share", "drop")
    assert "gpu:0" in places(graph)
    assert graph.results[1].op.type == "allocate"
    assert constant_of(graph.results[1]) is None


def test_gradients_are_transferred_back():
    graph = trace(lambda x: ops.sum(moved(x)), [X])
    (slope,) = grad(graph, graph.results[0], graph.parameters)
    graph.result(slope)
    assert places(graph) == ["gpu:0", "cpu", "gpu:0", "cpu"]
    made = amanda.run(graph, [np.ones((2, 3), "float32")], backend="numpy")
    np.testing.assert_array_equal([*made.values()][1], np.full((2, 3), 2.0))


def test_files_store_devices(tmp_path):
    graph = trace(moved, [X])
    amanda.save(graph, tmp_path / "moved.yaml")
    assert places(amanda.load(tmp_path / "moved.yaml")) == ["gpu:0", "cpu"]


def test_a_transfer_needs_a_target():
    with pytest.raises(InvalidTypeError, match="no target device"):
        trace(lambda x: ops.transfer(x, to=""), [X])


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "got"),
    [
        ((2, 3), (3, 1), 1, "elements 1 to 6"),
        ((3,), (-1,), 1, "elements -1 to 1"),
        ((4,), (2,), 0, "elements 0 to 6"),
    ],
)
def test_views_stay_inside_the_memory(shape, strides, offset, got):
    """Known when the graph is built, or when it runs."""

    def function(x):
        return ops.view(x, shape, strides, offset)

    with pytest.raises(InvalidTypeError, match="outside its memory") as caught:
        trace(function, [X])
    assert caught.value.got == got
    late = trace(function, [parse_type("float32[n, 3]")])
    with pytest.raises(InvalidTypeError, match="outside its memory"):
        amanda.run(late, [np.ones((2, 3), "float32")], backend="numpy")


def test_views_match_torch():
    torch = pytest.importorskip("torch")
    x = np.arange(24, dtype="float32").reshape(4, 6)
    windows = ((3, 2, 2), (6, 2, 1), 1)
    wanted = torch.as_strided(torch.from_numpy(x), *windows).numpy()
    np.testing.assert_array_equal(ops.view(x, *windows), wanted)
    graph = trace(
        lambda v: ops.sum(ops.square(ops.view(v, *windows))),
        [parse_type("float32[4, 6]")],
    )
    (slope,) = grad(graph, graph.results[0], graph.parameters)
    graph.result(slope)
    leaf = torch.from_numpy(x).requires_grad_()
    torch.as_strided(leaf, *windows).square().sum().backward()
    made = [*amanda.run(graph, [x], backend="numpy").values()]
    np.testing.assert_allclose(made[1], leaf.grad.numpy())
