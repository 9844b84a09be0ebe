"""Records with anything in them, as text forms may have: refused, or readable."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError, FormatError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda_onnx.format import Format
from amanda_onnx.format.model_metadata import MODEL_RECORDS, NODE_RECORDS

CODEC = Format()
VALUES = (
    7, -1, 1 << 70, True, 1.5, None, "", "text", b"", b"\xff\xff", b"\x08\x01", [], [3],
    ["a"], [b"\xff"], [b"\x08\x01"], [["a", "b"]], [["a"]], {}, {"a": 1}, {"a": "b"},
    {"a": b"\x08"}, {1: "b"}, {"value": {"name": 3}}, {"value": {"data": "raw_data"}},
    {"axis": "INTS"}, Tensor.of([1.0]), [Tensor.of([1.0])], {"value": [{"rest": 5}]},
)  # fmt: skip


def model() -> Graph:
    graph = Graph("amanda/onnx/18", name="g")
    x = graph.parameter(amanda.parse_type("float32[3]"), "x")
    weight = graph.constant(Tensor.of(np.float32([1, 2, 3])), "w")
    total = graph.add("Add", [x, weight.output], name="a")
    last = graph.add("Softmax", [total.output], {"axis": 0}, name="s")
    graph.result(last.output, "y")
    return graph


def holders(graph: Graph) -> dict[str, object]:
    return {
        "graph": graph, "op": graph["s"], "constant": graph["w"],
        "value": graph["a"].output, "input": graph.parameters[0],
    }  # fmt: skip


FIELDS = [
    *((MODEL_RECORDS, "graph", name) for name in MODEL_RECORDS.kinds),
    *(
        (NODE_RECORDS, at, name)
        for name in NODE_RECORDS.kinds
        for at in holders(model())
    ),
]


@pytest.mark.parametrize(("records", "at", "name"), FIELDS)
def test_a_field_of_any_kind_is_refused_or_written_readably(records, at, name):
    refused = 0
    for value in VALUES:
        graph = model()
        holders(graph)[at].attrs[records.key] = {name: value}
        try:
            raw = CODEC.dumps(graph)
        except AmandaError:
            refused += 1
            continue
        CODEC.read(raw)
    assert refused > len(VALUES) / 2


@pytest.mark.parametrize("value", [5, "text", [1], None])
def test_a_record_is_a_dict(value):
    graph = model()
    graph["s"].attrs[NODE_RECORDS.key] = value
    with pytest.raises(FormatError):
        CODEC.dumps(graph)


def test_a_field_names_its_op_and_kind():
    graph = model()
    graph["s"].attrs[NODE_RECORDS.key] = {"doc_string": 7}
    with pytest.raises(FormatError) as caught:
        CODEC.dumps(graph)
    for part in ("'s'", "'doc_string'", "int 7"):
        assert part in str(caught.value)


def test_recorded_fields_may_not_repeat_what_the_format_writes():
    graph = model()
    graph["s"].attrs[NODE_RECORDS.key] = {"rest": b'"\x03Abs'}
    with pytest.raises(FormatError, match="which the format writes"):
        CODEC.dumps(graph)


@pytest.mark.parametrize("kind", ["", None])
def test_an_op_without_a_type_is_not_written(kind):
    graph = model()
    graph.add(kind, [graph.parameters[0]], name="odd")
    with pytest.raises(FormatError, match="without a type"):
        CODEC.dumps(graph)
