"""Every syntax of the published specification is read, and what it means."""

from __future__ import annotations

import pytest
from text.published import DOCUMENTS

from amanda.errors import FormatError
from amanda.files.text import json_form, yaml_form
from amanda.files.text.construct.parsed_graph import Address
from amanda.files.text.document.schema import EdgeDocument
from amanda.graph import Graph
from amanda.types import OpaqueType


def read(name: str) -> Graph:
    graph = yaml_form.loads(DOCUMENTS[name])
    assert isinstance(graph, Graph)
    return graph


def arrows(graph: Graph) -> list[str]:
    return [repr(edge) for edge in graph.edges]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_read_is_written_exactly(name: str) -> None:
    made = yaml_form.loads(DOCUMENTS[name])
    if isinstance(made, EdgeDocument):
        return
    for form in (yaml_form, json_form):
        text = form.dumps(made)
        assert form.loads(text).difference(made) is None
        assert form.dumps(form.loads(text)) == text


def test_a_lone_op_is_a_graph_that_holds_it() -> None:
    graph = read("op, first form")
    (op,) = graph
    assert (op.name, op.type) == ("split", "Split")
    assert [port.name for port in op.input_ports] == ["whole"]
    assert [port.name for port in op.outputs] == ["head", "tail"]


@pytest.mark.parametrize(
    "name",
    [
        "op with built-in attributes among the others",
        "op under its name, its type among the attributes",
    ],
)
def test_built_in_attributes_become_fields(name: str) -> None:
    (op,) = read(name)
    assert (op.name, op.type) == ("clip", "Clip")
    assert "type" not in op.attrs


def test_a_framework_attribute_of_such_a_name_stays() -> None:
    graph = yaml_form.loads("cast: {type: Bitcast, attrs: {type: int8, name: [1]}}")
    op = graph["cast"]
    assert op.type == "Bitcast"
    assert op.attrs == {"type": "int8", "name": [1]}
    exact = yaml_form.loads("amanda: 1\ngraph: {ops: {a: {attrs: {type: Relu}}}}")
    assert exact["a"].type is None
    assert exact["a"].attrs == {"type": "Relu"}


def test_attributes_as_a_list() -> None:
    (op,) = read("attributes as a list")
    assert op.name == "pad"
    assert op.attrs == {"sizes": [0, 1, [2, 3]], "mode": {"kind": "edge"}}


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("edge, first form", ("split", "head"), ("join", 0)),
        ("control edge by number", ("split", -1), ("join", -1)),
        ("control edge by name", ("split", "^control"), ("join", "^control")),
        ("edge as text", ("split", "head"), ("join", "left")),
        ("control edge as text", ("split", "^control"), ("join", "^control")),
    ],
)
def test_a_lone_edge(
    name: str, source: tuple[str, str | int], target: tuple[str, str | int]
) -> None:
    edge = yaml_form.loads(DOCUMENTS[name])
    assert edge == EdgeDocument(Address(*source), Address(*target))
    assert edge.is_control == ("control" in name)


def test_a_graph_of_lists() -> None:
    graph = read("graph of lists")
    assert graph.namespace == "amanda/example/2.0"
    assert graph.attrs == {"made": {"by": "hand"}}
    assert arrows(graph) == [
        "split:tail -> join[left]",
        "split:head -> join[right]",
        "split.^control -> join.^control",
    ]
    left, right = graph["join"].input_ports
    assert left.edge_attrs == {"weight": 2}
    assert right.attrs == {"axis": 1}
    assert graph["split"].outputs[0].attrs == {"width": 3}


def test_a_subgraph_and_its_boundary() -> None:
    graph = read("subgraph")
    assert (graph.name, graph.type) == ("block", "Block")
    assert arrows(graph)[:2] == [
        "block:signal -> scale[x]",
        "scale:y -> result block[result]",
    ]
    scale = graph["scale"]
    assert graph.inner_control_sources == (scale,)
    assert graph.inner_control_sinks == (scale,)


def test_what_has_no_name_is_addressed_by_index() -> None:
    graph = read("ops and ports without names")
    load, mix = graph
    assert mix.inputs == (graph.parameters[0], load.output)
    assert graph.results == (mix.output,)
    assert graph.parameters[0].attrs == {"type": "Double(2, 3)"}
    assert load.output.name == "12"


def test_types_of_other_systems() -> None:
    graph = read("graph under no name")
    assert graph.name is None
    assert graph.attrs == {"default_type_system": "example"}
    assert graph.parameters[0].type == OpaqueType("ex.Array<f64>(2, 3)")
    mix = graph["mix"]
    assert str(mix.output.type) == "float64[2, 9]"
    # an input has the type of its source; what a text says else is kept
    assert mix.input_ports[1].attrs == {"type": OpaqueType("ex.Array<f64_ref>")}
    assert mix.control_inputs == (graph["load"],)


def test_a_subgraph_in_a_subgraph() -> None:
    graph = read("subgraph under its name, with a subgraph")
    inner = graph["inner"]
    assert isinstance(inner, Graph)
    assert inner.results == (inner["scope/scale"].output,)
    assert graph["last"].inputs == (inner.outputs[0],)


def test_a_source_named_by_an_input_port() -> None:
    graph = read("a source named by its op's input")
    assert graph.results == (graph["scale"].output,)
    port = graph.result_ports[0]
    assert port.edge_attrs == {"written": "scale.given -> unit.made"}


def test_ops_in_any_order() -> None:
    graph = read("ops in any order")
    assert [op.name for op in graph] == ["first", "middle", "last"]


BOTH = """
h:
  input_ports: [x]
  output_ports: [y]
  ops:
    h: {input_ports: [a, y], output_ports: [b, x]}
    graph: {output_ports: [o]}
  edges:
    - h.x -> h.a       # the graph's own input, the op's
    - h.b -> h.y       # the op's output, the graph's own
    - {output_port: {op: 0, port: x}, input_port: {op: 0, port: y}}
"""


def test_a_graph_before_an_op_of_its_name() -> None:
    graph = yaml_form.loads(BOTH.replace("op: 0, port: x", "op: 1, port: o"))
    op = graph["h"]
    assert op.inputs == (graph.parameters[0], graph["graph"].output)
    assert graph.results == (op.outputs[0],)
    text = yaml_form.dumps(graph)
    assert (
        "- {output_port: {op: h, port: x}, input_port: {op: 0, port: 0}}" in text
        or (yaml_form.loads(text).difference(graph) is None)
    )


def test_graph_means_the_graph_where_no_op_is_called_so() -> None:
    text = (
        "net: {input_ports: [x], ops: {a: {input_ports: [b]}}, edges: [graph.x -> a.b]}"
    )
    graph = yaml_form.loads(text)
    assert graph["a"].inputs == graph.parameters


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("namespace_schema", "a namespace schema"),
        ("namespace", "a namespace schema"),
        ("table", "a mapping table"),
    ],
)
def test_documents_of_other_kinds_are_named(key: str, what: str) -> None:
    with pytest.raises(FormatError, match=f"the document is {what}, not a graph"):
        yaml_form.loads(f"{key}: {{rules: []}}")
