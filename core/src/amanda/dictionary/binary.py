"""Entries as protobuf messages, for programs in other languages, and back.

The messages stand in graph.proto. What a signature says, a message says in parts.
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


def encode_op_def(entry: OpDef) -> bytes:
    """An entry as a message `Definition` of graph.proto.

    >>> from amanda.dictionary import parse_signature
    >>> entry = parse_signature("Sum(*xs: T, *, axis: int = 0) -> (y: T)  T in {f32}")
    >>> decode_op_def(encode_op_def(entry)) == entry
    True
    """
    gone = entry.deprecated
    return write(
        messages.Definition(
            entry.name,
            [_port(port) for port in entry.inputs],
            [_port(port) for port in entry.outputs],
            [_attr(attr) for attr in entry.attrs],
            [_attr(attr) for attr in entry.variables],
            sorted(entry.traits),
            sorted(entry.tags),
            entry.open,
            messages.DeprecationDefinition(*gone) if gone is not None else None,
            entry.since,
            entry.until or "",
            entry.doc,
        )
    )


def decode_op_def(data: bytes) -> OpDef:
    """The entry of a message `Definition`."""
    told = read(messages.Definition, data, 0, len(data))
    attrs = tuple(map(_read_attr, told.attrs))
    variables = tuple(map(_read_attr, told.variables))
    names = type_names((*attrs, *variables))
    gone = told.deprecated
    return OpDef(
        told.name,
        tuple(_read_port(port, names) for port in told.inputs),
        tuple(_read_port(port, names) for port in told.outputs),
        attrs,
        variables,
        frozenset(told.traits),
        Deprecation(gone.version, gone.why, gone.use) if gone is not None else None,
        told.since,
        told.until or None,
        told.doc,
        frozenset(told.tags),
        told.open,
    )


def _port(port: Port) -> messages.PortDefinition:
    kind = port.type if isinstance(port.type, str) else format_pattern(port.type)
    told = port._replace(type=kind, form="one")._asdict()
    told.update(form=port.form, axes=list(port.axes))
    return messages.PortDefinition(**told)


def _read_port(told: messages.PortDefinition, names: set[str]) -> Port:
    if told.form not in _FORMS:
        raise FormatError("a port has no such form", who=told.name, got=repr(told.form))
    return Port(
        told.name,
        parse_port_type(told.type, names),
        told.form,  # type: ignore[arg-type]
        told.least,
        told.number,
        told.ref,
        told.nullable,
        told.alias,
        tuple(told.axes),
        told.keyword,
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
        attr.place,
    )


def _read_attr(told: messages.AttrDefinition) -> Attr:
    bare = Attr(told.name, told.kind)
    if KIND.fullmatch(told.kind) is None:
        raise FormatError("there is no such kind", who=told.name, got=repr(told.kind))
    default, allowed = iter(told.default), iter(told.allowed)
    return Attr(
        told.name,
        told.kind,
        told.required,
        _value(told.kind, default) if told.default else None,
        tuple(_all(bare.element, allowed)),
        told.minimum,
        BodyArity(told.takes, told.gives) if told.takes else None,
        told.place,
    )


def _literals(kind: str, value: Any) -> Iterator[messages.Literal]:
    plain = kind.rstrip("?")
    if value is None:
        yield messages.Literal()
    elif plain.endswith("]"):
        element = plain[: plain.rindex("[")]
        yield messages.Literal(list=len(value))
        for item in value:
            yield from _literals(element, item)
    else:
        yield _literal(plain, value)


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


def _all(kind: str, told: Iterator[messages.Literal]) -> Iterator[Any]:
    for first in told:
        yield _value(kind, chain([first], told))


def _value(kind: str, told: Iterator[messages.Literal]) -> Any:
    plain = kind.rstrip("?")
    one = next(told, None)
    if one is None:
        raise FormatError("a list of values ends too early", expected=kind)
    if one.list is not None:
        if not plain.endswith("]"):
            raise FormatError(f"a list cannot be a value of the kind {kind}")
        element = plain[: plain.rindex("[")]
        return tuple(_value(element, told) for _ in range(one.list))
    if one.written is not None:
        return parse_literal(plain, SignatureScanner(one.written))
    if one.text is not None and plain.partition("<")[0] == "enum":
        return EnumMember(one.text, one.number)
    for value in (one.boolean, one.integer, one.real, one.text):
        if value is not None:
            return value
    return None
