"""What is declared once, against what the onnx package declares."""

from __future__ import annotations

import onnx
from onnx import helper

from amanda_onnx.domains import IR_OF_OPSET
from amanda_onnx.format import node_reader, reader
from amanda_onnx.format.attribute_reader import KINDS
from amanda_onnx.format.element_types import DTYPES
from amanda_onnx.format.messages import MESSAGES

LATER = {  # kept as bytes, so their fields are nobody's business here
    "TrainingInfoProto",
    "NodeDeviceConfigurationProto",
    "DeviceConfigurationProto",
}


def descriptors():
    """The message types of onnx.proto by name."""
    found = {}
    waiting = [onnx.ModelProto.DESCRIPTOR]
    while waiting:
        at = waiting.pop()
        if at.name not in found:
            found[at.name] = at
            waiting += [f.message_type for f in at.fields if f.message_type]
    return found


def test_every_field_is_declared_with_its_number_and_kind():
    known = descriptors()
    for name, rows in MESSAGES.items():
        fields = known[name].fields
        theirs = {f.number: (f.name, f.is_repeated) for f in fields}
        numbers = ("ints", "floats", "packed")
        ours = {n: (f.name, f.many or f.kind in numbers) for n, f in rows.items()}
        assert ours == theirs, name
        for field in fields:
            kind = rows[field.number].kind
            if field.message_type and kind != "span":
                assert kind == field.message_type.name
            elif field.type == field.TYPE_STRING:
                assert kind == "text"
            elif field.type in (field.TYPE_INT64, field.TYPE_INT32, field.TYPE_ENUM):
                assert kind in ("int", "ints", "packed")
    used = {f.kind for rows in MESSAGES.values() for f in rows.values()}
    assert used >= LATER
    assert set(known) - set(MESSAGES) >= LATER


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
    node = {field.name: number for number, field in MESSAGES["NodeProto"].items()}
    inline = {
        "input": node_reader._INPUT,
        "output": node_reader._OUTPUT,
        "name": node_reader._NAME,
        "op_type": node_reader._TYPE,
        "attribute": node_reader._ATTRIBUTE,
        "domain": node_reader._DOMAIN,
    }
    assert {name: node[name] << 3 | 2 for name in inline} == inline
    assert MESSAGES["GraphProto"][reader._NODES_OF_GRAPH].name == "node"
    assert MESSAGES["FunctionProto"][reader._NODES_OF_FUNCTION].name == "node"
