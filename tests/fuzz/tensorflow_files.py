"""GraphDefs, binary and as text: one for each of many ops, and one with functions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzz.graph_files import change_text
from fuzz.messages import change_message
from fuzz.readers import Mutant, Reader
from fuzz.stages import try_stages
from routes.nd4j.specimens import specimens

import amanda
from amanda.errors import AmandaError
from amanda.graph import Graph, Op
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, TensorType

__all__ = ["READERS"]

_FLOAT = DType("float32")
_STEP = 5
"""Every which op of the dictionary has a file."""


def _op_graph(op: Op) -> Graph:
    """A graph of one op that reads placeholders."""
    graph = Graph(op.graph.namespace)
    inputs = []
    for value in op.inputs:
        assert value is not None
        dtype = value.type.dtype if isinstance(value.type, TensorType) else _FLOAT
        attrs = {"dtype": dtype, "shape": None}
        source = graph.add("Placeholder", attrs=attrs)
        source.output.type = TensorType(dtype)
        inputs.append(source.output)
    graph.add(op.type, inputs, dict(op.attrs), outputs=len(op.outputs))
    return graph


def _graph_with_functions() -> Graph:
    """A call of a function behind a product and a control edge."""
    graph = Graph(amanda.namespace("tensorflow").name)
    x = graph.add("Placeholder", attrs={"dtype": _FLOAT, "shape": None}, name="x")
    weight = graph.constant(Tensor.of([[1.0, 2.0], [3.0, 4.0]], "float32"), "w")
    weight.output.type = weight.attrs["value"].type_with_content()
    attrs: dict[str, Any] = {"transpose_a": False, "transpose_b": True, "T": _FLOAT}
    y = graph.add("MatMul", [x.output, weight.output], attrs, name="y")
    graph.control(graph.add("NoOp", outputs=0, name="first"), y)
    body = graph.add_function("twice", Graph(graph.namespace, "twice"))
    inner = body.parameter(TensorType(_FLOAT), "x")
    add = body.add("AddV2", [inner, inner], {"T": _FLOAT}, name="add")
    body.result(add.output, "y")
    attrs = {"Tin": [_FLOAT], "Tout": [_FLOAT], "f": FunctionRef("twice")}
    attrs |= dict.fromkeys(("config", "config_proto", "executor_type"), "")
    graph.add("PartitionedCall", [y.output], attrs, name="call")
    for op in [*graph.ops, *body.ops]:
        for port in op.outputs:
            port.type = port.type or TensorType(_FLOAT)
    return graph


@cache
def _seeds() -> tuple[Mutant, ...]:
    dictionary: Any = amanda.namespace("tensorflow")
    graphs = [_graph_with_functions()] * 20
    for name in sorted(dictionary)[::_STEP]:
        entry = dictionary[name]
        functions = any("function" in attr.kind for attr in entry.attrs)
        if not functions and not any(port.ref for port in entry.inputs):
            graphs.append(_op_graph(next(specimens(dictionary, entry, ())).op))
    found = []
    with TemporaryDirectory() as folder:
        for i, graph in enumerate(graphs):
            path = Path(folder, "model.pbtxt" if i % 2 else "model.pb")
            try:
                amanda.save(graph, path)
            except AmandaError:
                continue  # an attribute that its definition leaves open
            found.append(Mutant(path.suffix[1:], path.read_bytes()))
    assert len(found) > 200
    return tuple(found)


def _change(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    from amanda_tf.messages import SCHEMA

    if data.lstrip().startswith((b"node {", b"library {", b"versions {")):
        return change_text(data, [data], choose)
    return change_message(SCHEMA, "GraphDef", data, choose)


READERS = [Reader("tensorflow", 10, _seeds, _change, try_stages)]
