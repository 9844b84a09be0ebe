"""The format kit: what formats share whose files are protobuf messages or archives.

- `ProtoSchema`: messages declared in a `.proto` file, their readers and writers
- `MessageFile`: a file that is mapped; its tensors stay in it until they are used
- `MessageChunks`: a message to be written, with tensors that are not in memory
- `DTypeCodes`, `varint_tensors`: element types by number, elements stored as varints
- `ModelNames`, `NameScope`: unique names of values
- `Archive`: the members of a zip archive; stored ones stay in the file
- `FileRecords`: what a file says that no part of a graph stands for

docs/plugin-author.md has an example.
"""

from __future__ import annotations

from amanda.formatkit.descriptors import (
    file_descriptor,
    message_classes,
    parse_text_format,
    print_text_format,
    schema_of_descriptor,
)
from amanda.formatkit.dtype_codes import DTypeCodes
from amanda.formatkit.file_records import (
    FileRecords,
    RecordCheck,
    any_of,
    dict_of,
    is_message,
    list_of,
    of_class,
)
from amanda.formatkit.message_file import MessageFile, file_errors
from amanda.formatkit.message_writer import MessageChunks, MessageWriter
from amanda.formatkit.missing_files import (
    collect_missing_files,
    is_missing_file_allowed,
)
from amanda.formatkit.proto_schema import (
    UNKNOWN_FIELDS,
    ProtoField,
    ProtoMessage,
    ProtoSchema,
)
from amanda.formatkit.record_codec import RecordCodec
from amanda.formatkit.scalars import Span, join_spans, raise_at, to_signed
from amanda.formatkit.value_names import ModelNames, NameScope
from amanda.formatkit.varint_tensors import (
    count_varints,
    decode_varint_array,
    encode_varint_tensor,
    pack_elements,
    varints_per_tensor,
)
from amanda.formatkit.wire import (
    BYTES,
    Buffer,
    decode_varint,
    encode_field,
    encode_key,
    encode_varint,
    iter_fields,
    locate_error,
    unpack_varints,
)
from amanda.formatkit.zip_archive import Archive, parse_json

__all__ = [
    "collect_missing_files",
    "is_missing_file_allowed",
    "Archive",
    "BYTES",
    "UNKNOWN_FIELDS",
    "Buffer",
    "DTypeCodes",
    "MessageChunks",
    "MessageFile",
    "MessageWriter",
    "ModelNames",
    "NameScope",
    "ProtoField",
    "ProtoMessage",
    "ProtoSchema",
    "RecordCodec",
    "FileRecords",
    "RecordCheck",
    "any_of",
    "dict_of",
    "is_message",
    "of_class",
    "list_of",
    "Span",
    "count_varints",
    "decode_varint",
    "decode_varint_array",
    "encode_field",
    "encode_key",
    "encode_varint",
    "encode_varint_tensor",
    "file_descriptor",
    "file_errors",
    "iter_fields",
    "join_spans",
    "locate_error",
    "parse_json",
    "message_classes",
    "pack_elements",
    "parse_text_format",
    "print_text_format",
    "raise_at",
    "schema_of_descriptor",
    "to_signed",
    "unpack_varints",
    "varints_per_tensor",
]
