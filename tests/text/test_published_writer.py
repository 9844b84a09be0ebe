"""The published schema is written such that its own reader takes it, or refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from text.published import DOCUMENTS

import amanda
from amanda.errors import AmandaError, FormatError, UsageError
from amanda.files.text import json_form, yaml_form
from amanda.graph import ControlPort, Edge, Graph
from amanda.types import DType

EXAMPLES = sorted((Path(__file__).parents[1] / "dictionary/published").glob("*.yaml"))
TEXTS = {
    **{name: text for name, text in DOCUMENTS.items() if "edge" not in name[:12]},
    **{path.stem: path.read_text() for path in EXAMPLES},
}
TEXTS.pop("control edge as text", None)


def port_name(port: dict[str, Any]) -> str | None:
    """A port is `{name: type}`, or a map of some of name, type and attrs."""
    if set(port) <= {"name", "type", "attrs"}:
        return port.get("name")
    ((name, _),) = port.items()
    return name


def read_published(document: Any) -> list[Any]:
    """Ops, ports and edges of a document, from the specification alone."""
    assert set(document) == {"graph"}
    return read_graph(document["graph"], document["graph"].get("name", "graph"))


def read_graph(graph: dict[str, Any], own: str) -> list[Any]:
    assert set(graph) <= {
        "name", "type", "namespace", "default_type_system", "attrs",
        "input_ports", "output_ports", "ops", "edges",
    }  # fmt: skip
    names = [op.get("name") for op in graph["ops"]]

    def resolve(end: dict[str, Any], outward: bool) -> tuple[Any, Any]:
        assert set(end) == {"op", "port"}
        op, holder, side = end["op"], graph, outward
        if op == own:
            key = None
        else:
            key = op if isinstance(op, int) else names.index(op)
            holder, side = graph["ops"][key], not outward
        ports = holder.get("input_ports" if side else "output_ports", [])
        port = end["port"]
        if isinstance(port, str) and port != "^control":
            port = list(map(port_name, ports)).index(port)
        assert port == "^control" or 0 <= port < len(ports)
        return key, port

    edges = [
        (
            resolve(edge["output_port"], True),
            resolve(edge["input_port"], False),
            edge.get("attrs", {}),
        )
        for edge in graph.get("edges", [])
    ]
    return [describe(graph), [read_op(op) for op in graph["ops"]], edges]


def describe(op: dict[str, Any]) -> list[Any]:
    ports = [
        list(map(port_name, op.get(key, []))) for key in ("input_ports", "output_ports")
    ]
    return [op.get("name"), op.get("type"), op.get("attrs", {}), *ports]


def read_op(op: dict[str, Any]) -> list[Any]:
    if "ops" in op:
        return read_graph(op, op.get("name", "graph"))
    assert set(op) <= {"name", "type", "attrs", "input_ports", "output_ports"}
    return describe(op)


def expected(graph: Graph) -> list[Any]:
    """The same of a graph of ours."""
    places = {op: i for i, op in enumerate(graph)}
    edges = []
    for then in [*graph, graph]:
        own = then is graph
        values = graph.results if own else then.inputs
        ports = graph.result_ports if own else then.input_ports
        for i, value in enumerate(values):
            if value is not None:
                start = places.get(value.op) if value.op is not graph else None
                end = None if own else places[then]
                attrs = dict(ports[i].edge_attrs)
                edges.append(((start, value.index), (end, i), attrs))
    ends = [(first, then) for then in graph for first in then.control_inputs]
    ends += [(graph, op) for op in graph.inner_control_sources]
    ends += [(op, graph) for op in graph.inner_control_sinks]
    for first, then in ends:
        edge = Edge(ControlPort(first, "out"), ControlPort(then, "in"))
        start, end = ((places.get(op), "^control") for op in (first, then))
        edges.append((start, end, dict(edge.attrs)))
    ops = [expected(op) if isinstance(op, Graph) else facts(op) for op in graph]
    return [facts(graph), ops, edges]


def facts(op: Any) -> list[Any]:
    attrs = {k: v for k, v in op.attrs.items() if k != "default_type_system"}
    inputs = op.parameters if isinstance(op, Graph) else op.input_ports
    names = [[port.name for port in ports] for ports in (inputs, op.outputs)]
    return [op.name, op.type, attrs, *names]


def canonical(found: list[Any]) -> list[Any]:
    head, ops, edges = found
    inner = [canonical(op) if isinstance(op[0], list) else op for op in ops]
    return [head, inner, sorted(edges, key=repr)]


def check(graph: Graph) -> None:
    for form, parse in ((yaml_form, yaml.safe_load), (json_form, json.loads)):
        text = form.dumps_published(graph)
        assert form.loads(text).difference(graph) is None
        assert canonical(read_published(parse(text))) == canonical(expected(graph))


@pytest.mark.parametrize("name", TEXTS)
def test_every_published_example(name: str) -> None:
    graph = yaml_form.loads(TEXTS[name])
    assert isinstance(graph, Graph)
    check(graph)


def generate(seed: int, depth: int = 0) -> Graph:
    """A random graph with control edges, nested graphs, odd and missing names."""
    pick = random.Random(seed)
    graph = Graph(name=pick.choice([None, "net", "a.b", "7", "graph"]), type="Net")
    values: list[Any] = [
        graph.parameter(name=pick.choice([None, f"x{i}", f"in.{i}"])) for i in range(3)
    ]
    for i in range(8):
        inputs = pick.sample(values, pick.randint(0, 3))
        name = pick.choice([None, f"op{i}", f"s/op.{i}", f"{i + 3}", "graph", "net"])
        name = None if name is not None and name in graph else name
        if depth < 2 and i == 4:
            inner = generate(seed + 100, depth + 1)
            inner.name = name
            op: Any = graph.add_graph(inner, pick.sample(values, 3))
        else:
            attrs = {"k": pick.choice([1, 0.5, "yes", [1, [2]], {"a": None}])}
            op = graph.add("T", inputs, attrs, name=name, outputs=pick.randint(1, 2))
            if pick.random() < 0.3:
                graph.control(graph, op)
        if i and pick.random() < 0.5:
            graph.control(next(iter(graph)), op, {"why": i})
        values.extend(op.outputs)
    for value in pick.sample(values, 2):
        graph.result(value, pick.choice([None, "y", "0"]))
    return graph


@pytest.mark.parametrize("seed", range(40))
def test_generated_graphs(seed: int) -> None:
    check(generate(seed))


def assert_refused(graph: Graph, *words: str) -> None:
    with pytest.raises(FormatError) as caught:
        yaml_form.dumps_published(graph)
    for word in (*words, "schema='published'"):
        assert word in str(caught.value)


def test_what_the_schema_cannot_hold_names_its_op() -> None:
    graph = Graph(name="net")
    op = graph.add("Cast", [], {"to": DType("float32")}, name="cast")
    assert_refused(graph, "cast", "'to'", "dtype")
    op.attrs["to"] = "float32"
    check(graph)
    op.set_body("then", Graph())
    assert_refused(graph, "cast", "bodies", "inline")


def test_a_namespace_of_one_op_is_refused() -> None:
    graph = Graph("amanda/std/1", name="net")
    check_namespace = yaml_form.loads(yaml_form.dumps_published(graph))
    assert check_namespace.namespace == "amanda/std/1"
    graph.add("Relu", [], name="far", namespace="amanda/onnx/18")
    assert_refused(graph, "far", "namespace")


def test_a_value_of_an_edge_is_refused_with_its_op() -> None:
    graph = Graph(name="net")
    op = graph.add("T", [graph.parameter(name="x")], name="reader")
    op.input_ports[0].edge_attrs["kind"] = DType("int8")
    assert_refused(graph, "'reader'", "dtype")


def test_json_refuses_what_it_escapes() -> None:
    graph = Graph(name="net")
    graph.add("T", [], {"$k": 1}, name="dollar")
    check_yaml = yaml_form.loads(yaml_form.dumps_published(graph))
    assert check_yaml.difference(graph) is None
    with pytest.raises(FormatError, match="dollar"):
        json_form.dumps_published(graph)


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_the_option_of_save(tmp_path: Path, suffix: str) -> None:
    graph, path = generate(1), tmp_path / f"g.{suffix}"
    amanda.save(graph, path, schema="published")
    assert "amanda" not in yaml.safe_load(path.read_text())
    assert amanda.load(path).difference(graph) is None
    with pytest.raises(UsageError, match="exact or published"):
        amanda.save(graph, path, schema="other")
    with pytest.raises(AmandaError, match="schema"):
        amanda.save(graph, tmp_path / "g.amtxt", schema="published")
