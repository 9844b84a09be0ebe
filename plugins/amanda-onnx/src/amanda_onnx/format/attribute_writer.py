"""Attribute values as messages, of the kind that the value implies or was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amanda.errors import FormatError
from amanda.formatkit import MessageChunks
from amanda.tensors import Tensor
from amanda.types import Type
from amanda_onnx.format.attribute_reader import CODES, FIELDS, REFERENCE
from amanda_onnx.format.external_data import ExternalDataWriter
from amanda_onnx.format.messages import SCHEMA
from amanda_onnx.format.tensor_writer import sparse_chunks, tensor_chunks
from amanda_onnx.format.value_types import encode_type, matches_bytes

__all__ = ["attribute_chunks", "attribute_kind", "encode_value_type"]

_MESSAGE: Final = "AttributeProto"
_UNDEFINED: Final = "UNDEFINED"
_LIST_KINDS: Final = ("FLOATS", "STRINGS", "TENSORS", "SPARSE_TENSORS", "TYPE_PROTOS")


def attribute_chunks(
    name: str, value: Any, notes: Mapping[str, Any], outside: ExternalDataWriter | None
) -> MessageChunks:
    """An AttributeProto; `notes` is the file record of its op."""
    noted = _fact(notes, "kinds", name)
    reference = isinstance(value, Mapping) and REFERENCE in value
    kind = value.get("kind") if reference else attribute_kind(value)
    if not value and noted in _LIST_KINDS and kind == "INTS":
        kind = noted
    if kind not in CODES:
        raise FormatError(
            f"attribute {name!r} has a value that no ONNX attribute can hold",
            got=f"{type(value).__name__} {value!r:.60}",
        )
    out = MessageChunks(SCHEMA.writer(_MESSAGE).put("name", name).done())
    if not reference:
        beside = _fact(notes, "values", name) or {}
        _put(out, str(kind), value, beside, outside)
    tail = SCHEMA.writer(_MESSAGE).put_if("doc_string", _fact(notes, "docs", name))
    if noted != _UNDEFINED:
        tail.put("type", CODES[str(kind)])
    if reference:
        tail.put("ref_attr_name", value[REFERENCE])
    out.append(tail.put_unknown(_fact(notes, "rests", name) or b"").done())
    return out


def _fact(notes: Mapping[str, Any], key: str, name: str) -> Any:
    found = notes.get(key)
    return found.get(name) if isinstance(found, Mapping) else None


def _put(
    out: MessageChunks,
    kind: str,
    value: Any,
    beside: Any,
    outside: ExternalDataWriter | None,
) -> None:
    field = FIELDS[kind]
    try:
        if kind in ("INT", "FLOAT", "STRING"):
            plain = int(value) if kind == "INT" else value
            out.append(SCHEMA.writer(_MESSAGE).put(field, _check_range(plain)).done())
            return
        if kind in ("INTS", "FLOATS", "STRINGS"):
            for item in value:
                _check_range(item)
            out.append(SCHEMA.writer(_MESSAGE).put_all(field, value).done())
            return
    except OverflowError:
        raise FormatError(
            "a number that does not fit a 32-bit float", got=value
        ) from None
    many = kind.endswith("S")
    values = value if many else [value]
    facts = beside if many and isinstance(beside, list) else [beside]
    facts = [*facts, *[{}] * (len(values) - len(facts))]
    for item, fact in zip(values, facts, strict=False):
        item_facts = fact if isinstance(fact, Mapping) else {}
        out.append_message(
            SCHEMA.tag(_MESSAGE, field), _encode_item(item, item_facts, outside)
        )


def _check_range(value: Any) -> Any:
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        raise FormatError("an integer of more than 64 bits", got=value)
    return value


def _encode_item(
    item: Any, facts: Mapping[str, Any], outside: ExternalDataWriter | None
) -> MessageChunks:
    name = facts.get("name", "")
    if isinstance(item, Tensor):
        return tensor_chunks(name, item, facts, outside)
    if isinstance(item, Type):
        return MessageChunks(encode_value_type(item, facts))
    return sparse_chunks(name, item, facts, outside)


def encode_value_type(
    type_: Type | None, notes: Mapping[str, Any], *, loose: bool = False
) -> bytes:
    """A TypeProto: the bytes that were read, if they still describe the type.

    `loose`: if they are compatible with it; the declared type of a weight may be less
    specific.
    """
    raw = notes.get("type")
    if isinstance(raw, bytes) and matches_bytes(raw, type_, loose=loose):
        return raw
    return encode_type(type_, notes.get("denotation"))


def attribute_kind(value: object) -> str | None:
    """The attribute kind of a value; None where ONNX has none for it.

    >>> [attribute_kind(value) for value in (1, [1.0, 2], "a", None)]
    ['INT', 'FLOATS', 'STRING', None]
    """
    if not isinstance(value, list | tuple):
        return _item_kind(value)
    kinds = {_item_kind(item) for item in value}
    if kinds == {"INT", "FLOAT"}:
        return "FLOATS"
    kind = kinds.pop() if len(kinds) == 1 else None
    return f"{kind}S" if kind else (None if value else "INTS")


def _item_kind(value: object) -> str | None:
    if isinstance(value, int):
        return "INT"
    if isinstance(value, float):
        return "FLOAT"
    if isinstance(value, str | bytes):
        return "STRING"
    if isinstance(value, Tensor):
        return "TENSOR"
    if isinstance(value, Type):
        return "TYPE_PROTO"
    if isinstance(value, Mapping) and set(value) == {"values", "indices", "dims"}:
        return "SPARSE_TENSOR"
    return None
