"""The messages of graph.proto as dataclasses, and how they are read and written;
those of mapping.proto stand in ruleset.py, and are read and written by the same tables.

Names and numbers stand in graph.proto; the classes give them types in Python. `Model`,
`Attr` and `Tensor` have no class: they are large or many, and read where they lie.

Amanda reads and writes these without the protobuf library: large files are walked, not
loaded; what is wrong with a file is told with its place; and the code that protoc makes
for Python runs with one major version of the library only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from struct import pack, unpack_from
from typing import Any, NamedTuple, NoReturn, TypeVar

from amanda.errors import FormatError
from amanda.files.binary import dictionary_messages, mapping_messages
from amanda.files.binary.definition import MAPPING, definition
from amanda.formatkit import wire
from amanda.formatkit.wire import BYTES, FIXED64, VARINT, Buffer

Span = tuple[int, int]
Attrs = list[Any]
"""Messages of attributes: their bytes when written, their spans in the file when read.

Attributes are on the hot path and make values of their own, see attributes.py.
"""

_Message = TypeVar("_Message")


# -- the messages ------------------------------------------------------------------


@dataclass(slots=True)
class Provenance:
    sources: list[str] = field(default_factory=list)
    by: str = ""


@dataclass(slots=True)
class OutputPort:
    index: int = 0
    name: int = 0
    attrs: Attrs = field(default_factory=list)
    marks: list[int] = field(default_factory=list)


@dataclass(slots=True)
class InputPort:
    index: int = 0
    name: int = 0
    attrs: Attrs = field(default_factory=list)
    edge_attrs: Attrs = field(default_factory=list)


@dataclass(slots=True)
class Signal:
    control: int = 0
    attrs: Attrs = field(default_factory=list)


@dataclass(slots=True)
class Body:
    name: str = ""
    graph: int = 0


@dataclass(slots=True)
class Op:
    type: int = 0
    name: str | None = None
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    attrs: Attrs = field(default_factory=list)
    namespace: int = 0
    graph: int = 0
    bodies: list[Body] = field(default_factory=list)
    control: list[int] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    input_ports: list[InputPort] = field(default_factory=list)
    output_ports: list[OutputPort] = field(default_factory=list)
    provenance: Provenance | None = None
    feedback: bool = False


@dataclass(slots=True)
class Import:
    domain: str = ""
    version: int = 0


@dataclass(slots=True)
class Slot:
    name: str = ""
    value: int = 0


@dataclass(slots=True)
class Entry:
    name: str = ""
    inputs: list[Slot] = field(default_factory=list)
    outputs: list[Slot] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    name: str = ""
    graph: int = 0


@dataclass(slots=True)
class LateSignal:
    op: int = 0
    first: int = 0
    attrs: Attrs = field(default_factory=list)


@dataclass(slots=True)
class LateInput:
    op: int = 0
    input: int = 0
    value: int = 0


@dataclass(slots=True)
class Boundary:
    op: int = 0
    attrs: Attrs = field(default_factory=list)


@dataclass(slots=True)
class Capture:
    graph: int = 0
    value: int = 0


@dataclass(slots=True)
class Result:
    value: int = 0
    type: int = 0
    name: int = 0
    attrs: Attrs = field(default_factory=list)
    edge_attrs: Attrs = field(default_factory=list)
    marks: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Parameter:
    type: int = 0
    name: int = 0
    attrs: Attrs = field(default_factory=list)
    marks: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Graph:
    self: Op | None = None
    parameters: list[Parameter] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    captures: list[Capture] = field(default_factory=list)
    sources: list[Boundary] = field(default_factory=list)
    sinks: list[Boundary] = field(default_factory=list)
    late_inputs: list[LateInput] = field(default_factory=list)
    late_signals: list[LateSignal] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Body, Boundary, Capture, Entry, Function, Graph, Import, InputPort, LateInput,
        LateSignal, Op, OutputPort, Parameter, Provenance, Result, Signal, Slot,
        *dictionary_messages.CLASSES,
    )
}  # fmt: skip


# -- reading and writing -----------------------------------------------------------


class _Column(NamedTuple):
    """How a field is read and written."""

    name: str
    number: int
    wire: int  # the kind on the wire of one value
    many: bool
    packed: bool
    optional: bool
    read: Callable[[Buffer, int, int, int], Any]
    write: Callable[[Any], bytes]


def read(
    kind: type[_Message], data: Buffer, pos: int, stop: int, base: int = 0
) -> _Message:
    """The message between two positions; fields of later minor versions are ignored."""
    message = kind()
    columns = _columns(kind.__name__)
    for number, wire_kind, start, end in wire.iter_fields(data, pos, stop, base):
        column = columns.get(number)
        if column is None:
            continue
        if wire_kind != column.wire:
            if column.packed and wire_kind == BYTES:
                values = wire.unpack_varints(data, start, end, base)
                getattr(message, column.name).extend(values)
                continue
            _wrong_kind(kind, column, base + start)
        value = column.read(data, start, end, base)
        if column.many:
            getattr(message, column.name).append(value)
        else:
            setattr(message, column.name, value)
    return message


def write(message: Any) -> bytes:
    """A message as bytes: fields by number, those at their default left out."""
    parts: list[bytes] = []
    for column in _columns(type(message).__name__).values():
        value = getattr(message, column.name)
        if value is None or (not value and not column.optional):
            continue
        if column.packed:
            parts.append(wire.encode_field(column.number, wire.pack_varints(value)))
            continue
        key = wire.encode_key(column.number, column.wire)
        for item in value if column.many else (value,):
            payload = column.write(item)
            size = wire.encode_varint(len(payload)) if column.wire == BYTES else b""
            parts += (key, size, payload)
    return b"".join(parts)


@cache
def _columns(name: str) -> dict[int, _Column]:
    """The fields of a message by number, in that order."""
    columns = []
    is_graph = name in CLASSES
    fields = definition()[name] if is_graph else definition(MAPPING)[name]
    classes = CLASSES if is_graph else mapping_messages.CLASSES
    for field_name, (number, kind, many, optional, _) in fields.items():
        wire_kind, reader, writer = _SCALARS.get(kind) or _message_of(classes[kind])
        packed = many and wire_kind == VARINT
        columns.append(
            _Column(
                field_name, number, wire_kind, many, packed, optional, reader, writer
            )
        )
    columns.sort(key=lambda column: column.number)
    return {column.number: column for column in columns}


def _message_of(kind: type[Any]) -> _Scalar:
    def reader(data: Buffer, pos: int, stop: int, base: int) -> Any:
        return read(kind, data, pos, stop, base)

    return BYTES, reader, write


def _uint(data: Buffer, pos: int, stop: int, base: int) -> int:
    return wire.decode_varint(data, pos, stop, base)[0]


def _sint(data: Buffer, pos: int, stop: int, base: int) -> int:
    return wire.unzigzag(wire.decode_varint(data, pos, stop, base)[0])


def text(data: Buffer, pos: int, stop: int, base: int = 0) -> str:
    """A string, which must be UTF-8."""
    try:
        return str(data[pos:stop], "utf-8")
    except UnicodeDecodeError as error:
        place = f"byte {base + pos + error.start}"
        raise FormatError("a text is not UTF-8", where=place) from None


def utf8(value: str) -> bytes:
    """The bytes of a string; Python allows some that no encoding can carry."""
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise FormatError(
            "a text has half of a surrogate pair, which UTF-8 cannot carry",
            got=repr(value),
        ) from error


_Scalar = tuple[int, Callable[..., Any], Callable[[Any], bytes]]
_SCALARS: dict[str, _Scalar] = {
    "uint64": (VARINT, _uint, wire.encode_varint),
    "sint64": (VARINT, _sint, lambda value: wire.encode_varint(wire.zigzag(value))),
    "bool": (VARINT, lambda *at: bool(_uint(*at)), wire.encode_varint),
    "double": (
        FIXED64,
        lambda data, pos, *_: unpack_from("<d", data, pos)[0],
        lambda value: pack("<d", value),
    ),
    "string": (BYTES, text, utf8),
    "Attr": (BYTES, lambda _data, pos, stop, _base: (pos, stop), bytes),
}


def _wrong_kind(kind: type[Any], column: _Column, place: int) -> NoReturn:
    raise FormatError(
        f"the field {column.name} of a {kind.__name__} is of another kind",
        where=f"byte {place}",
    )
