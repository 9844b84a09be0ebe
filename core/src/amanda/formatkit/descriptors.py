"""Schemas and the protobuf library: message classes, text format, descriptors.

The library is imported only here, and only when one of these is called.
"""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import FormatError
from amanda.formatkit.proto_schema import ProtoField, ProtoMessage, ProtoSchema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

__all__ = [
    "file_descriptor",
    "message_classes",
    "parse_text_format",
    "print_text_format",
    "schema_of_descriptor",
]

_PACKAGE: Final = "amanda.schema"  # where a .proto file has no package


def file_descriptor(
    schema: ProtoSchema, name: str = "schema.proto"
) -> FileDescriptorProto:
    """The descriptor that protoc makes of the same declarations."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    package = schema.package or _PACKAGE
    file = FileDescriptorProto(name=name, package=package, syntax=schema.syntax)
    if schema.syntax == "proto2":
        file.ClearField("syntax")
    made: dict[str, DescriptorProto] = {}
    for message in schema.messages.values():
        outer, _, short = message.name.rpartition(".")
        types = made[outer].nested_type if outer else file.message_type
        made[message.name] = types.add(name=short)
        made[message.name].options.map_entry = message.is_map_entry
        if not message.is_map_entry:
            made[message.name].ClearField("options")
    for enum, values in schema.enums.items():
        outer, _, short = enum.rpartition(".")
        added = (made[outer] if outer else file).enum_type.add(name=short)
        for key, number in values.items():
            added.value.add(name=key, number=number)
        if len(set(values.values())) < len(values):
            added.options.allow_alias = True
    for message in schema.messages.values():
        _add_fields(made[message.name], message, schema, package)
    return file


def _add_fields(
    target: DescriptorProto, message: ProtoMessage, schema: ProtoSchema, package: str
) -> None:
    groups = _oneofs(message, schema.syntax)
    for group in groups:
        target.oneof_decl.add(name=group)
    for field in message.fields.values():
        made = target.field.add(name=field.name, number=field.number)
        made.json_name = re.sub(r"_+(\w)", lambda m: m[1].upper(), field.name)
        if field.type in schema.messages or field.type in schema.enums:
            is_message = field.type in schema.messages
            made.type = made.TYPE_MESSAGE if is_message else made.TYPE_ENUM
            made.type_name = f".{package}.{field.type}"
        else:
            made.type = getattr(made, f"TYPE_{field.type.upper()}")
        made.label = made.LABEL_REPEATED if field.repeated else made.LABEL_OPTIONAL
        if field.packed and schema.syntax == "proto2":
            made.options.packed = True
        if field.oneof is not None:
            made.oneof_index = groups.index(field.oneof)
        elif f"_{field.name}" in groups:
            made.oneof_index = groups.index(f"_{field.name}")
            made.proto3_optional = True


def _oneofs(message: ProtoMessage, syntax: str) -> list[str]:
    """The oneofs, and behind them one for each optional field of proto3."""
    fields = message.fields.values()
    groups = dict.fromkeys(field.oneof for field in fields if field.oneof)
    optional = [field.name for field in fields if field.optional]
    return [*groups, *(f"_{name}" for name in optional if syntax == "proto3")]


@cache
def message_classes(schema: ProtoSchema) -> dict[str, type[Any]]:
    """Classes of the protobuf library for the messages, by name.

    For programs that want message objects: these work without protoc and with any
    version of the library.
    """
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.Add(file_descriptor(schema))
    package = schema.package or _PACKAGE
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{package}.{name}")
        )
        for name in schema.messages
    }


def parse_text_format(schema: ProtoSchema, message: str, text: str) -> bytes:
    """The bytes of a message that is given in protobuf's text format."""
    from google.protobuf import text_format

    found = message_classes(schema)[message]()
    try:
        with warnings.catch_warnings():  # protobuf's Python code warns of bad escapes
            warnings.simplefilter("error", DeprecationWarning)
            text_format.Parse(text, found)
    except (text_format.ParseError, DeprecationWarning, ValueError) as error:
        raise FormatError(f"this is not a {message} in text format: {error}") from error
    except RecursionError as error:
        raise FormatError(f"a {message} in text format, too deeply nested") from error
    return bytes(found.SerializeToString())


def print_text_format(schema: ProtoSchema, message: str, raw: bytes) -> str:
    """A message in protobuf's text format; FormatError where that loses fields."""
    from google.protobuf import text_format

    found = message_classes(schema)[message].FromString(raw)
    text = text_format.MessageToString(found)
    again = type(found)()
    text_format.Parse(text, again)
    if again.SerializeToString(deterministic=True) != found.SerializeToString(
        deterministic=True
    ):
        raise FormatError(
            f"the text format loses unknown fields of this {message}",
            hint="write the binary form",
        )
    return str(text)


def schema_of_descriptor(*roots: Any) -> ProtoSchema:
    """The schema of message descriptors of a framework, with all that they refer to.

    For tests that compare a `.proto` file with the framework that is installed.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto()
    roots[0].file.CopyToProto(file)
    messages: dict[str, ProtoMessage] = {}
    enums: dict[str, dict[str, int]] = {}
    waiting = list(roots)
    while waiting:
        at = waiting.pop()
        name = at.full_name.removeprefix(f"{at.file.package}.")
        if name in messages:
            continue
        fields = {field.name: _field_of(field) for field in at.fields}
        messages[name] = ProtoMessage(name, fields, at.GetOptions().map_entry)
        waiting += [field.message_type for field in at.fields if field.message_type]
        for field in at.fields:
            if field.enum_type is not None:
                enum = field.enum_type
                values = {value.name: value.number for value in enum.values}
                enums[enum.full_name.removeprefix(f"{enum.file.package}.")] = values
    return ProtoSchema(
        messages, enums, package=file.package, syntax=file.syntax or "proto2"
    )


def _field_of(field: Any) -> ProtoField:
    other = field.message_type or field.enum_type
    if other is not None:
        type = other.full_name.removeprefix(f"{other.file.package}.")
    else:
        type = _TYPE_NAMES[field.type]
    oneof = field.containing_oneof
    return ProtoField(
        field.name, field.number, type, field.is_repeated,
        packed=field.is_packed,
        oneof=oneof.name if oneof and not oneof.name.startswith("_") else None,
    )  # fmt: skip


_TYPE_NAMES: Final = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64",
    7: "fixed32", 8: "bool", 9: "string", 12: "bytes", 13: "uint32", 15: "sfixed32",
    16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
