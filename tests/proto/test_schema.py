"""graph.proto is the one declaration: all code that knows numbers agrees with it."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from amanda.errors import FormatError
from amanda.files.binary import attributes, decoder, encoder, graph_decoder, messages
from amanda.files.binary.messages import CODEC, PROTO, message_classes
from amanda.formatkit import ProtoField, file_descriptor
from amanda.formatkit.scalars import encode_utf8

FIELDS = {name: message.fields for name, message in CODEC.schema.messages.items()}


def number(message: str, field: str) -> int:
    return FIELDS[message][field].number


def test_every_class_has_the_fields_of_its_message() -> None:
    written_elsewhere = {"Model", "Attr", "Tensor"}
    assert set(CODEC.classes) == set(FIELDS) - written_elsewhere
    for name, kind in CODEC.classes.items():
        assert [item.name for item in fields(kind)] == list(FIELDS[name])
        for item in fields(kind):
            spec = FIELDS[name][item.name]
            assert typed(spec) == item.type, f"{name}.{item.name}"


def typed(spec: ProtoField) -> str:
    """What a field should be in Python."""
    if spec.type == "Attr":
        return "Attrs"
    plain = {"uint64": "int", "sint64": "int", "string": "str", "double": "float"}
    kind = plain.get(spec.type, spec.type)
    if spec.repeated:
        return f"list[{kind}]"
    return f"{kind} | None" if spec.optional or kind in CODEC.classes else kind


def test_numbers_of_attributes() -> None:
    kinds = {"uint64": 0, "sint64": 0, "bool": 0, "double": 1, "string": 2, "bytes": 2}
    for name, spec in FIELDS["Attr"].items():
        kind = 2 if spec.repeated else kinds[spec.type]
        assert getattr(attributes, name.upper()) == spec.number << 3 | kind, name


def test_numbers_in_line() -> None:
    for name in ("type", "name", "inputs", "outputs", "attr", "namespace"):
        field = "attrs" if name == "attr" else name
        kind = 0 if name in ("type", "namespace") else 2
        tag = number("Op", field) << 3 | kind
        assert getattr(graph_decoder, f"_{name.upper()}") == tag
        assert getattr(encoder, f"_{name.upper()}") == bytes([tag])
    assert number("Graph", "ops") == graph_decoder.OPS
    assert bytes([number("Graph", "ops") << 3 | 2]) == encoder._OP
    assert number("Graph", "ops") == max(f.number for f in FIELDS["Graph"].values())
    for name in ("strings", "types", "tensors", "graphs"):
        assert getattr(encoder, f"_{name.upper()}") == number("Model", name)
    assert [number("Tensor", name) for name in ("dtype", "shape")] == [1, 2]
    for name in ("key", "data", "splat"):
        assert getattr(decoder, f"_{name.upper()}") == number("Tensor", name)
    assert [number("Model", name) for name in ("magic", "major", "minor")] == [1, 2, 3]


def test_protoc_reads_it_as_we_do(tmp_path: Path) -> None:
    if find_spec("grpc_tools") is None:
        pytest.skip("grpcio-tools not there")
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    out = tmp_path / "set"
    folder = f"-I{PROTO.parent}"
    protoc = (sys.executable, "-m", "grpc_tools.protoc")  # not beside other libraries
    arguments = (folder, f"--descriptor_set_out={out}", PROTO.name)
    subprocess.run([*protoc, *arguments], check=True)
    (made,) = FileDescriptorSet.FromString(out.read_bytes()).file
    assert file_descriptor(CODEC.schema, PROTO.name) == made


def random_message(name: str, choose: random.Random) -> tuple[Any, Any]:
    """The same message as ours and as the protobuf library's."""
    ours, theirs = CODEC.classes[name](), message_classes()[name]()
    for field, (_, _, kind, many, *_) in FIELDS[name].items():
        if kind == "Attr" or choose.random() < 0.4:
            continue
        for _ in range(choose.randint(1, 3) if many else 1):
            if kind in CODEC.classes:
                mine, other = random_message(kind, choose)
            else:
                mine = other = random_scalar(kind, choose)
            if many:
                getattr(ours, field).append(mine)
            else:
                setattr(ours, field, mine)
            if not many and kind in CODEC.classes:
                getattr(theirs, field).CopyFrom(other)
            elif many:
                getattr(theirs, field).append(other)
            else:
                setattr(theirs, field, other)
    return ours, theirs


def random_scalar(kind: str, choose: random.Random) -> Any:
    if kind == "string":
        return choose.choice(["", "a", "Ωmega", "x" * 200])
    if kind == "bool":
        return choose.random() < 0.5
    if kind == "double":
        return choose.choice([0.0, 1.5, -1e-300, float("inf")])
    low = -(2**63) if kind == "sint64" else 0
    return choose.choice([0, 1, 127, 128, 2**40, low, 2**63 - 1])


@pytest.mark.parametrize("name", CODEC.classes)
def test_messages_are_those_of_the_protobuf_library(name: str) -> None:
    choose = random.Random(name)
    for _ in range(60):
        ours, theirs = random_message(name, choose)
        raw = theirs.SerializeToString(deterministic=True)
        assert messages.write(ours) == raw
        assert messages.read(CODEC.classes[name], b"??" + raw, 2, len(raw) + 2) == ours


def test_numbers_need_not_be_packed() -> None:
    raw = b"\x22\x02\x01\x02\x20\x03"  # marks of a Parameter: two packed, one not
    assert messages.read(messages.Parameter, raw, 0, len(raw)).marks == [1, 2, 3]


def test_unknown_fields_are_ignored() -> None:
    raw = b"\x08\x05" + b"\xfa\x7f\x03abc" + b"\x10\x06"
    assert messages.read(messages.Capture, raw, 0, len(raw)) == messages.Capture(5, 6)


def test_a_field_of_another_kind() -> None:
    with pytest.raises(FormatError) as caught:
        messages.read(messages.Capture, b"\x0a\x01x", 0, 3, base=40)
    assert str(caught.value) == (
        "the field graph of a Capture has another wire type\n  where:    byte 42"
    )


def test_a_text_that_is_none() -> None:
    with pytest.raises(FormatError, match="a string is not UTF-8"):
        messages.read(messages.Import, b"\x0a\x01\xff", 0, 3)
    with pytest.raises(FormatError, match="half of a surrogate pair"):
        encode_utf8("\ud800")
