"""Entries of dictionaries as answers: one in full, many in a line each, differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from amanda.cli.output.answer import Answer

if TYPE_CHECKING:
    from amanda.dictionary import Attr, Difference, OpDef, Port

__all__ = ["definition_data", "difference_answer", "list_row", "one_line"]

_LONG = 76  # characters of a line about an op, in a list


def definition_data(entry: OpDef) -> dict[str, object]:
    """Everything about an entry, as data."""
    deprecated = entry.deprecated
    return {
        "name": entry.name,
        "signature": entry.signature,
        "doc": entry.doc or None,
        "since": entry.since,
        "until": entry.until,
        "inputs": [_port(port) for port in entry.inputs],
        "outputs": [_port(port) for port in entry.outputs],
        "attributes": [_attr(attr) for attr in entry.attrs],
        "variables": [_attr(attr) for attr in entry.variables],
        "traits": sorted(entry.traits),
        "deprecated": deprecated._asdict() if deprecated is not None else None,
        "tags": sorted(entry.tags),
        "open": entry.open,
    }


def _port(port: Port) -> dict[str, object]:
    from amanda.dictionary import format_pattern

    kind = port.type if isinstance(port.type, str) else format_pattern(port.type)
    told = {**port._asdict(), "type": kind, "number": port.number or None}
    return {**told, "alias": port.alias or None, "axes": list(port.axes)}


def _attr(attr: Attr) -> dict[str, object]:
    default, allowed = attr.default, attr.allowed
    return {
        "name": attr.name,
        "kind": attr.kind,
        "required": attr.required,
        "default": None if default is None else _value(attr.kind, default),
        "allowed": [_value(attr.element, value) for value in allowed],
        "minimum": attr.minimum,
        "place": attr.position,
    }


def _value(kind: str, value: Any) -> object:
    """A value as JSON has it, or as signatures write it where JSON has none."""
    from math import isfinite

    from amanda.dictionary import format_literal

    plain = kind.rstrip("?")
    if value is None:
        return None
    if plain.endswith("]"):
        element = plain[: plain.rindex("[")]
        return [_value(element, item) for item in value]
    base = plain.partition("<")[0]
    if base == "enum":
        return str(value)
    if base in ("bool", "int", "string", "dim", "any"):
        return value
    real = isinstance(value, int | float) and base in ("float", "double", "number")
    return value if real and isfinite(value) else format_literal(kind, value)


def list_row(entry: OpDef) -> dict[str, object]:
    """What a list tells of an entry, as data."""
    return {
        "name": entry.name,
        "since": entry.since,
        "signature": entry.signature,
        "doc": entry.doc or None,
        "deprecated": entry.deprecated is not None,
    }


def one_line(entry: OpDef) -> str:
    """What a list tells of an entry, on one line."""
    text = entry.doc or entry.signature.removeprefix(entry.name)
    return text if len(text) <= _LONG else f"{text[: _LONG - 4].rstrip()} ..."


def difference_answer(found: Difference) -> Answer:
    """How two dictionaries differ."""
    data = {
        "old": found.old,
        "new": found.new,
        "added": list(found.added),
        "removed": list(found.removed),
        "changed": [
            {
                "name": change.name,
                "old": change.old.signature,
                "new": change.new.signature,
                "lines": change.lines,
            }
            for change in found.changed
        ],
    }
    return Answer(data, _difference_lines(found))


def _difference_lines(found: Difference) -> Iterator[str]:
    yield from (f"+ {name}" for name in found.added)
    yield from (f"- {name}" for name in found.removed)
    for change in found.changed:
        lines = change.lines or ["is defined anew, and written as before"]
        yield f"~ {change.name}: {'; '.join(lines)}"
    yield f"\n{found}" if found else str(found)
