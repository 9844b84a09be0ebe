"""Arguments of ops as kernels get them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from amanda.errors import BackendError
from amanda.graph import Graph, Op
from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.backends import bind_kernel, op_samples, shape_arguments


def recorded(*args: Any, **attrs: Any) -> tuple[Any, Any]:
    return args, attrs


def op_of(graph: Graph, kind: str) -> Op:
    (op,) = graph.ops.select(kind)
    return op


def test_shape_arguments_are_integers_however_they_are_stored() -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(parse_type("float32[4, 6]"), "x")
    n = graph.parameter(parse_type("int64[2]"), "n")
    stored = graph.add(
        "slice", [x], {"starts": [0, 1], "stops": [2, 3], "axes": [0, 1]}
    )
    mixed = graph.add("slice", [x, n], {"stops": [2, 3]})
    array = np.zeros((4, 6), "float32")
    call, inputs = bind_kernel(stored, recorded)
    assert inputs == (x,)
    args, attrs = call(array)
    assert args[0] is array
    assert (args[1:], attrs) == (((0, 1), (2, 3), (0, 1), None), {})
    call, inputs = bind_kernel(mixed, recorded)
    assert inputs == (x, n)
    args, _ = call(array, np.array([0, 1]))
    assert args[1:] == ((0, 1), (2, 3), None, None)
    assert all(type(i) is int for i in args[1])
    expected = {"starts": n, "stops": (2, 3), "axes": None, "steps": None}
    assert shape_arguments(mixed) == expected


def test_attributes_come_by_name_with_their_defaults() -> None:
    graph = trace(
        lambda x, w: ops.conv(x, w, groups=2),
        [parse_type("float32[1, 2, 5]"), parse_type("float32[2, 1, 3]")],
    )
    call, inputs = bind_kernel(op_of(graph, "conv"), recorded)
    assert inputs == tuple(graph.parameters)
    args, attrs = call("x", "w")
    assert args == ("x", "w", None)
    assert attrs["groups"] == 2
    assert attrs["layout"] == "NC*"
    assert attrs["strides"] is None


def test_any_number_of_tensors() -> None:
    types = [parse_type("float32[2]")] * 3
    graph = trace(lambda *xs: ops.concat(*xs, axis=0), types)
    call, _ = bind_kernel(op_of(graph, "concat"), recorded)
    assert call(1, 2, 3) == ((1, 2, 3), {"axis": 0})


def test_ops_with_bodies_are_refused() -> None:
    graph = trace(
        lambda c, x: ops.if_(c, lambda x: x, lambda x: x, x),
        [parse_type("bool[]"), parse_type("float32[2]")],
    )
    with pytest.raises(BackendError, match="has bodies"):
        bind_kernel(op_of(graph, "if"), recorded)


def test_samples_of_what_a_backend_refuses_are_left_out() -> None:
    def takes(op: Op) -> bool | str:
        return "keepdims" not in op.attrs or "no keepdims"

    every, some = op_samples(["sum"]), op_samples(["sum"], takes=takes)
    graphs = [make().graph for make in some.values()]
    assert 0 < len(some) < len(every)
    assert all(takes(op) is True for graph in graphs for op in graph)
