"""Op definitions as protobuf messages, for programs in other languages, and back.

graph.proto defines the messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from amanda.dictionary.literals import format_literal, parse_literal
from amanda.dictionary.op_definition import (
    Attr,
    BodyArity,
    Deprecation,
    EnumMember,
    OpDef,
    Port,
)
from amanda.dictionary.signature import KIND, parse_port_type, type_names
from amanda.dictionary.type_patterns import SignatureScanner, format_pattern
from amanda.errors import FormatError
from amanda.files.binary import dictionary_messages as messages
from amanda.files.binary.messages import read, write

__all__ = ["decode_op_def", "encode_op_def"]

_INTS = range(-(1 << 63), 1 << 63)
_FORMS = frozenset({"one", "optional", "many", "each", "count", "list"})


def encode_op_def(op_def: OpDef) -> bytes:
    """Encode a definition as a message `Definition` of graph.proto.

    >>> from amanda.dictionary import parse_signature
    >>> op_def = parse_signature("Sum(*xs: T, *, axis: int = 0) -> (y: T)  T in {f32}")
    >>> decode_op_def(encode_op_def(op_def)) == op_def
    True
    """
    deprecated = op_def.deprecated
    return write(
        messages.Definition(
            op_def.name,
            [_port(port) for port in op_def.inputs],
            [_port(port) for port in op_def.outputs],
            [_attr(attr) for attr in op_def.attrs],
            [_attr(attr) for attr in op_def.variables],
            sorted(op_def.traits),
            sorted(op_def.tags),
            op_def.open,
            messages.DeprecationDefinition(*deprecated) if deprecated else None,
            op_def.since,
            op_def.until or "",
            op_def.doc,
        )
    )


def decode_op_def(data: bytes) -> OpDef:
    """Decode a message `Definition`."""
    message = read(messages.Definition, data, 0, len(data))
    attrs = tuple(map(_read_attr, message.attrs))
    variables = tuple(map(_read_attr, message.variables))
    names = type_names((*attrs, *variables))
    deprecated = message.deprecated
    return OpDef(
        message.name,
        tuple(_read_port(port, names) for port in message.inputs),
        tuple(_read_port(port, names) for port in message.outputs),
        attrs,
        variables,
        frozenset(message.traits),
        Deprecation(deprecated.version, deprecated.why, deprecated.use)
        if deprecated is not None
        else None,
        message.since,
        message.until or None,
        message.doc,
        frozenset(message.tags),
        message.open,
    )


def _port(port: Port) -> messages.PortDefinition:
    kind = port.type if isinstance(port.type, str) else format_pattern(port.type)
    fields = port._replace(type=kind, form="one")._asdict()
    fields.update(form=port.form, axes=list(port.axes))
    return messages.PortDefinition(**fields)


def _read_port(message: messages.PortDefinition, names: set[str]) -> Port:
    if message.form not in _FORMS:
        raise FormatError(
            "unknown form of a port", who=message.name, got=repr(message.form)
        )
    return Port(
        message.name,
        parse_port_type(message.type, names),
        message.form,  # type: ignore[arg-type]
        message.least,
        message.number,
        message.ref,
        message.nullable,
        message.alias,
        tuple(message.axes),
        message.keyword,
        message.doc,
    )


def _attr(attr: Attr) -> messages.AttrDefinition:
    body = attr.body or BodyArity("", "")
    default: list[messages.Literal] = []
    if attr.default is not None:
        default += _literals(attr.kind, attr.default)
    allowed = [one for item in attr.allowed for one in _literals(attr.element, item)]
    return messages.AttrDefinition(
        attr.name,
        attr.kind,
        attr.required,
        default,
        allowed,
        attr.minimum,
        *body,
        attr.position,
        attr.doc,
        list(attr.bounds or ()),
    )


def _read_attr(message: messages.AttrDefinition) -> Attr:
    attr = Attr(message.name, message.kind)
    if KIND.fullmatch(message.kind) is None:
        raise FormatError(
            "unknown kind of attribute", who=message.name, got=repr(message.kind)
        )
    default, allowed = iter(message.default), iter(message.allowed)
    return Attr(
        message.name,
        message.kind,
        message.required,
        _read_value(message.kind, default) if message.default else None,
        tuple(_read_values(attr.element, allowed)),
        message.minimum,
        BodyArity(message.takes, message.gives) if message.takes else None,
        message.place,
        message.doc,
        _read_bounds(message),
    )


def _read_bounds(message: messages.AttrDefinition) -> tuple[int, int] | None:
    match message.bounds:
        case []:
            return None
        case [least, most]:
            return least, most
    raise FormatError(
        "bounds are two numbers", who=message.name, got=str(message.bounds)
    )


def _literals(kind: str, value: Any) -> Iterator[messages.Literal]:
    base = kind.rstrip("?")
    if value is None:
        yield messages.Literal()
    elif base.endswith("]"):
        element = base[: base.rindex("[")]
        yield messages.Literal(list=len(value))
        for item in value:
            yield from _literals(element, item)
    else:
        yield _literal(base, value)


def _literal(kind: str, value: Any) -> messages.Literal:
    if kind.partition("<")[0] in ("any", "sparse"):
        return messages.Literal(written=format_literal(kind, value))
    if isinstance(value, bool):
        return messages.Literal(boolean=value)
    if isinstance(value, int) and value in _INTS:
        return messages.Literal(integer=value)
    if isinstance(value, float):
        return messages.Literal(real=value)
    if isinstance(value, str):
        number = getattr(value, "number", None)
        return messages.Literal(text=str(value), number=number)
    return messages.Literal(written=format_literal(kind, value))


def _read_values(kind: str, values: Iterator[messages.Literal]) -> Iterator[Any]:
    for first in values:
        yield _read_value(kind, chain([first], values))


def _read_value(kind: str, values: Iterator[messages.Literal]) -> Any:
    base = kind.rstrip("?")
    one = next(values, None)
    if one is None:
        raise FormatError("a list of values is incomplete", expected=kind)
    if one.list is not None:
        if not base.endswith("]"):
            raise FormatError(f"a list cannot be a value of the kind {kind}")
        element = base[: base.rindex("[")]
        return tuple(_read_value(element, values) for _ in range(one.list))
    if one.written is not None:
        return parse_literal(base, SignatureScanner(one.written))
    if one.text is not None and base.partition("<")[0] == "enum":
        return EnumMember(one.text, one.number)
    for value in (one.boolean, one.integer, one.real, one.text):
        if value is not None:
            return value
    return None
