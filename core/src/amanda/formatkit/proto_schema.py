"""Message schemas parsed from `.proto` text: the one declaration of a format's fields.

>>> schema = ProtoSchema.parse('''
...     syntax = "proto3";
...     message Node { string name = 1; repeated int64 shape = 2; }
... ''')
>>> raw = schema.writer("Node").put("name", "x").put_all("shape", [2, 300]).done()
>>> schema.read("Node", raw)
{'name': 'x', 'shape': [2, 300]}

Supported of the language: messages, enums, oneofs, maps, options of fields, both
syntaxes. Not supported: groups and extensions. Imports are ignored; put all messages
in one file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from amanda.errors import FormatError
from amanda.formatkit.message_writer import MessageWriter
from amanda.formatkit.scalars import (
    ENUM,
    MESSAGE,
    SCALARS,
    Scalar,
    Span,
    decode_utf8,
    raise_at,
)
from amanda.formatkit.wire import (
    BYTES,
    VARINT,
    Buffer,
    decode_varint,
    encode_key,
    iter_fields,
    unpack_varints,
)

__all__ = ["UNKNOWN_FIELDS", "ProtoField", "ProtoMessage", "ProtoSchema"]

UNKNOWN_FIELDS: Final = ""
"""The key under which `read` returns the fields that the schema does not have."""

_TOKEN: Final = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|[\w.+-]+|[{}\[\]<>()=;,]', re.DOTALL
)


class ProtoField(NamedTuple):
    """One field. `type` is a scalar type, or the name of a message or enum."""

    name: str
    number: int
    type: str
    repeated: bool = False
    optional: bool = False
    packed: bool = False
    oneof: str | None = None


class ProtoMessage(NamedTuple):
    """One message type: `TensorShapeProto`, or `TensorShapeProto.Dimension` inside."""

    name: str
    fields: dict[str, ProtoField]
    is_map_entry: bool = False


class FieldCodec(NamedTuple):
    """How the values of one field are read and written."""

    name: str
    number: int
    wire: int
    repeated: bool
    packed: bool
    is_message: bool
    located: bool  # repeated numbers whose bytes stay in the file
    decode: Callable[[Buffer, int, int, int], Any]
    encode: Callable[[Any], bytes]
    convert: Callable[[int], Any] | None
    tag: bytes  # before one value
    packed_tag: bytes  # before a packed list


_TextField: TypeAlias = "tuple[str, bool, bool, Callable[..., Any] | None]"


class ProtoSchema:
    """The messages and enums of a `.proto` file, and readers and writers for them.

    `located` names repeated numeric fields (`"TensorProto.float_data"`) whose data is
    large: `read` returns spans of the file instead of lists of numbers for them.
    """

    def __init__(
        self,
        messages: Mapping[str, ProtoMessage],
        enums: Mapping[str, dict[str, int]],
        *,
        package: str = "",
        syntax: str = "proto2",
        located: Iterable[str] = (),
    ) -> None:
        self.messages = dict(messages)
        self.enums = dict(enums)
        self.package = package
        self.syntax = syntax
        self.located = frozenset(located)

    @classmethod
    def parse(cls, text: str, located: Iterable[str] = ()) -> ProtoSchema:
        """The schema that `.proto` text declares."""
        parser = _Parser(text)
        parser.parse_file()
        return cls(
            parser.messages, parser.enums,
            package=parser.package, syntax=parser.syntax, located=located,
        )  # fmt: skip

    @classmethod
    def load(cls, path: Path, located: Iterable[str] = ()) -> ProtoSchema:
        """The schema of a `.proto` file."""
        return cls.parse(path.read_text(encoding="utf-8"), located)

    def __getitem__(self, name: str) -> ProtoMessage:
        return self.messages[name]

    @cached_property
    def codecs(self) -> dict[str, dict[int, FieldCodec]]:
        """Every message's fields by number, in that order."""
        found = {}
        for message in self.messages.values():
            codecs = [self._codec(message, each) for each in message.fields.values()]
            codecs.sort(key=lambda codec: codec.number)
            found[message.name] = {codec.number: codec for codec in codecs}
        return found

    @cached_property
    def _usual(self) -> dict[str, dict[int, _TextField]]:
        """The strings, bytes and messages of each message by their tag, where it is one
        byte: name, repeated, whether a message, and what reads it if not a span."""
        return {
            name: {
                codec.tag[0]: (
                    codec.name, codec.repeated, codec.is_message,
                    None if codec.decode is MESSAGE.decode else codec.decode,
                )
                for codec in codecs.values()
                if codec.wire == BYTES and len(codec.tag) == 1
            }
            for name, codecs in self.codecs.items()
        }  # fmt: skip

    @cached_property
    def _by_name(self) -> dict[str, dict[str, FieldCodec]]:
        return {
            name: {codec.name: codec for codec in codecs.values()}
            for name, codecs in self.codecs.items()
        }

    def _codec(self, message: ProtoMessage, field: ProtoField) -> FieldCodec:
        located = f"{message.name}.{field.name}" in self.located
        scalar = MESSAGE if located else self._scalar(field.type)
        return FieldCodec(
            field.name, field.number, scalar.wire, field.repeated, field.packed,
            field.type in self.messages, located, scalar.decode, scalar.encode,
            scalar.convert, encode_key(field.number, scalar.wire),
            encode_key(field.number, BYTES),
        )  # fmt: skip

    def _scalar(self, type: str) -> Scalar:
        if type in self.messages:
            return MESSAGE
        return ENUM if type in self.enums else SCALARS[type]

    # -- reading -----------------------------------------------------------------------

    def read(
        self,
        message: str,
        data: Buffer,
        pos: int = 0,
        stop: int | None = None,
        base: int = 0,
    ) -> dict[str, Any]:
        """The fields present, by name; unknown ones, joined, under `UNKNOWN_FIELDS`.

        Numbers and strings are values. Messages and bytes, which may be large, are
        spans: (start, stop) in `data`, which itself begins at `base` of the file.
        """
        usual = self._usual[message]
        found: dict[str, Any] = {}
        unknown: list[bytes] = []
        stop = len(data) if stop is None else stop
        while pos < stop:
            field = usual.get(data[pos])
            if field is not None and pos + 1 < stop:  # the common case, inlined
                name, repeated, is_message, decode = field
                size, start = data[pos + 1], pos + 2
                if size > 127:
                    size, start = decode_varint(data, pos + 1, stop, base)
                end = start + size
                if end <= stop and not (is_message and not repeated and name in found):
                    if decode is None:
                        value: Any = (start, end)
                    elif decode is decode_utf8:
                        try:
                            value = str(data[start:end], "utf-8")
                        except UnicodeDecodeError:
                            value = decode(data, start, end, base)  # raises FormatError
                    else:
                        value = decode(data, start, end, base)
                    if not repeated:
                        found[name] = value
                    elif name in found:
                        found[name].append(value)
                    else:
                        found[name] = [value]
                    pos = end
                    continue
            pos = self._read_field(message, data, pos, stop, base, found, unknown)
        if unknown:
            found[UNKNOWN_FIELDS] = b"".join(unknown)
        return found

    def _read_field(
        self, message: str, data: Buffer, pos: int, stop: int, base: int,
        found: dict[str, Any], unknown: list[bytes],
    ) -> int:  # fmt: skip
        """Add the field at a position to those found; the position after it."""
        number, wire, start, end = next(iter_fields(data, pos, stop, base))
        codec = self.codecs[message].get(number)
        if codec is None:
            unknown.append(bytes(data[pos:end]))
        elif wire != codec.wire:
            numbers = read_packed(message, codec, wire, data, (start, end), base)
            found.setdefault(codec.name, []).extend(numbers)
        elif codec.repeated:
            value = codec.decode(data, start, end, base)
            found.setdefault(codec.name, []).append(value)
        elif codec.is_message and codec.name in found:
            raise_at(f"two of the field {codec.name} in a {message}", base + start)
        else:
            found[codec.name] = codec.decode(data, start, end, base)
        return end

    def raw_fields(
        self, message: str, data: Buffer, span: Span, *, without: Collection[str]
    ) -> bytes:
        """All fields of a message except those named, as they are encoded."""
        codecs = self._by_name[message]
        left_out = {codecs[name].number for name in without}
        parts = []
        place = span[0]
        for number, _, _, end in iter_fields(data, *span):
            if number not in left_out:
                parts.append(bytes(data[place:end]))
            place = end
        return b"".join(parts)

    # -- writing -----------------------------------------------------------------------

    def tag(self, message: str, field: str) -> bytes:
        """The bytes in front of each value of a field."""
        return self._by_name[message][field].tag

    def writer(self, message: str) -> MessageWriter:
        """A writer of one message, field by field."""
        return MessageWriter(self._by_name[message])


def read_packed(
    message: str,
    codec: FieldCodec,
    wire: int,
    data: Buffer,
    span: tuple[int, int],
    base: int,
) -> list[Any]:
    """The numbers of a packed field; FormatError for any other wire type."""
    start, end = span
    if codec.located and wire != BYTES:
        return [span]
    if wire != BYTES or codec.wire == BYTES or not codec.repeated:
        raise_at(
            f"the field {codec.name} of a {message} has another wire type",
            base + start,
        )
    if codec.wire == VARINT:
        numbers = unpack_varints(data, start, end, base)
        return numbers if codec.convert is None else list(map(codec.convert, numbers))
    size = len(codec.encode(0))
    if (end - start) % size:
        raise_at("a packed list ends inside a number", base + start)
    return [codec.decode(data, at, at + size, base) for at in range(start, end, size)]


# -- the language of .proto files ------------------------------------------------------

_LABELS: Final = ("optional", "repeated", "required")
_NUMERIC: Final = frozenset(
    name for name, each in SCALARS.items() if each.wire != BYTES
)


class _Parser:
    """A recursive descent over the tokens of one file."""

    def __init__(self, text: str) -> None:
        found = _TOKEN.findall(text)
        self._tokens: Iterator[str] = iter(
            [t for t in found if t[:2] not in ("//", "/*")]
        )
        self.messages: dict[str, ProtoMessage] = {}
        self.enums: dict[str, dict[str, int]] = {}
        self.package = ""
        self.syntax = "proto2"

    def parse_file(self) -> None:
        for word in self._tokens:
            if word == "syntax":
                self.syntax = self._statement()[1].strip('"')
            elif word == "package":
                self.package = self._statement()[0]
            elif word == "message":
                self._message("")
            elif word == "enum":
                self._enum("")
            elif word != ";":
                self._statement()
        for message in self.messages.values():
            for field in message.fields.values():
                message.fields[field.name] = self._resolve(message.name, field)

    def _statement(self) -> list[str]:
        """The tokens up to the next semicolon."""
        words: list[str] = []
        for word in self._tokens:
            if word == ";":
                return words
            words.append(word)
        raise FormatError("a .proto file ends inside a statement", got=words)

    def _message(self, outer: str) -> None:
        name = f"{outer}.{next(self._tokens)}".lstrip(".")
        message = self.messages[name] = ProtoMessage(name, {})
        next(self._tokens)
        oneof: str | None = None
        for word in self._tokens:
            match word:
                case "}" if oneof is None:
                    return
                case "}":
                    oneof = None
                case "message":
                    self._message(name)
                case "enum":
                    self._enum(name)
                case "oneof":
                    oneof = next(self._tokens)
                    next(self._tokens)
                case "option" | "reserved" | "extensions":
                    self._statement()
                case "map":
                    self._map(message, self._statement())
                case ";":
                    pass
                case _:
                    field = _parse_field([word, *self._statement()], oneof)
                    message.fields[field.name] = field

    def _enum(self, outer: str) -> None:
        name = f"{outer}.{next(self._tokens)}".lstrip(".")
        values = self.enums[name] = {}
        next(self._tokens)
        for word in self._tokens:
            if word == "}":
                return
            statement = self._statement()
            if word not in ("option", "reserved"):
                values[word] = int(statement[1], 0)

    def _map(self, message: ProtoMessage, words: list[str]) -> None:
        """`map<key, value> name = n` is a repeated message with these two fields."""
        _, key, _, value, _, name, _, number, *_ = words
        entry = f"{message.name}.{_camel_case(name)}Entry"
        fields = {
            "key": ProtoField("key", 1, key),
            "value": ProtoField("value", 2, value),
        }
        self.messages[entry] = ProtoMessage(entry, fields, is_map_entry=True)
        message.fields[name] = ProtoField(name, int(number), entry, repeated=True)

    def _resolve(self, scope: str, field: ProtoField) -> ProtoField:
        """The field with the full name of its type, and whether it is packed."""
        if field.type in SCALARS:
            type = field.type
        else:
            type = field.type.lstrip(".").removeprefix(f"{self.package}.")
            while scope and not self._declares(f"{scope}.{type}"):
                scope = scope.rpartition(".")[0]
            type = f"{scope}.{type}".lstrip(".")
            if not self._declares(type):
                raise FormatError(
                    f"a .proto file lacks the type {field.type}", who=field.name
                )
        numeric = field.repeated and (type in _NUMERIC or type in self.enums)
        packed = field.packed or (numeric and self.syntax == "proto3")
        return field._replace(type=type, packed=packed)

    def _declares(self, name: str) -> bool:
        return name in self.messages or name in self.enums


def _parse_field(words: list[str], oneof: str | None) -> ProtoField:
    label = words.pop(0) if words[0] in _LABELS else ""
    match words:
        case [type, name, "=", number, *options]:
            packed = " ".join(options[1:4]) == "packed = true"
            repeated, optional = label == "repeated", label == "optional"
            return ProtoField(
                name, int(number), type, repeated, optional, packed, oneof
            )
    raise FormatError("a .proto file has a field of an unsupported form", got=words)


def _camel_case(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
