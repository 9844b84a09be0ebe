"""What every plug-in and every mapping must do, on this one."""

from __future__ import annotations

import numpy as np

import amanda
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.testing import MappingSample, MappingSuite, PluginSuite
from amanda.types import parse_type

STD = "amanda/std/1"


def layer() -> Graph:
    """Two layers of the framework."""
    graph = Graph("amanda/template/2")
    x = graph.parameter(parse_type("float32[n, 2]"), name="x")
    w, b = (graph.constant(Tensor.of(a)).output for a in (np.eye(2, dtype="f4"), ONES))
    y = graph.add("Relu", [graph.add("Dense", [x, w, b]).output]).output
    y = graph.add("Clamp", [graph.add("Add", [y, y]).output], {"low": 0.0, "high": 6.0})
    graph.result(y.output, "y")
    return graph


ONES = np.ones(2, "float32")


def hub_layer() -> Graph:
    """The same in the hub."""
    return amanda.convert(layer(), STD)


class TestPlugin(PluginSuite):
    dist = "amanda-template"


class TestMapping(MappingSuite):
    mapping = "template-std"

    def samples(self):
        return {
            "to_hub": lambda: MappingSample(layer(), STD),
            "from_hub": lambda: MappingSample(hub_layer(), "amanda/template/2"),
        }


def test_the_numbers() -> None:
    feed = np.float32([[1, -3], [5, 0]])
    [found] = amanda.run(layer(), [feed], backend="numpy").values()
    np.testing.assert_array_equal(found, [[4, 0], [6, 2]])


def test_there_and_back() -> None:
    back = amanda.convert(hub_layer(), "amanda/template/2")
    types = [op.type for op in back if op.type != "constant"]
    assert types == ["Dense", "Relu", "Add", "Clamp"]
