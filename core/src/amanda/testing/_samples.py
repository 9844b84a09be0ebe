"""Small graphs with all features, for formats that support any graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from amanda.graph import Graph
from amanda.types import TensorType, parse_type

NAMESPACE: Final = "amanda/sample/1"


def empty_graph() -> Graph:
    return Graph()


def chain_graph() -> Graph:
    """Named and unnamed ops, types with static, symbolic and unknown dims."""
    graph = Graph(NAMESPACE, name="chain")
    x = graph.parameter(parse_type("float32[batch, 3, ?]"), name="x")
    first = graph.add("scale", [x], {"by": 2.5, "axes": [0, -1]}, name="first")
    second = graph.add("split", [first.output], outputs=2)
    first.output.type = parse_type("float32[...]")
    graph.result(second.outputs[1], "y")
    graph.result(second.outputs[0])
    return graph


def with_attributes() -> Graph:
    """Attributes of every kind, on op, port and graph."""
    graph = Graph(NAMESPACE, name="attributes")
    graph.attrs["producer"] = "sample é ✓ \u0000"
    values = {
        "none": None,
        "yes": True,
        "int": -(2**63),
        "float": 0.1,
        "huge": float("inf"),
        "text": "yes: [no] #1\n",
        "bytes": bytes(range(256)),
        "list": [1, 2.0, "3", [True, None]],
        "map": {"a": 1, "name": "b"},
        "name": "a framework's own",
        "type": parse_type("int64[2]"),
    }
    op = graph.add("many", [], values, name="many")
    op.output.attrs["layout"] = "NC*"
    graph.result(op.output, "y")
    return graph


def with_bodies() -> Graph:
    """A nested graph, bodies with captures, a control edge, a shared function."""
    graph = Graph(NAMESPACE, name="nested")
    x = graph.parameter(name="x")
    inner = Graph(name="inner")
    inner.result(inner.add("negate", [inner.parameter(name="a")], name="x").output)
    part = graph.add_graph(inner, [x])
    then, otherwise = Graph(outer=graph), Graph(outer=graph)
    then.result(then.add("add", [x, part.outputs[0]], name="sum").output)
    otherwise.result(x)
    bodies = {"then": then, "else": otherwise}
    choice = graph.add("if", [x], name="choice", bodies=bodies)
    graph.control(part, choice)
    twice = Graph(name="twice")
    value = twice.parameter(name="v")
    twice.result(twice.add("add", [value, value]).output)
    graph.add_function("twice", twice)
    graph.result(choice.output, "y")
    return graph


def with_weights() -> Graph:
    """Constants of several dtypes, one of them used twice."""
    import numpy as np

    from amanda.tensors import Tensor

    graph = Graph(NAMESPACE, name="weights")
    arrays = {
        "f32": np.arange(6, dtype="float32").reshape(2, 3),
        "i64": np.array([-1, 2**62], "int64"),
        "flags": np.array([True, False]),
        "scalar": np.array(1.5, "float16"),
        "nothing": np.zeros((0, 4), "uint8"),
    }
    for name, array in arrays.items():
        value = graph.constant(Tensor.of(array), name=name).output
        assert isinstance(value.type, TensorType)
        graph.result(graph.add("use", [value, value]).output, f"{name}_used")
    return graph


SAMPLES: Final[Mapping[str, Callable[[], Graph]]] = MappingProxyType(
    {
        "empty": empty_graph,
        "chain": chain_graph,
        "attributes": with_attributes,
        "nested": with_bodies,
        "weights": with_weights,
    }
)
