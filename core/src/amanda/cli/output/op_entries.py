"""Format op definitions for output: in full, in lists, and differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from amanda.cli.output.answer import Answer

if TYPE_CHECKING:
    from amanda.dictionary import Attr, Difference, OpDef, Port

__all__ = ["definition_data", "difference_answer", "list_row", "one_line"]

_LONG = 76  # characters of an op's line in a list


def definition_data(op_def: OpDef) -> dict[str, object]:
    """A definition as JSON data."""
    deprecated = op_def.deprecated
    return {
        "name": op_def.name,
        "signature": op_def.signature,
        "doc": op_def.doc or None,
        "since": op_def.since,
        "until": op_def.until,
        "inputs": [_port(port) for port in op_def.inputs],
        "outputs": [_port(port) for port in op_def.outputs],
        "attributes": [_attr(attr) for attr in op_def.attrs],
        "variables": [_attr(attr) for attr in op_def.variables],
        "traits": sorted(op_def.traits),
        "deprecated": deprecated._asdict() if deprecated is not None else None,
        "tags": sorted(op_def.tags),
        "open": op_def.open,
    }


def _port(port: Port) -> dict[str, object]:
    from amanda.dictionary import format_pattern

    kind = port.type if isinstance(port.type, str) else format_pattern(port.type)
    fields = {**port._asdict(), "type": kind, "number": port.number or None}
    fields |= {"alias": port.alias or None, "axes": list(port.axes)}
    return {**fields, "doc": port.doc or None}


def _attr(attr: Attr) -> dict[str, object]:
    default, allowed = attr.default, attr.allowed
    return {
        "name": attr.name,
        "kind": attr.kind,
        "required": attr.required,
        "default": None if default is None else _value(attr.kind, default),
        "allowed": [_value(attr.element, value) for value in allowed],
        "minimum": attr.minimum,
        "bounds": attr.bounds,
        "place": attr.position,
        "doc": attr.doc or None,
    }


def _value(kind: str, value: Any) -> object:
    """A value for JSON, as literal text if JSON has no equivalent."""
    from math import isfinite

    from amanda.dictionary import format_literal

    base_kind = kind.rstrip("?")
    if value is None:
        return None
    if base_kind.endswith("]"):
        element = base_kind[: base_kind.rindex("[")]
        return [_value(element, item) for item in value]
    base = base_kind.partition("<")[0]
    if base == "enum":
        return str(value)
    if base in ("bool", "int", "string", "dim", "any"):
        return value
    real = isinstance(value, int | float) and base in ("float", "double", "number")
    return value if real and isfinite(value) else format_literal(kind, value)


def list_row(op_def: OpDef) -> dict[str, object]:
    """The row of a definition in a list, as JSON data."""
    return {
        "name": op_def.name,
        "since": op_def.since,
        "signature": op_def.signature,
        "doc": op_def.doc or None,
        "deprecated": op_def.deprecated is not None,
        "tags": sorted(op_def.tags),
    }


def one_line(op_def: OpDef) -> str:
    """The line of a definition in a list."""
    text = op_def.doc or op_def.signature.removeprefix(op_def.name)
    return text if len(text) <= _LONG else f"{text[: _LONG - 4].rstrip()} ..."


def difference_answer(found: Difference) -> Answer:
    """The differences of two dictionaries."""
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
        lines = change.lines or ["has a new definition with the same signature"]
        yield f"~ {change.name}: {'; '.join(lines)}"
    yield f"\n{found}" if found else str(found)
