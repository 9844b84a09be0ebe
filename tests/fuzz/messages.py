"""Changes of protobuf messages that leave a valid message with other content."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from proto.proto_mutations import break_bytes, value_of

from amanda.formatkit import ProtoSchema, message_classes

__all__ = ["change_message"]

_KINDS = {1: "double", 2: "double", 8: "bool", 9: "string", 12: "bytes"}
"""The kinds of values of the field types of protobuf; all others are integers."""
_WORDS = (0, 1, 2, -1, -2, 3, 7, 24, 101, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1)


@cache
def _message_class(schema: ProtoSchema, name: str) -> Any:
    return message_classes(schema)[name]


def change_message(
    schema: ProtoSchema, name: str, data: bytes, choose: random.Random
) -> bytes:
    """One to four changes of fields, or of bytes."""
    if choose.random() < 0.2:
        return break_bytes(data, choose)
    root = _message_class(schema, name).FromString(data)
    for _ in range(choose.choice([1, 1, 1, 2, 4])):
        messages = list(_walk(root))
        _change(choose.choice(messages), messages, choose)
    return bytes(root.SerializeToString())


def _walk(message: Any) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if _is_map(field):
            values = value.values() if field.message_type.fields[1].message_type else ()
            for inner in values:
                yield from _walk(inner)
        elif field.message_type:
            for inner in value if _is_repeated(field) else [value]:
                yield from _walk(inner)


def _is_map(field: Any) -> bool:
    kind = field.message_type
    return bool(kind and kind.GetOptions().map_entry)


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _change(message: Any, messages: list[Any], choose: random.Random) -> None:
    """Some field: mostly one that is set."""
    there = [field for field, _ in message.ListFields()]
    if not there or choose.random() < 0.3:
        there = list(message.DESCRIPTOR.fields)
    if not there:
        return
    field = choose.choice(there)
    same = [m for m in messages if m.DESCRIPTOR is field.message_type]
    if _is_map(field):
        _change_map(field, getattr(message, field.name), messages, choose)
    elif _is_repeated(field):
        _change_list(field, getattr(message, field.name), same, messages, choose)
    elif choose.random() < 0.2:
        message.ClearField(field.name)
    elif field.message_type:
        getattr(message, field.name).SetInParent()
        if same:
            getattr(message, field.name).CopyFrom(_copy(choose.choice(same)))
    else:
        setattr(message, field.name, _value(field, messages, choose))


def _change_map(
    field: Any, items: Any, messages: list[Any], choose: random.Random
) -> None:
    keys = list(items)
    if not keys:
        return
    key = choose.choice(keys)
    what = choose.randrange(3)
    if what == 0:
        del items[key]
        return
    target = choose.choice(keys if what == 1 else _texts(messages))
    value = field.message_type.fields_by_name["value"]
    if value.message_type:
        items[target].CopyFrom(_copy(items[key]))
    else:
        items[target] = _value(value, messages, choose)


def _change_list(
    field: Any, items: Any, same: list[Any], messages: list[Any], choose: random.Random
) -> None:
    at = choose.randrange(len(items)) if len(items) else 0
    what = choose.randrange(4)
    if what == 0 and len(items):
        del items[at]
    elif field.message_type:
        new = items.add()
        if same and what > 1:
            new.CopyFrom(_copy(choose.choice(same)))
    elif what == 1 and len(items):
        items[at] = _value(field, messages, choose)
    else:
        items.append(_value(field, messages, choose))


def _copy(message: Any) -> Any:
    other = type(message)()
    other.CopyFrom(message)
    return other


def _texts(messages: list[Any]) -> list[str]:
    """Texts of the file, and others."""
    found = ["", "x", "^x", "x:1", "x:9", "T", "_output_shapes", "value", "\0", "é"]
    for message in messages:
        for field, value in message.ListFields():
            if field.type == field.TYPE_STRING:
                found += value if _is_repeated(field) else [value]
    return found


def _value(field: Any, messages: list[Any], choose: random.Random) -> Any:
    if field.type == field.TYPE_STRING:
        return choose.choice(_texts(messages))
    if field.type == field.TYPE_ENUM:
        return choose.choice([v.number for v in field.enum_type.values])
    if field.type in _KINDS:
        return value_of(_KINDS[field.type], choose)
    number = choose.choice(_WORDS)
    if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        number = abs(number)
    if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32):
        number = number if -(1 << 31) <= number < 1 << 31 else 5
    return number
