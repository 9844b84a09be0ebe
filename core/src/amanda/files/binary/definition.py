"""graph.proto and mapping.proto, read as what they are: the declarations of formats.

The tables of the reader and the writer are made from it, and so are the classes of
`message_classes`. Of the language of .proto files it uses little, and that much is
understood here: one field on a line, in messages that do not nest.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

__all__ = ["MAPPING", "PACKAGE", "PROTO", "Field", "definition", "message_classes"]

PROTO: Final = Path(__file__).with_name("graph.proto")
MAPPING: Final = Path(__file__).with_name("mapping.proto")
PACKAGE: Final = "amanda.v1"

_OPENING = re.compile(r"(message|oneof) (\w+) \{")
_FIELD = re.compile(r"(?:(repeated|optional) )?(\w+) (\w+) = (\d+);")


class Field(NamedTuple):
    """A line of graph.proto."""

    number: int
    kind: str
    repeated: bool
    optional: bool
    oneof: str | None


@cache
def definition(proto: Path = PROTO) -> dict[str, dict[str, Field]]:
    """Every message with its fields.

    >>> definition()["Capture"]["value"].number
    2
    """
    messages: dict[str, dict[str, Field]] = {}
    fields: dict[str, Field] = {}
    oneof: str | None = None
    for line in proto.read_text(encoding="utf-8").splitlines():
        text = line.partition("//")[0].strip()
        if opening := _OPENING.fullmatch(text):
            if opening[1] == "message":
                fields = messages[opening[2]] = {}
            else:
                oneof = opening[2]
        elif text == "}":
            oneof = None
        elif parts := _FIELD.fullmatch(text):
            label, kind, name, number = parts.groups()
            fields[name] = Field(
                int(number), kind, label == "repeated", label == "optional", oneof
            )
    return messages


@cache
def message_classes(proto: Path = PROTO) -> dict[str, type[Any]]:
    """Classes of the protobuf library for the messages, by name.

    For programs that want message objects: these do without protoc, and work with any
    version of the library.
    """
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor(proto))
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{PACKAGE}.{name}")
        )
        for name in definition(proto)
    }


def descriptor(proto: Path = PROTO) -> FileDescriptorProto:
    """What protoc makes of graph.proto, or of mapping.proto."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name=proto.name, package=PACKAGE, syntax="proto3")
    for name, fields in definition(proto).items():
        message = file.message_type.add(name=name)
        groups: list[str] = []
        for field_name, field in fields.items():
            made = message.field.add(name=field_name, number=field.number)
            made.json_name = re.sub(r"_(\w)", lambda m: m[1].upper(), field_name)
            if field.kind in definition(proto):
                made.type = made.TYPE_MESSAGE
                made.type_name = f".{PACKAGE}.{field.kind}"
            else:
                made.type = getattr(made, f"TYPE_{field.kind.upper()}")
            made.label = made.LABEL_REPEATED if field.repeated else made.LABEL_OPTIONAL
            # an optional field is the only one of a group that nobody sees
            group = f"_{field_name}" if field.optional else field.oneof
            if group is not None:
                if group not in groups:
                    groups.append(group)
                    message.oneof_decl.add(name=group)
                made.oneof_index = groups.index(group)
                if field.optional:
                    made.proto3_optional = True
    return file
