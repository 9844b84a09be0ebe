"""What the mapping engine and the dictionary ask of the hub set."""

from __future__ import annotations

import pytest

import amanda
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.mapping.side import REQUIRED, Decline, Side, TracingSide, answer_question
from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.hub.mapping_side import STD_SIDE
from amanda_std.ops import OPS


def test_it_has_the_protocols():
    assert isinstance(STD_SIDE, Side)
    assert isinstance(STD_SIDE, TracingSide)


def test_signatures():
    conv = STD_SIDE.signature("conv")
    assert conv.inputs == ("x", "w", "b")
    assert conv.optional == {"b"}
    assert conv.attrs["groups"] == 1
    assert STD_SIDE.signature("astype").attrs["dtype"] is REQUIRED
    assert STD_SIDE.signature("concat").variadic == "xs"
    assert STD_SIDE.signature("loop").inputs == ("trips", "condition", "init")
    assert STD_SIDE.signature("topk").outputs == 2
    assert STD_SIDE.signature("split").outputs is None
    assert STD_SIDE.signature("Relu") is None


def test_build_infers_types_and_takes_host_arguments_in_any_form():
    graph = Graph("amanda/std/1")
    x = graph.parameter(parse_type("float32[n, 6]"))
    shape = graph.parameter(parse_type("int64[3]"))
    (y,) = STD_SIDE.build(graph, "reshape", [x, [-1, 2, 3]], {}, name="y")
    assert (y.op.name, str(y.type), answer_question(y, "rank")) == (
        "y",
        "float32[n, 2, 3]",
        3,
    )
    (by_name,) = STD_SIDE.build(graph, "reshape", [x], {"shape": [-1, 2, 3]})
    assert by_name.op.attrs == y.op.attrs
    (late,) = STD_SIDE.build(graph, "reshape", [x, shape], {})
    assert late.op.inputs == (x, shape)
    (left_out,) = STD_SIDE.build(graph, "clip", [x, None, 6.0], {})
    assert [v and v.op.type for v in left_out.op.inputs][1:] == [None, "constant"]


def test_build_takes_the_number_of_outputs():
    graph = Graph("amanda/std/1")
    x, sizes = (graph.parameter(parse_type(t)) for t in ("float32[...]", "int64[?]"))
    made = STD_SIDE.build(graph, "split", [x, sizes], {"axis": 1}, outputs=3)
    assert [str(v.type) for v in made] == ["float32[...]"] * 3


def test_build_takes_bodies():
    graph = Graph("amanda/std/1")
    c, x = (graph.parameter(parse_type(t)) for t in ("bool[]", "float32[n]"))
    bodies = {}
    for name, op in (("then", "relu"), ("otherwise", "exp")):
        bodies[name] = Graph(outer=graph)
        bodies[name].result(STD_SIDE.build(bodies[name], op, [x], {})[0])
    (y,) = STD_SIDE.build(graph, "if", [c], {}, bodies=bodies)
    assert (str(y.type), set(y.op.bodies)) == ("float32[n]", {"then", "otherwise"})


def test_build_declines_what_cannot_be():
    graph = Graph("amanda/std/1")
    x = graph.parameter(parse_type("float32[n]"))
    with pytest.raises(Decline, match="has no op Relu"):
        STD_SIDE.build(graph, "Relu", [x], {})
    with pytest.raises(UsageError, match="relu has no slope"):
        STD_SIDE.build(graph, "relu", [x], {"slope": 2})
    assert list(graph) == []


def test_functions_see_values():
    graph = Graph("amanda/std/1")
    x = graph.parameter(parse_type("float32[n]"))
    with STD_SIDE.tracing(graph):
        y = STD_SIDE.port(STD_SIDE.value(x) * 2.0 + 1.0, graph)
    assert [op.type for op in graph if op.type != "constant"] == ["multiply", "add"]
    assert y.op.type == "add"


def test_the_dictionary_is_derived():
    std = amanda.namespace("std")
    assert std.name == "amanda/std/1"
    assert list(std) == sorted(OPS)
    entry = std["gather"]
    assert [p.name for p in entry.inputs] == ["x", "indices", "axis"]
    assert entry.doc == OPS["gather"].doc
    assert all(std[name].signature for name in std)


def test_a_graph_of_every_sample_is_in_the_dictionary():
    """The entries say of the ops what the ops themselves say."""
    std = amanda.namespace("std")
    graph = trace(
        lambda x: ops.softmax(ops.linear(x, x)), [parse_type("float32[2, 2]")]
    )
    for op in graph:
        entry = std[op.type]
        assert len(op.inputs) <= len(entry.inputs)
        assert set(op.attrs) <= {a.name for a in entry.attrs}
