"""The messages of ONNX: every field by number, declared once, and how they are read.

A row names a message and its fields, `number name kind`. A `*` says that a field may
come many times. Kinds:

- `int` a signed number or an enum, `float`, `text`
- `ints`, `floats` many of them, packed or one by one
- `span` bytes that stay where they are, as (start, stop)
- `packed` numbers that stay where they are: the spans that, joined, hold all of them
- the name of a message: its span, too

A test compares the table with what the onnx package declares.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, NoReturn

from amanda.errors import FormatError
from amanda.formatkit.wire import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Buffer,
    decode_varint,
    encode_key,
    encode_varint,
    iter_fields,
    unpack_varints,
)

__all__ = [
    "MESSAGES",
    "UNKNOWN_FIELDS",
    "Field",
    "Span",
    "Writer",
    "raise_at",
    "decode_integers",
    "join_spans",
    "read",
    "to_signed",
    "tag",
    "decode_text",
]

Span = tuple[int, int]
UNKNOWN_FIELDS: Final = ""
"""The key of fields that the table does not know, as they are, joined."""

_TABLE: Final = """
ModelProto              1 ir_version int, 2 producer_name text,
                        3 producer_version text, 4 domain text, 5 model_version int,
                        6 doc_string text, 7 graph GraphProto,
                        8 opset_import OperatorSetIdProto*,
                        14 metadata_props StringStringEntryProto*,
                        20 training_info TrainingInfoProto*,
                        25 functions FunctionProto*,
                        26 configuration DeviceConfigurationProto*
GraphProto              1 node NodeProto*, 2 name text, 5 initializer TensorProto*,
                        10 doc_string text, 11 input ValueInfoProto*,
                        12 output ValueInfoProto*, 13 value_info ValueInfoProto*,
                        14 quantization_annotation TensorAnnotation*,
                        15 sparse_initializer SparseTensorProto*,
                        16 metadata_props StringStringEntryProto*
FunctionProto           1 name text, 4 input text*, 5 output text*, 6 attribute text*,
                        7 node NodeProto*, 8 doc_string text,
                        9 opset_import OperatorSetIdProto*, 10 domain text,
                        11 attribute_proto AttributeProto*,
                        12 value_info ValueInfoProto*, 13 overload text,
                        14 metadata_props StringStringEntryProto*
NodeProto               1 input text*, 2 output text*, 3 name text, 4 op_type text,
                        5 attribute AttributeProto*, 6 doc_string text, 7 domain text,
                        8 overload text, 9 metadata_props StringStringEntryProto*,
                        10 device_configurations NodeDeviceConfigurationProto*
AttributeProto          1 name text, 2 f float, 3 i int, 4 s span, 5 t TensorProto,
                        6 g GraphProto, 7 floats floats, 8 ints ints,
                        9 strings span*, 10 tensors TensorProto*,
                        11 graphs GraphProto*, 13 doc_string text, 14 tp TypeProto,
                        15 type_protos TypeProto*, 20 type int, 21 ref_attr_name text,
                        22 sparse_tensor SparseTensorProto,
                        23 sparse_tensors SparseTensorProto*
TensorProto             1 dims ints, 2 data_type int, 3 segment span,
                        4 float_data packed, 5 int32_data packed, 6 string_data span*,
                        7 int64_data packed, 8 name text, 9 raw_data span,
                        10 double_data packed, 11 uint64_data packed,
                        12 doc_string text, 13 external_data StringStringEntryProto*,
                        14 data_location int, 16 metadata_props StringStringEntryProto*
SparseTensorProto       1 values TensorProto, 2 indices TensorProto, 3 dims ints
ValueInfoProto          1 name text, 2 type TypeProto, 3 doc_string text,
                        4 metadata_props StringStringEntryProto*
TypeProto               1 tensor_type Tensor, 4 sequence_type Sequence, 5 map_type Map,
                        6 denotation text, 7 opaque_type Opaque,
                        8 sparse_tensor_type SparseTensor, 9 optional_type Optional
Tensor                  1 elem_type int, 2 shape TensorShapeProto
SparseTensor            1 elem_type int, 2 shape TensorShapeProto
Sequence                1 elem_type TypeProto
Optional                1 elem_type TypeProto
Map                     1 key_type int, 2 value_type TypeProto
Opaque                  1 domain text, 2 name text
TensorShapeProto        1 dim Dimension*
Dimension               1 dim_value int, 2 dim_param text, 3 denotation text
TensorAnnotation        1 tensor_name text,
                        2 quant_parameter_tensor_names StringStringEntryProto*
StringStringEntryProto  1 key text, 2 value text
OperatorSetIdProto      1 domain text, 2 version int
"""


class Field(NamedTuple):
    name: str
    kind: str
    many: bool


def _parsed(table: str) -> dict[str, dict[int, Field]]:
    messages: dict[str, dict[int, Field]] = {}
    rows: dict[int, Field] = {}
    for line in table.strip().splitlines():
        if not line.startswith(" "):
            name, line = line.split(None, 1)
            rows = messages[name] = {}
        for part in filter(None, map(str.strip, line.split(","))):
            number, field, kind = part.split()
            many = kind.endswith("*")
            rows[int(number)] = Field(field, kind.rstrip("*"), many)
    return messages


MESSAGES: Final[Mapping[str, Mapping[int, Field]]] = _parsed(_TABLE)

_WIRE: Final = {"int": VARINT, "float": FIXED32}  # the others have a length
_NUMBERS: Final = (VARINT, FIXED32, FIXED64)
_MANY_NUMBERS: Final = ("packed", "ints", "floats")
_ONE_BY_ONE: Final = {"ints": VARINT, "floats": FIXED32}

_TAGS: Final = {
    (message, field.name): encode_key(number, _WIRE.get(field.kind, BYTES))
    for message, rows in MESSAGES.items()
    for number, field in rows.items()
}
_KINDS: Final = {
    (message, field.name): field.kind
    for message, rows in MESSAGES.items()
    for field in rows.values()
}
_SCALARS: Final = {
    (message, field.name): encode_key(number, _ONE_BY_ONE[field.kind])
    for message, rows in MESSAGES.items()
    for number, field in rows.items()
    if field.kind in _ONE_BY_ONE
}
_FLOAT: Final = struct.Struct("<f")
_SIGN, _WRAP = 1 << 63, 1 << 64


# -- reading -----------------------------------------------------------------------


def read(
    message: str, data: Buffer, pos: int, stop: int, base: int = 0
) -> dict[str, Any]:
    """The fields that are there, by name; what is not known under `REST`.

    Spans are positions in `data`, which itself lies at `base` of the file.
    """
    rows = MESSAGES[message]
    found: dict[str, Any] = {}
    rest: list[bytes] = []
    place = pos
    for number, kind, start, end in iter_fields(data, pos, stop, base):
        field = rows.get(number)
        if field is None:
            rest.append(bytes(data[place:end]))
        else:
            _put(found, message, field, kind, data, (start, end), base)
        place = end
    if rest:
        found[UNKNOWN_FIELDS] = b"".join(rest)
    return found


def _put(
    found: dict[str, Any],
    message: str,
    field: Field,
    wire: int,
    data: Buffer,
    span: Span,
    base: int,
) -> None:
    name, kind, many = field
    start, end = span
    if kind in _MANY_NUMBERS:
        fine = wire == BYTES or wire in _NUMBERS
    else:
        fine = wire == _WIRE.get(kind, BYTES)
    if not fine:
        raise_at(f"{name} of a {message} is of another kind", base + start)
    value: Any = span
    if kind == "int":
        value = to_signed(decode_varint(data, start, end, base)[0])
    elif kind == "float":
        value = _FLOAT.unpack_from(data, start)[0]
    elif kind == "text":
        value = decode_text(data, start, end, base)
    elif kind == "ints":
        found.setdefault(name, []).extend(decode_integers(data, [span], base))
        return
    elif kind == "floats":
        found.setdefault(name, []).extend(_floats(data, start, end, base))
        return
    elif not many and kind in MESSAGES and name in found:
        raise_at(f"a {message} with two of {name}", base + start)
    if many or kind == "packed":
        found.setdefault(name, []).append(value)
    else:
        found[name] = value


def _floats(data: Buffer, start: int, end: int, base: int) -> tuple[float, ...]:
    if (end - start) % 4:
        raise_at("floats that end inside one", base + start)
    return struct.unpack(f"<{(end - start) // 4}f", data[start:end])


def decode_text(data: Buffer, start: int, end: int, base: int = 0) -> str:
    """The text between two positions."""
    try:
        return str(data[start:end], "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            "a text that is not UTF-8", where=f"byte {base + start + error.start}"
        ) from error


def to_signed(value: int) -> int:
    """A number as int64 has it.

    >>> signed((1 << 64) - 1)
    -1
    """
    return value - _WRAP if value >= _SIGN else value


def join_spans(data: Buffer, spans: list[Span]) -> Buffer:
    """All bytes of the spans; without a copy where there is one."""
    if len(spans) == 1:
        return data[spans[0][0] : spans[0][1]]
    return b"".join([bytes(data[start:end]) for start, end in spans])


def decode_integers(data: Buffer, spans: list[Span], base: int = 0) -> list[int]:
    """Signed numbers, packed or one by one."""
    found: list[int] = []
    for start, end in spans:
        found += unpack_varints(data, start, end, base)
    if found and max(found) >= _SIGN:
        return list(map(to_signed, found))
    return found


def raise_at(message: str, place: int, **parts: Any) -> NoReturn:
    """Raise FormatError for what lies at a place of the file."""
    raise FormatError(message, where=f"byte {place}", **parts)


# -- writing -----------------------------------------------------------------------


def tag(message: str, name: str) -> bytes:
    """What stands before the value of a field."""
    return _TAGS[message, name]


class Writer:
    """One message, field by field.

    >>> entry = Writer("OperatorSetIdProto").put("domain", "").put("version", 18)
    >>> entry.done()
    b'\\n\\x00\\x10\\x12'
    """

    __slots__ = ("_message", "_parts")

    def __init__(self, message: str) -> None:
        self._message = message
        self._parts: list[bytes] = []

    def put(self, name: str, value: Any) -> Writer:
        """A field: a number, a text, bytes or a message; nothing for None."""
        if value is None:
            return self
        self._parts.append(_TAGS[self._message, name])
        if isinstance(value, int):
            self._parts.append(encode_varint(value & (_WRAP - 1)))
        elif isinstance(value, float):
            self._parts.append(_FLOAT.pack(value))
        else:
            raw = value.encode() if isinstance(value, str) else value
            self._parts += (encode_varint(len(raw)), raw)
        return self

    def some(self, name: str, value: Any) -> Writer:
        """The same, but nothing for what is empty."""
        return self.put(name, value) if value else self

    def many(self, name: str, values: Iterable[Any]) -> Writer:
        """A field that comes many times; numbers one by one, as protobuf does."""
        kind = _KINDS[self._message, name]
        scalar = _SCALARS.get((self._message, name))
        if scalar is None:
            for value in values:
                self.put(name, value)
        elif kind == "floats":
            for value in values:
                self._parts += (scalar, _FLOAT.pack(value))
        else:
            for value in values:
                self._parts += (scalar, encode_varint(value & (_WRAP - 1)))
        return self

    def raw(self, content: bytes) -> Writer:
        """Fields as they are."""
        self._parts.append(content)
        return self

    def done(self) -> bytes:
        return b"".join(self._parts)
