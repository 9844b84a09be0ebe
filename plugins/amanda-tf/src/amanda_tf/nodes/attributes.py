"""AttrValue as attribute values.

    s              str, bytes where it is not UTF-8
    i, f, b        int, float, bool
    type, shape    DType, Shape
    tensor, func   Tensor, FunctionRef
    list           a list of these
    placeholder    {"tensorflow:placeholder": the name of an attribute of the function}

What none of these can hold, such as a tensor of handles, is
{"tensorflow:raw": the bytes of the AttrValue}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from amanda.errors import AmandaError, FormatError
from amanda.formatkit import UNKNOWN_FIELDS, MessageChunks, MessageFile, Span
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Shape, Sym
from amanda_tf.messages import ELEMENT_TYPES, REF, SCHEMA
from amanda_tf.tensors import (
    encode_shape,
    is_supported,
    read_shape,
    read_tensor,
    tensor_chunks,
)

__all__ = [
    "attribute_chunks",
    "copier_of",
    "read_attribute",
    "read_entry",
]

PLACEHOLDER: Final = "tensorflow:placeholder"
RAW: Final = "tensorflow:raw"
_SMALL: Final = 64
"""The most bytes of an attribute whose value is remembered."""
_ENTRY: Final = 96
"""The same, with the name of the attribute."""


def read_entry(
    file: MessageFile, span: Span, node: str
) -> tuple[str, Any, dict[str, Any]]:
    """The name of an attribute of a node, its value, and how that was written.

    Other nodes may have the same object as their value: see `copier_of`."""
    if span[1] - span[0] <= _ENTRY:
        try:
            name, value, facts = _read_small_entry(bytes(file.data[span[0] : span[1]]))
        except AmandaError:  # again, for the place of the error in the file
            return _read_entry(file, span, node)
        return name, value, facts
    return _read_entry(file, span, node)


@lru_cache(1 << 12)
def _read_small_entry(raw: bytes) -> tuple[str, Any, dict[str, Any]]:
    return _read_entry(MessageFile(memoryview(raw)), (0, len(raw)), "")


def _read_entry(
    file: MessageFile, span: Span, node: str
) -> tuple[str, Any, dict[str, Any]]:
    entry = SCHEMA.read("NodeDef.AttrEntry", file.data, *span)
    name, at = entry.get("key", ""), entry.get("value", (span[1], span[1]))
    try:
        return name, *read_attribute(file, at)
    except AmandaError as error:
        error.who = error.who or f"{name} of {node!r}"
        raise


def read_attribute(file: MessageFile, span: Span) -> tuple[Any, dict[str, Any]]:
    """A value, and how it was written where `attribute_chunks` would do otherwise."""
    if span[1] - span[0] > _SMALL:
        return _read_attribute(file, span)
    try:
        value, facts = _read_small(bytes(file.data[span[0] : span[1]]))
    except AmandaError:  # again, for the place of the error in the file
        return _read_attribute(file, span)
    return own_value(value), dict(facts)


def is_shared(value: Any) -> bool:
    """Whether several nodes can have this object as their value: it cannot be changed,
    and has no unknown dims, which are equal only to themselves."""
    if isinstance(value, Shape):
        return not value.has_rank or all(isinstance(dim, int) for dim in value.dims)
    return not isinstance(value, list | dict)


def copier_of(value: Any) -> Callable[[Any], Any] | None:
    """What copies a value for each node that has it; None if nodes can share it."""
    if is_shared(value):
        return None
    is_flat = isinstance(value, list) and all(map(is_shared, value))
    return list.copy if is_flat else own_value


def own_value(value: Any) -> Any:
    """A value that was read before, for another node."""
    if is_shared(value):
        return value
    if isinstance(value, Shape):
        dims = [dim if isinstance(dim, int) else Sym.unknown() for dim in value.dims]
        return Shape(dims)
    if isinstance(value, list):
        return [own_value(each) for each in value]
    return value.copy()


@lru_cache(1 << 12)
def _read_small(raw: bytes) -> tuple[Any, dict[str, Any]]:
    """A value from its bytes: most attributes have one of few values."""
    return _read_attribute(MessageFile(memoryview(raw)), (0, len(raw)))


def _read_attribute(file: MessageFile, span: Span) -> tuple[Any, dict[str, Any]]:
    fields = SCHEMA.read("AttrValue", file.data, *span)
    if not fields:
        return None, {}
    (kind, given), *more = fields.items()
    if kind == "tensor" and not more and is_supported(file.data, given):
        return read_tensor(file, given)
    if kind == "s" and given == (span[0] + 2, span[1]):  # a tag, a length, the text
        return _decode_bytes(bytes(file.data[given[0] : given[1]])), {}
    raw = bytes(file.data[span[0] : span[1]])
    value = {RAW: raw} if more else _read_value(file, kind, given, raw)
    return value, {} if encode_attribute(value) == raw else {"raw": raw}


def _read_value(file: MessageFile, kind: str, given: Any, raw: bytes) -> Any:
    if kind == "placeholder":
        return {PLACEHOLDER: given}
    if kind == "list":
        fields = SCHEMA.read("AttrValue.ListValue", file.data, *given)
        if len(fields) > 1 or UNKNOWN_FIELDS in fields:
            return {RAW: raw}
        values = [
            _read_value(file, name, each, raw)
            for name, items in fields.items()
            for each in items
        ]
        return (
            {RAW: raw} if any(isinstance(each, Mapping) for each in values) else values
        )
    if kind == "s":
        return _decode_bytes(bytes(file.data[given[0] : given[1]]))
    if kind == "type":
        return ELEMENT_TYPES.dtype(given - REF if given > REF else given)
    if kind == "shape":
        return read_shape(file.data, given)
    if kind == "func":
        name = SCHEMA.read("NameAttrList", file.data, *given).get("name")
        return FunctionRef(name) if name else {RAW: raw}
    if kind == "tensor":
        return (
            read_tensor(file, given)[0]
            if is_supported(file.data, given)
            else {RAW: raw}
        )
    return given if kind in ("i", "f", "b") else {RAW: raw}


def _decode_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def attribute_chunks(value: Any, facts: Mapping[str, Any]) -> MessageChunks:
    """An AttrValue; written as `facts` say, as far as they fit the value."""
    if not isinstance(value, Tensor):
        raw, encoded = facts.get("raw"), encode_attribute(value)
        is_same = isinstance(raw, bytes) and _encode_again(raw) == encoded
        return MessageChunks(raw if is_same and raw is not None else encoded)
    out = MessageChunks()
    out.append_message(SCHEMA.tag("AttrValue", "tensor"), tensor_chunks(value, facts))
    return out


def _encode_again(raw: bytes) -> bytes:
    """An AttrValue as its value is encoded, which may lack details of it."""
    value, _ = read_attribute(MessageFile(memoryview(raw)), (0, len(raw)))
    return encode_attribute(value)


def encode_attribute(value: Any) -> bytes:
    """The bytes of an AttrValue."""
    if value is None:
        return b""
    if isinstance(value, Mapping) and len(value) == 1 and RAW in value:
        return bytes(value[RAW])
    writer = SCHEMA.writer("AttrValue")
    if isinstance(value, Mapping) and len(value) == 1 and PLACEHOLDER in value:
        return writer.put("placeholder", value[PLACEHOLDER]).done()
    if not isinstance(value, list | tuple):
        return writer.put(*_encode_value(value)).done()
    items = [_encode_value(each) for each in value]
    kinds = {kind for kind, _ in items}
    if len(kinds) > 1:
        raise FormatError("TensorFlow has no lists of several types", got=value)
    inner = SCHEMA.writer("AttrValue.ListValue")
    for kind in kinds:
        inner.put_all(kind, [each for _, each in items])
    return writer.put("list", inner.done()).done()


def _encode_value(value: Any) -> tuple[str, Any]:
    """The field of one value, and what to write there."""
    match value:
        case bool():
            return "b", value
        case int():
            return "i", value
        case float():
            return "f", value
        case str() | bytes():
            return "s", value
        case DType():
            return "type", ELEMENT_TYPES.code(value)
        case Shape():
            return "shape", encode_shape(value)
        case FunctionRef():
            return "func", SCHEMA.writer("NameAttrList").put("name", value.name).done()
        case list() | tuple() if all(type(dim) is int for dim in value):
            # A list in a list can only be a shape, as in `_output_shapes`.
            dims = [Sym.unknown() if dim < 0 else dim for dim in value]
            return "shape", encode_shape(Shape(dims))
        case Tensor():
            chunks = tensor_chunks(value, {})
            return "tensor", b"".join(
                part if isinstance(part, bytes) else b"".join(part.chunks())
                for part in chunks.parts
            )
    raise FormatError(
        "TensorFlow has no attribute values of this type", got=type(value).__name__
    )
