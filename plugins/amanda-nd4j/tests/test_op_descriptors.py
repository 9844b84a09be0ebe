"""Files of op descriptors, as text and binary: read, written, and damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amanda.errors import FormatError
from amanda_nd4j.namespace import definition_of, descriptors
from amanda_nd4j.op_descriptors import read, write
from amanda_nd4j.textproto import parse_text, print_text

TEXT = """\
opList {
  name: "conv"
  argDescriptor {
    name: "outputs"
    argType: OUTPUT_TENSOR
  }
  argDescriptor {
    name: "a \\"b\\" \\\\ \\n c"
    doubleValue: -0.5
    argType: DOUBLE
    argIndex: 1
    argOptional: true
  }
  opDeclarationType: OP_IMPL
}
opList {
  name: "sum"
}
"""


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    file = tmp_path / "ops.pbtxt"
    file.write_text(TEXT)
    return file


def test_both_forms_have_the_same_ops(text_file: Path, tmp_path: Path) -> None:
    binary, again = tmp_path / "ops.pb", tmp_path / "again.pbtxt"
    write(read(text_file), binary)
    assert read(binary) == read(text_file)
    assert descriptors(binary) == descriptors(text_file)
    write(read(binary), again)
    assert again.read_text() == TEXT


def test_a_binary_file_by_its_bytes(tmp_path: Path) -> None:
    """The numbers are those of Deeplearning4j: argType is 10, argIndex is 11."""
    file, again = tmp_path / "ops.pb", tmp_path / "again.pb"
    argument = b"\x0a\x01k\x50\x03\x58\x02"
    op = b"\x0a\x03add\x12" + bytes([len(argument)]) + argument + b"\x18\x09"
    file.write_bytes(b"\x0a" + bytes([len(op)]) + op)
    (found,) = descriptors(file)
    assert (found.name, found.declared) == ("add", "BROADCASTABLE_OP_IMPL")
    assert [(each.kind, each.place) for each in found.arguments] == [("INT64", 2)]
    assert [attr.name for attr in definition_of(found).attrs] == ["k"]
    write(read(file), again)
    assert again.read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x0a\x7f", "no op descriptors"),
        (b"", "no op descriptors"),
        (b"\x0a\x03\xa2\x06\x00", "not known"),
        (b"\x0a\x05\x42\x03\x0a\x01\xff", "not known"),
    ],
)
def test_damaged_files(tmp_path: Path, data: bytes, message: str) -> None:
    file = tmp_path / "ops.pb"
    file.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        descriptors(file)
    assert message in str(caught.value)
    assert "ops.pb" in str(caught.value)


def test_fields_that_no_descriptor_has_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="weight"):
        write(parse_text("op { weight: 2 }")["op"], tmp_path / "ops.pbtxt")
    assert not (tmp_path / "ops.pbtxt").exists()


def test_text_that_is_printed_is_parsed() -> None:
    message = parse_text('a { b: "x\\ty" b: "\u00e9" c: WORD d: false } a { e: 1.5 }')
    assert parse_text(print_text(message)) == message


@pytest.mark.parametrize("state", ["2021", "2025"])
def test_published_files(tmp_path: Path, state: str) -> None:
    """The ops are equal in both forms; the text of 2021 is written as it was.

    That of 2025 was edited by hand: some lines are not indented as a printer does.
    """
    root = os.environ.get("AMANDA_TEST_DATA")
    file = Path(root or "", "dl4j", state, "nd4j-op-def.pbtxt")
    if root is None or not file.is_file():
        pytest.skip("needs dl4j in AMANDA_TEST_DATA")
    binary, again = tmp_path / "ops.pb", tmp_path / "again.pbtxt"
    write(read(file), binary)
    assert descriptors(binary) == descriptors(file)
    write(read(binary), again)
    assert read(again) == read(file)
    assert (again.read_text() == file.read_text()) == (state == "2021")
