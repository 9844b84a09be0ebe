"""Attribute values as messages, and back.

In a file the attributes of an op are one flat sequence: a list or map states how many
items it has, which follow. So values may nest to any depth without recursion.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from amanda.errors import AmandaError, FormatError, LimitError
from amanda.files.binary.shared_tables import ReadTables, WriteTables
from amanda.formatkit import Span
from amanda.formatkit.scalars import encode_utf8
from amanda.formatkit.wire import (
    BYTES,
    VARINT,
    Buffer,
    decode_varint,
    encode_field,
    encode_varint,
    iter_fields,
    locate_error,
    pack_varints,
    unpack_varints,
    unzigzag,
    zigzag,
)
from amanda.tensors import FunctionRef, Tensor, check_attr
from amanda.tensors.values import MAX_DEPTH
from amanda.types import (
    DType,
    Quantized,
    Shape,
    Sym,
    Type,
    parse_dim,
    parse_element,
    parse_shape,
)

__all__ = ["AttrReader", "AttrWriter"]

# The tag of each field of an Attr: field number and wire type. A test compares them
# with graph.proto.
NAME: Final = 1 << 3
NONE: Final = 2 << 3
BOOLEAN: Final = 3 << 3
INTEGER: Final = 4 << 3
REAL: Final = 5 << 3 | 1
TEXT: Final = 6 << 3 | 2
DATA: Final = 7 << 3 | 2
INTEGERS: Final = 8 << 3 | 2
REALS: Final = 9 << 3 | 2
DTYPE: Final = 10 << 3 | 2
TYPE: Final = 11 << 3
SHAPE: Final = 12 << 3 | 2
DIM: Final = 13 << 3 | 2
TENSOR: Final = 14 << 3
LIST: Final = 15 << 3
MAP: Final = 16 << 3
FUNCTION: Final = 17 << 3 | 2
LARGE: Final = 18 << 3 | 2
COMPLEX: Final = 19 << 3 | 2

_CACHE_SIZE: Final = 4096  # attributes of less than
_CACHED_BYTES: Final = 64  # bytes

_COMPLEX_BYTES: Final = 16
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


# -- writing -----------------------------------------------------------------------


class AttrWriter:
    """Writes attributes as messages, with the tables of one file."""

    def __init__(self, tables: WriteTables) -> None:
        self.tables = tables
        self._names: dict[str, bytes] = {}
        self._owner: str | None = None  # of the attribute that is written now
        self.key = ""

    def payloads(
        self, attrs: Mapping[str, Any], owner: str | None = None
    ) -> list[bytes]:
        """The messages of some attributes, without field key and length."""
        self._owner = owner
        out: list[bytes] = []
        for key, value in attrs.items():
            name = self._names.get(key) or self._name(key)
            kind = type(value)
            self.key = key
            if kind in _WRITERS:
                out.append(name + _WRITERS[kind](self, value))
            elif kind is list and (whole := _encode_number_list(value)) is not None:
                out.append(name + whole)
            else:
                self._write(name, value, out)
        return out

    def _name(self, key: str) -> bytes:
        if not isinstance(key, str):
            raise FormatError(
                "the name of an attribute is not a string",
                who=self._owner,
                got=repr(key),
            )
        made = self._names[key] = encode_varint(NAME) + encode_varint(
            self.tables.word(key)
        )
        return made

    def _write(self, name: bytes, value: Any, out: list[bytes]) -> None:
        """Write a container, or a value of a subclass of a listed type."""
        check_attr(
            value, f"attribute {self.key!r}"
        )  # refuses a value that contains itself
        waiting: list[Iterator[tuple[bytes, Any]]] = [iter([(name, value)])]
        while waiting:
            for label, item in waiting[-1]:
                if isinstance(item, Mapping):
                    out.append(label + encode_varint(MAP) + encode_varint(len(item)))
                    waiting.append(self._named_items(item))
                    break
                if not isinstance(item, list | tuple):
                    out.append(label + self._scalar(item))
                    continue
                whole = _encode_number_list(item)
                if whole is not None:
                    out.append(label + whole)
                else:
                    out.append(label + encode_varint(LIST) + encode_varint(len(item)))
                    waiting.append(zip((b"",) * len(item), item, strict=True))
                    break
            else:
                waiting.pop()

    def _named_items(self, items: Mapping[str, Any]) -> Iterator[tuple[bytes, Any]]:
        for key, value in items.items():
            yield self._names.get(key) or self._name(key), value

    def _scalar(self, value: Any) -> bytes:
        write = _WRITERS.get(type(value), _WRITERS[Type])  # which has many classes
        return write(self, value)

    def tensor(self, value: Tensor) -> int:
        """The number of a tensor; its preferred name is that of its owner."""
        owner, key = self._owner, self.key
        wish = owner if owner is None or key == "value" else f"{owner}.{key}"
        return self.tables.tensor(value, wish)


def _integer(value: int, key: str) -> bytes:
    if _INT64_MIN <= value <= _INT64_MAX:
        return encode_varint(INTEGER) + encode_varint(zigzag(value))
    check_attr(value, f"attribute {key!r}")
    size = value.bit_length() // 8 + 1
    return encode_field(_LARGE, value.to_bytes(size, "little", signed=True))


def _encode_number_list(items: Sequence[Any]) -> bytes | None:
    """A list of integers or of reals as one message; None for any other list."""
    kinds = set(map(type, items))
    if kinds == _INT:
        if min(items) >= _INT64_MIN and max(items) <= _INT64_MAX:
            numbers = [i << 1 if i >= 0 else ~(i << 1) for i in items]
            return encode_field(_INTEGERS, pack_varints(numbers))
    elif kinds == _FLOAT:
        return encode_field(_REALS, struct.pack(f"<{len(items)}d", *items))
    return None


_INT, _FLOAT = {int}, {float}
_FALSE, _TRUE = encode_varint(BOOLEAN) + b"\0", encode_varint(BOOLEAN) + b"\1"
_REAL, _TYPE, _TENSOR = encode_varint(REAL), encode_varint(TYPE), encode_varint(TENSOR)
_TEXT, _DATA, _INTEGERS, _REALS = TEXT >> 3, DATA >> 3, INTEGERS >> 3, REALS >> 3
_DTYPE, _SHAPE, _DIM, _FUNCTION = DTYPE >> 3, SHAPE >> 3, DIM >> 3, FUNCTION >> 3
_LARGE, _COMPLEX = LARGE >> 3, COMPLEX >> 3

_WRITERS: dict[type[Any], Callable[[AttrWriter, Any], bytes]] = {
    type(None): lambda _, _none: encode_varint(NONE) + b"\1",
    bool: lambda _, value: _TRUE if value else _FALSE,
    int: lambda to, value: _integer(value, to.key),
    float: lambda _, value: _REAL + struct.pack("<d", value),
    complex: lambda _, value: encode_field(
        _COMPLEX, struct.pack("<2d", value.real, value.imag)
    ),
    str: lambda _, value: encode_field(_TEXT, encode_utf8(value)),
    bytes: lambda _, value: encode_field(_DATA, value),
    DType: lambda _, value: encode_field(_DTYPE, str(value).encode()),
    Quantized: lambda _, value: encode_field(_DTYPE, str(value).encode()),
    Shape: lambda to, value: encode_field(
        _SHAPE, encode_utf8(value.text(to.tables.symbols))
    ),
    Sym: lambda to, value: encode_field(
        _DIM, encode_utf8(value.text(to.tables.symbols))
    ),
    FunctionRef: lambda _, value: encode_field(_FUNCTION, encode_utf8(value.name)),
    Tensor: lambda to, value: _TENSOR + encode_varint(to.tensor(value)),
    Type: lambda to, value: _TYPE + encode_varint(to.tables.type(value)),
}


# -- reading -----------------------------------------------------------------------


class AttrReader:
    """Reads values from messages, with the tables of one file."""

    def __init__(self, tables: ReadTables) -> None:
        self._tables = tables
        self._seen: dict[bytes, tuple[str, Any]] = {}

    def values(self, data: Buffer, spans: Sequence[Span], base: int) -> dict[str, Any]:
        """The attributes with messages at `spans` of `data`, which begins at `base`."""
        top: dict[str, Any] = {}
        into: Any = top
        left = len(spans)
        outer: list[tuple[Any, int]] = []
        for pos, stop in spans:
            raw = bytes(data[pos:stop])
            if not outer and (known := self._seen.get(raw)) and known[0] not in top:
                value = known[1]  # a list belongs to the graph, which may change it
                top[known[0]] = value.copy() if type(value) is list else value
                continue
            place = base + pos
            number, value, tag = self._item(raw, place)
            size = -1
            if tag in _HOLDERS:
                size, value = value, [] if tag == LIST else {}
            if type(into) is dict:
                name = self._new_name(number, into, place)
                into[name] = value
                if size < 0:
                    self._cache(raw, name, value)
            elif number:
                raise_at("an item of a list has a name", place)
            else:
                into.append(value)
            left -= 1
            if size >= 0:
                outer.append((into, left))
                _check_depth(len(outer), place)
                into, left = value, size
            while outer and not left:
                into, left = outer.pop()
        if outer:
            raise_at("a list or map lacks items", base + spans[-1][0])
        return top

    def _cache(self, raw: bytes, name: str, value: Any) -> None:
        """Cache a short attribute; models repeat the same ones often."""
        if len(raw) < _CACHED_BYTES and len(self._seen) < _CACHE_SIZE:
            self._seen[raw] = name, value.copy() if type(value) is list else value

    def _new_name(self, number: int, into: dict[str, Any], place: int) -> str:
        words = self._tables.words
        name = words[number] if number < len(words) else None
        if name is None:
            raise_at(f"no name has the number {number}", place)
        if name in into:
            raise_at(f"two values of the name {name!r}", place)
        return name

    def _item(self, raw: bytes, place: int) -> tuple[int, Any, int]:
        """Number of the name, value, and the tag of the field that held the value.

        Of a list or map the value is the number of its items. Name and value usually
        have one byte of tag and one of number or length each; any other message, and
        any fault, is left to `_any_item`.
        """
        try:
            tag, size = raw[2], raw[3]
            if raw[0] == NAME and raw[1] | tag | size < 128:
                if tag & 7 == BYTES and len(raw) == size + 4:
                    return raw[1], _READERS[tag](self._tables, raw[4:]), tag
                if tag & 7 == VARINT and len(raw) == 4:
                    return raw[1], _READERS[tag](self._tables, size), tag
        except (LookupError, UnicodeDecodeError, AmandaError):
            pass
        return self._any_item(raw, place)

    def _any_item(self, raw: bytes, place: int) -> tuple[int, Any, int]:
        number = found = 0
        value: Any = None
        for field, kind, start, end in iter_fields(raw, base=place):
            tag = field << 3 | kind
            given: Any = raw[start:end]
            if kind == VARINT:
                given, _ = decode_varint(raw, start, end, place)
            if tag == NAME:
                number = given
            elif tag in _READERS:
                if found:
                    raise_at("an attribute has two values", place)
                value, found = self._value(tag, given, place), tag
        if not found:
            raise_at("an attribute has no value that this version supports", place)
        return number, value, found

    def _value(self, tag: int, given: Any, place: int) -> Any:
        try:
            return _READERS[tag](self._tables, given)
        except IndexError:
            raise_at(f"no entry of the file has the number {given}", place)
        except (AmandaError, UnicodeDecodeError) as error:
            raise locate_error(error, f"byte {place}") from error


def _check_depth(depth: int, place: int) -> None:
    if depth > MAX_DEPTH:
        raise LimitError(
            "an attribute is nested too deeply",
            where=f"byte {place}",
            expected=f"at most {MAX_DEPTH} levels",
        )


def _decode_numbers(raw: bytes) -> list[int]:
    numbers = raw if raw.isascii() else unpack_varints(raw, 0, len(raw))
    return [number >> 1 ^ -(number & 1) for number in numbers]


def _decode_reals(raw: bytes) -> list[float]:
    if len(raw) % 8:
        raise FormatError("a list of reals is not a multiple of 8 bytes")
    return list(struct.unpack(f"<{len(raw) // 8}d", raw))


def _decode_complex(raw: bytes) -> complex:
    if len(raw) != _COMPLEX_BYTES:
        raise FormatError(
            "a complex number has another size", expected=_COMPLEX_BYTES, got=len(raw)
        )
    return complex(*struct.unpack("<2d", raw))


def _decode_large(raw: bytes) -> int:
    value = int.from_bytes(raw, "little", signed=True)
    check_attr(value, "a large integer")
    return value


def _table_entry(table: Sequence[Any], number: int) -> Any:
    if not number:
        raise IndexError
    return table[number]


_HOLDERS = (LIST, MAP)
_READERS: dict[int, Callable[[ReadTables, Any], Any]] = {
    NONE: lambda _, _number: None,
    BOOLEAN: lambda _, number: bool(number),
    INTEGER: lambda _, number: unzigzag(number),
    REAL: lambda _, raw: struct.unpack("<d", raw)[0],
    TEXT: lambda _, raw: raw.decode(),
    DATA: lambda _, raw: raw,
    INTEGERS: lambda _, raw: _decode_numbers(raw),
    REALS: lambda _, raw: _decode_reals(raw),
    DTYPE: lambda _, raw: parse_element(raw.decode()),
    TYPE: lambda tables, number: _table_entry(tables.types, number),
    SHAPE: lambda tables, raw: parse_shape(raw.decode(), tables.symbols),
    DIM: lambda tables, raw: parse_dim(raw.decode(), tables.symbols),
    TENSOR: lambda tables, number: _table_entry(tables.tensors, number),
    LIST: lambda _, number: number,
    MAP: lambda _, number: number,
    FUNCTION: lambda _, raw: FunctionRef(raw.decode()),
    LARGE: lambda _, raw: _decode_large(raw),
    COMPLEX: lambda _, raw: _decode_complex(raw),
}


def raise_at(message: str, place: int) -> NoReturn:
    raise FormatError(message, where=f"byte {place}")
