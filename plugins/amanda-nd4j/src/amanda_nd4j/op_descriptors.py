"""Files of op descriptors: protocol buffers, as text or binary.

A file that ends with `.pb` is binary; any other is text, as Deeplearning4j publishes
it. `read` and `write` know both, and a file that is read and written again is equal:

    write(read(Path("nd4j-op-def.pbtxt")), Path("nd4j-op-def.pb"))
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from amanda.errors import FormatError
from amanda.formatkit import ProtoSchema, parse_text_format, print_text_format
from amanda_nd4j.textproto import Message, parse_text, print_text

__all__ = ["read", "write"]

_BINARY: Final = ".pb"
_ROOT: Final = "OpDescriptorList"


@cache
def schema() -> ProtoSchema:
    """The messages of the files."""
    return ProtoSchema.load(Path(__file__).with_suffix(".proto"))


def read(file: Path) -> list[Message]:
    """The ops of a file, each with its fields by name."""
    if file.suffix == _BINARY:
        text = _text_of(file.read_bytes(), file)
    else:
        text = file.read_text(encoding="utf-8")
    found = parse_text(text, str(file)).get("opList", [])
    if not found:
        raise FormatError(
            "this file has no op descriptors",
            who=file,
            expected="opList { name: ... argDescriptor { ... } ... }",
        )
    return found


def write(ops: Iterable[Message], file: Path) -> None:
    """Write a file with these ops."""
    text = print_text({"opList": list(ops)})
    data = parse_text_format(schema(), _ROOT, text)
    file.write_bytes(data if file.suffix == _BINARY else text.encode())


def _text_of(data: bytes, file: Path) -> str:
    from google.protobuf.message import DecodeError

    try:
        return print_text_format(schema(), _ROOT, data)
    except DecodeError as error:
        raise FormatError(
            "this file has no op descriptors", who=file,
            expected=f"a binary {_ROOT}, as the suffix {_BINARY} says", got=error,
        ) from error  # fmt: skip
    except FormatError as error:
        raise FormatError(
            "the op descriptors have fields that are not known", who=file, got=error
        ) from error
