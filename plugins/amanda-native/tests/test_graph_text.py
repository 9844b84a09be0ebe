"""The JSON that libraries get, compared with golden files and the schema.

python plugins/amanda-native/tests/test_graph_text.py   writes the golden files
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import amanda
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda_native import GRAPH_SCHEMA
from amanda_native.graph_text import graph_text, op_text

GOLDENS = Path(__file__).with_name("goldens")
SCHEMA = json.loads(GRAPH_SCHEMA.read_text("utf-8"))


def convolution() -> Graph:
    """Named ops, weights, attributes that are lists, a symbolic dim."""
    graph = Graph("amanda/std/1", name="net")
    x = graph.parameter(amanda.parse_type("float32[n, 3, 8, 8]"), "x")
    weight = Tensor.of(np.ones((4, 3, 3, 3), "float32"))
    held = graph.constant(weight, "layer.weight").output
    attrs = {"padding": [[1, 1], [1, 1]], "strides": [2, 2], "x-note": "mine"}
    y = graph.add("conv", [x, held], attrs, name="layer.conv").output
    y.type = amanda.parse_type("float32[n, 4, 4, 4]")
    kind = {"dtype": amanda.types.int32}
    graph.result(graph.add("astype", [y], kind, name="cast").output, "y")
    graph.result(held, "w")
    return graph


def computed_shape() -> Graph:
    """Values without types, a shape argument that is computed, omitted inputs."""
    graph = Graph("amanda/std/1")
    x, sizes = graph.parameter(name="x"), graph.parameter(name="sizes")
    twice = graph.add("add", [sizes, sizes]).output
    y = graph.add("reshape", [x, twice]).output
    low = graph.constant(Tensor.of([float("-inf")], "float32")).output
    graph.result(graph.add("pad", [y, None, low], {"pads": [[1, 0]]}).output)
    return graph


def branches() -> Graph:
    """An op with bodies, one of which reads a value of the graph around it."""
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[2]"), "x")
    flag = graph.parameter(amanda.parse_type("bool[]"), "flag")
    square = graph.add("multiply", [x, x], name="square").output
    then, otherwise = Graph(outer=graph), Graph(outer=graph)
    v = then.parameter(name="v")
    then.result(then.add("add", [v, square], name="sum").output)
    otherwise.result(otherwise.parameter(name="v"))
    bodies = {"then": then, "otherwise": otherwise}
    graph.result(graph.add("if", [flag, x], bodies=bodies).output)
    return graph


GRAPHS: dict[str, Callable[[], Graph]] = {
    "convolution": convolution,
    "computed_shape": computed_shape,
    "branches": branches,
}


def texts() -> dict[str, str]:
    """The text of each golden file."""
    found = {name: graph_text(make())[0] for name, make in GRAPHS.items()}
    found["one_op"] = op_text(convolution()["layer.conv"])
    return found


@pytest.mark.parametrize("name", [*GRAPHS, "one_op"])
def test_the_json_is_that_of_the_golden_file(name: str) -> None:
    text = texts()[name]
    assert text == (GOLDENS / f"{name}.json").read_text("utf-8")
    jsonschema.validate(json.loads(text), SCHEMA)


def test_every_golden_file_is_compared() -> None:
    assert {file.stem for file in GOLDENS.iterdir()} == texts().keys()


def test_weights_are_by_index() -> None:
    graph = convolution()
    text, weights = graph_text(graph)
    assert [tuple(weight.shape) for weight in weights] == [(4, 3, 3, 3)]
    assert "data" not in text
    assert graph["layer.conv"].attrs["x-note"] == "mine"  # the graph is as it was


def _without_weight(document: Any) -> None:
    del document["graph"]["ops"][0]["attrs"]["value"]["$tensor"]["weight"]


def _with_name(document: Any) -> None:
    document["graph"]["ops"][1]["name"] = "conv"


def _with_named_edge(document: Any) -> None:
    document["graph"]["edges"][0] = "x -> conv.0"


@pytest.mark.parametrize("change", [_without_weight, _with_name, _with_named_edge])
def test_the_schema_refuses_other_documents(change: Callable[[Any], None]) -> None:
    document = json.loads(texts()["convolution"])
    change(document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


if __name__ == "__main__":
    for name, text in texts().items():
        (GOLDENS / f"{name}.json").write_text(text, "utf-8")
