"""The generated message tables, compared with the onnx package."""

from __future__ import annotations

import onnx
from onnx import helper

from amanda.formatkit import schema_of_descriptor
from amanda_onnx.domains import IR_OF_OPSET
from amanda_onnx.format import node_reader, reader
from amanda_onnx.format.attribute_reader import KINDS
from amanda_onnx.format.element_types import DTYPES
from amanda_onnx.format.messages import SCHEMA


def test_every_field_is_declared_as_in_the_onnx_package():
    theirs = schema_of_descriptor(onnx.ModelProto.DESCRIPTOR)
    assert set(SCHEMA.messages) == set(theirs.messages)
    for name, message in SCHEMA.messages.items():
        ours = {k: f._replace(optional=False) for k, f in message.fields.items()}
        assert ours == theirs[name].fields, name
    for name, values in theirs.enums.items():
        assert SCHEMA.enums[name] == values


def test_kinds_and_element_types_are_those_of_onnx():
    kinds = dict(onnx.AttributeProto.AttributeType.items())
    ours = {name: number for number, (name, _) in KINDS.items()}
    assert {"UNDEFINED": 0, **ours} == kinds
    codes = set(onnx.TensorProto.DataType.values()) - {0}
    assert codes == set(DTYPES)
    for code, dtype in DTYPES.items():
        if dtype.name != "string":
            assert helper.tensor_dtype_to_np_dtype(code) == dtype.numpy


def test_ir_versions_are_those_of_the_releases():
    first: dict[int, int] = {}
    for _, ir, opset, *_ in helper.VERSION_TABLE:
        first.setdefault(opset, ir)
    assert {k: v for k, v in IR_OF_OPSET.items() if k in first} == first


def test_the_fields_read_in_line_are_those_of_the_table():
    node = {name: field.number for name, field in SCHEMA["NodeProto"].fields.items()}
    inline = {
        "input": node_reader._INPUT,
        "output": node_reader._OUTPUT,
        "name": node_reader._NAME,
        "op_type": node_reader._TYPE,
        "attribute": node_reader._ATTRIBUTE,
        "domain": node_reader._DOMAIN,
    }
    assert {name: node[name] << 3 | 2 for name in inline} == inline
    assert SCHEMA["GraphProto"].fields["node"].number == reader._NODES_OF_GRAPH
    assert SCHEMA["FunctionProto"].fields["node"].number == reader._NODES_OF_FUNCTION
