"""Writes into tensors, views and buffers become values."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import ConversionError
from amanda.graph import Graph
from amanda.tensors import Tensor

NAMESPACE = "amanda/torch/2.13.0"


@pytest.fixture
def graph():
    return Graph(NAMESPACE)


def parameter(graph, text, name="x"):
    return graph.parameter(amanda.parse_type(text), name)


def call(graph, kind, *inputs, type="float32[2, 3]", after=None, **attrs):
    """Add an op of ATen; `after` is an op that it follows."""
    op = graph.add(f"aten.{kind}", list(inputs), attrs)
    op.output.type = amanda.parse_type(type)
    if after is not None:
        graph.control(after.op, op)
    return op.output


def run(graph, *feeds):
    names = [p.name for p in graph.parameters]
    return list(
        amanda.run(
            graph, dict(zip(names, feeds, strict=True)), backend="numpy"
        ).values()
    )


X = np.arange(6, dtype="float32").reshape(2, 3)


def test_a_write_is_seen_by_later_ops_only(graph):
    x = parameter(graph, "float32[2, 3]")
    before = call(graph, "mul.Tensor", x, x)
    written = call(graph, "add_.Tensor", x, other=1, after=before)
    after = call(graph, "mul.Tensor", x, x, after=written)
    for y in (before, after, written):
        graph.result(y)
    first, second, third = run(graph, X)
    assert (first == X * X).all()
    assert (second == (X + 1) ** 2).all()
    assert (third == X + 1).all()


def test_a_write_into_a_view_writes_into_its_base(graph):
    x = parameter(graph, "float32[2, 3]")
    copy = call(graph, "clone.default", x)
    turned = call(graph, "t.default", copy, type="float32[3, 2]")
    row = call(graph, "select.int", turned, dim=0, index=1, type="float32[2]")
    call(graph, "fill_.Scalar", row, value=7, type="float32[2]", after=row)
    graph.result(copy)
    (found,) = run(graph, X)
    expected = X.copy()
    expected[:, 1] = 7  # row 1 of the transposed matrix
    assert (found == expected).all()


def test_a_write_into_a_base_is_seen_through_its_views(graph):
    x = parameter(graph, "float32[2, 3]")
    copy = call(graph, "clone.default", x)
    part = call(
        graph, "slice.Tensor", copy, dim=1, start=1, end=3, type="float32[2, 2]"
    )
    call(graph, "mul_.Tensor", copy, other=2, after=part)
    graph.result(part)
    (found,) = run(graph, X)
    assert (found == 2 * X[:, 1:]).all()


def test_views_of_every_kind(graph):
    steps = [
        ("view.default", {"size": [3, 2]}, "float32[3, 2]", lambda a: a.reshape(3, 2)),
        ("permute.default", {"dims": [1, 0]}, "float32[2, 3]", np.transpose),
        ("unsqueeze.default", {"dim": 0}, "float32[1, 2, 3]", lambda a: a[None]),
        ("diagonal.default", {"offset": 1, "dim1": 1, "dim2": 2}, "float32[1, 2]",
         lambda a: np.stack([a[:, 0, 1], a[:, 1, 2]], 1)),
        ("narrow.default", {"dim": 1, "start": 1, "length": 1}, "float32[1, 1]",
         lambda a: a[:, 1:2]),
    ]  # fmt: skip
    x = parameter(graph, "float32[2, 3]")
    base = value = call(graph, "clone.default", x)
    for kind, attrs, type, _ in steps:
        value = call(graph, kind, value, type=type, **attrs)
    call(graph, "zero_.default", value, after=value, type="float32[1, 1]")
    graph.result(base)
    (found,) = run(graph, X)
    place = np.arange(6).reshape(2, 3)
    for *_, see in steps:
        place = see(place)
    expected = X.copy().reshape(-1)
    expected[place.reshape(-1)] = 0
    assert (found == expected.reshape(2, 3)).all()


def test_a_written_buffer_keeps_its_value(graph):
    start = Tensor.of(np.zeros(3, "float32"))
    buffer = graph.add(
        "get_attr", [], {"target": "total", "kind": "buffer", "x-value": start}
    ).output
    buffer.type = amanda.parse_type("float32[3]")
    x = parameter(graph, "float32[3]")
    call(graph, "add_.Tensor", buffer, x, type="float32[3]")
    graph.result(call(graph, "mul.Scalar", buffer, other=2, type="float32[3]"))
    run = amanda.compile(graph, "numpy")
    one = np.ones(3, "float32")
    assert [next(iter(run({"x": one}).values())).tolist() for _ in range(2)] == [
        [2, 2, 2],
        [4, 4, 4],
    ]


def test_a_view_that_cannot_be_written(graph):
    x = parameter(graph, "float32[4]")
    copy = call(graph, "clone.default", x, type="float32[4]")
    windows = call(graph, "unfold.default", copy, dimension=0, size=2, step=1,
                   type="float32[3, 2]")  # fmt: skip
    call(graph, "zero_.default", windows, after=windows, type="float32[3, 2]")
    graph.result(copy)
    with pytest.raises(ConversionError, match="a write into a view of this kind"):
        amanda.convert(graph, "std")


def test_views_of_several_tensors(graph):
    """Results of `broadcast_tensors` and `meshgrid` share memory with the arguments."""
    x = parameter(graph, "float32[2, 3]")
    base = call(graph, "clone.default", x)
    row = graph.parameter(amanda.parse_type("float32[3]"), "row")
    own = call(graph, "clone.default", row, type="float32[3]")
    op = graph.add("aten.broadcast_tensors.default", [base, own], outputs=2)
    for port in op.outputs:
        port.type = amanda.parse_type("float32[2, 3]")
    first, second = op.outputs
    one = call(graph, "mul_.Tensor", first, other=2, after=first)
    call(graph, "add_.Tensor", own, other=1, type="float32[3]", after=one)
    for port in (base, first, second):
        graph.result(port)
    found = run(graph, X, np.float32([5, 6, 7]))
    for have, want in zip(found, (X * 2, X * 2, [[6, 7, 8]] * 2), strict=True):
        assert (have == want).all()


def test_a_write_is_seen_through_a_grid(graph):
    x, y = parameter(graph, "float32[3]"), parameter(graph, "float32[2]", "y")
    own = call(graph, "clone.default", x, type="float32[3]")
    op = graph.add("aten.meshgrid.indexing", [own, y], {"indexing": "ij"}, outputs=2)
    for port in op.outputs:
        port.type = amanda.parse_type("float32[3, 2]")
    call(graph, "add_.Tensor", own, other=10, type="float32[3]", after=op.outputs[0])
    for port in op.outputs:
        graph.result(port)
    feeds = np.float32([1, 2, 3]), np.float32([4, 5])
    columns, rows = run(graph, *feeds)
    assert (columns == [[11, 11], [12, 12], [13, 13]]).all()
    assert (rows == [[4, 5]] * 3).all()
