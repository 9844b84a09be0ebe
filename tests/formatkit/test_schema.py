"""Schemas against protoc and the protobuf library."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from amanda.errors import FormatError
from amanda.formatkit import (
    UNKNOWN_FIELDS,
    ProtoSchema,
    file_descriptor,
    message_classes,
    parse_text_format,
    print_text_format,
)

PROTO3 = """
syntax = "proto3";  // one of everything
package some.where;
import "other.proto";
option java_package = "x";
/* a comment
   of two lines */
enum Color { option allow_alias = true; RED = 0; BLUE = 1; NAVY = 1; }
message Outer {
  reserved 100 to 110;
  message Inner { int32 x = 1; Outer outer = 2; }
  enum Kind { NONE = 0; SOME = -1; }
  repeated Inner inner = 1;
  map<string, Inner> by_name = 2;
  repeated int64 packed = 3;
  repeated double plain = 4 [packed = false];
  optional string maybe = 5;
  oneof choice { Color color = 6; .some.where.Outer.Kind kind = 7; bytes raw = 8; }
  sint32 zigzag = 9;
  fixed64 fixed = 10;
  bool flag = 11;
  float real = 12;
}
"""
PROTO2 = """
package old;
message Old {
  required string name = 1;
  repeated int32 loose = 2;
  repeated float tight = 3 [packed = true];
}
"""


@pytest.mark.parametrize("text", [PROTO3, PROTO2])
def test_descriptors_are_those_of_protoc(text: str, tmp_path: Path) -> None:
    if find_spec("grpc_tools") is None:
        pytest.skip("grpcio-tools not there")
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    text = text.replace('import "other.proto";', "").replace("required", "optional")
    text = text.replace('option java_package = "x";', "")
    (tmp_path / "a.proto").write_text(text)
    out = tmp_path / "set"
    arguments = (f"-I{tmp_path}", f"--descriptor_set_out={out}", "a.proto")
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments], check=True)
    (theirs,) = FileDescriptorSet.FromString(out.read_bytes()).file
    ours = file_descriptor(ProtoSchema.parse(text), "a.proto")
    for file in (ours, theirs):
        for message in file.message_type:
            for field in message.field:
                field.options.Clear()
                field.ClearField("options")
            message.ClearField("reserved_range")
    ours_text, theirs_text = (sorted(str(file).splitlines()) for file in (ours, theirs))
    assert ours_text == theirs_text


def test_every_type_is_read_and_written() -> None:
    schema = ProtoSchema.parse(PROTO3)
    theirs = message_classes(schema)["Outer"]()
    theirs.inner.add(x=-5)
    theirs.by_name["a"].x = 1 << 30
    theirs.packed.extend([1, -1, 1 << 62])
    theirs.plain.extend([0.5, -1e300])
    theirs.maybe = ""
    theirs.kind = -1
    theirs.zigzag, theirs.fixed, theirs.flag, theirs.real = -7, 1 << 63, True, 1.5
    raw = theirs.SerializeToString(deterministic=True)
    fields = schema.read("Outer", raw)
    writer = schema.writer("Outer")
    for name, value in fields.items():
        spans = name in ("inner", "by_name")
        if spans:
            writer.put_all(name, [raw[start:end] for start, end in value])
        elif isinstance(value, list):
            writer.put_all(name, value)
        else:
            writer.put(name, value)
    assert writer.done() == raw
    assert {name: fields[name] for name in ("zigzag", "fixed", "flag", "real")} == {
        "zigzag": -7,
        "fixed": 1 << 63,
        "flag": True,
        "real": 1.5,
    }
    assert fields["packed"] == [1, -1, 1 << 62]
    assert fields["kind"] == -1


def test_unknown_fields_and_other_wire_types() -> None:
    schema = ProtoSchema.parse(PROTO3)
    fields = schema.read("Outer", b"\x58\x01" + b"\xfa\x7f\x01x" + b"\x18\x05\x18\x06")
    assert fields == {"flag": True, UNKNOWN_FIELDS: b"\xfa\x7f\x01x", "packed": [5, 6]}
    assert schema.raw_fields(
        "Outer", b"\x58\x01\x18\x05", (0, 4), without=["flag"]
    ) == (b"\x18\x05")
    for raw, why in {
        b"\x5a\x01x": "the field flag of a Outer has another wire type",
        b"\x22\x07" + bytes(7): "a packed list ends inside a number",
        b"\x2a\x01\xff": "a string is not UTF-8",
    }.items():
        with pytest.raises(FormatError, match=why):
            schema.read("Outer", raw)


def test_text_format() -> None:
    schema = ProtoSchema.parse(PROTO3)
    raw = schema.writer("Outer").put("flag", True).put("color", 1).done()
    text = print_text_format(schema, "Outer", raw)
    assert text == "flag: true\ncolor: BLUE\n" or "color: BLUE" in text
    assert schema.read("Outer", parse_text_format(schema, "Outer", text)) == {
        "flag": True,
        "color": 1,
    }


@pytest.mark.parametrize(
    "text",
    ["message A { Nowhere x = 1; }", "message A { int32 x }", "message A { x = 1"],
)
def test_text_that_is_no_schema(text: str) -> None:
    with pytest.raises(FormatError, match=r"\.proto file"):
        ProtoSchema.parse(text)
