"""What every plug-in and format must do, on GraphDef."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import amanda
from amanda.graph import Graph
from amanda.tensors import FunctionRef, Tensor
from amanda.testing import FormatSuite, PluginSuite
from amanda.types import DType, TensorType

FLOAT = DType("float32")


def small() -> Graph:
    """A matrix product behind a control edge."""
    graph = Graph(amanda.namespace("tensorflow").name)
    x = graph.parameter(TensorType(FLOAT), "x")
    weight = graph.constant(Tensor.of([[1.0, 2.0], [3.0, 4.0]], "float32"), "w")
    weight.output.type = weight.attrs["value"].type_with_content()
    attrs = {"transpose_a": False, "transpose_b": True, "T": FLOAT}
    y = graph.add("MatMul", [x, weight.output], attrs, name="y")
    y.output.type = TensorType(FLOAT)
    graph.control(graph.add("NoOp", outputs=0, name="first"), y)
    return graph


def with_function() -> Graph:
    """A call of a function of the library."""
    graph = small()
    body = graph.add_function("twice", Graph(graph.namespace, "twice"))
    x = body.parameter(TensorType(FLOAT), "x")
    add = body.add("AddV2", [x, x], {"T": FLOAT}, name="add")
    add.output.type = TensorType(FLOAT)
    body.result(add.output, "y").type = None
    call = graph.add(
        "PartitionedCall", [graph.ops["y"].output],
        {"Tin": [FLOAT], "Tout": [FLOAT], "f": FunctionRef("twice"), "config": "",
         "config_proto": "", "executor_type": ""},
        name="call",
    )  # fmt: skip
    call.output.type = TensorType(FLOAT)
    return graph


class TestPlugin(PluginSuite):
    dist = "amanda-tf"


class TestFormat(FormatSuite):
    format = "tensorflow"
    late = ("numpy", "google.protobuf", "tensorflow")

    def samples(self) -> Mapping[str, Callable[[], Graph]]:
        return {"small": small}
