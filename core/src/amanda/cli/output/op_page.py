"""One op with its context, for `amanda show --op`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from amanda.cli.output.answer import Table

if TYPE_CHECKING:
    from amanda.graph import Graph, InputPort, Op, OutputPort, ScopeTable

__all__ = ["op_data", "ops_named", "op_text"]

_LONG = 200  # characters of an attribute before truncation
_USERS = 10  # users listed in one line


def ops_named(root: Graph, name: str) -> list[Op]:
    """All ops of a name, also in bodies and nested graphs."""
    return [op for op in root.walk() if op.name == name]


def op_data(
    op: Op, table: ScopeTable | None = None, *, full: bool = False
) -> dict[str, object]:
    """One op as JSON data; `table` has the modules of ops."""
    provenance = op.provenance
    scope = None if table is None else table.scope_of(op)
    return {
        "name": op.name,
        "type": op.type,
        "namespace": op.namespace,
        "path": path_of(op),
        "inputs": [
            {
                "name": port.name,
                "from": _source_label(port),
                "type": _type_text(port.source),
            }
            for port in op.input_ports
        ],
        "outputs": [
            {
                "name": port.name,
                "type": _type_text(port),
                "to": [_user_label(user) for user in port.users],
                "marks": sorted(port.marks),
            }
            for port in op.outputs
        ],
        "attributes": {
            k: format_attribute(v, full=full) for k, v in sorted(op.attrs.items())
        },
        "bodies": {key: len(body) for key, body in op.bodies.items()},
        "after": [before.short for before in op.control_inputs],
        "before": [after.short for after in op.control_outputs],
        "made_by": provenance.by if provenance else None,
        "made_from": list(provenance.sources) if provenance else [],
        "modules": list(scope.modules) if scope else [],
        "classes": list(scope.classes) if scope else [],
        "line": scope.line if scope else None,
    }


def op_text(
    op: Op, table: ScopeTable | None = None, *, full: bool = False
) -> Iterator[str | Table]:
    """One op as text."""
    data: dict[str, Any] = op_data(op, table, full=full)
    bodies = (f"{key} ({count} ops)" for key, count in data["bodies"].items())
    facts = {
        "op": op.label,
        "in": " / ".join(data["path"]),
        "namespace": data["namespace"],
        "made by": data["made_by"],
        "made from": ", ".join(data["made_from"]),
        "module": next((path for path in reversed(data["modules"]) if path), None),
        "class": next(reversed(data["classes"]), None),
        "line": data["line"],
        "after": ", ".join(data["after"]),
        "before": ", ".join(data["before"]),
        "bodies": ", ".join(bodies),
    }
    yield from (f"{name:10} {fact}" for name, fact in facts.items() if fact)
    yield from _table(
        ("input", "from", "type"),
        [
            (_name(i, p), p["from"] or "-", p["type"] or "?")
            for i, p in _rows(data, "in")
        ],
    )
    yield from _table(
        ("output", "type", "to"),
        [
            (_name(i, p), p["type"] or "?", _join_first(p["to"], full=full))
            for i, p in _rows(data, "out")
        ],
    )
    yield from _table(("attribute", "value"), list(data["attributes"].items()))


def path_of(op: Op) -> list[str]:
    """The enclosing graphs of an op, outermost first: names, or names of bodies."""
    path: list[str] = []
    graph = op.graph
    while graph is not None:
        holder = graph.holder
        around = holder if holder is not None else graph
        part = graph.name or graph.type or "graph"
        if holder is not None:
            part = f"{holder.short}.{graph.body_name}"
        path.append(part)
        graph = around.graph
    return path[::-1]


def format_attribute(value: object, *, full: bool = False) -> str:
    """An attribute value on one line, truncated if it is long.

    >>> format_attribute([1, 2]), format_attribute("a"), format_attribute(b"xy")
    ('[1, 2]', "'a'", "b'xy'")
    """
    from amanda.tensors import Tensor

    if isinstance(value, Tensor):
        return f"tensor {value.type}, {value.nbytes} bytes"
    text = repr(value) if isinstance(value, str | bytes) else str(value)
    if full or len(text) <= _LONG:
        return text
    return f"{text[:_LONG]}... ({len(text)} characters)"


def _source_label(port: InputPort) -> str | None:
    return None if port.source is None else _value_label(port.source)


def _value_label(port: OutputPort) -> str:
    """The label of an output: the op, and the index if there are several."""
    from amanda.graph import Parameter

    if isinstance(port, Parameter):
        return port.name or f"parameter #{port.index}"
    own = port.op.name or port.op.label
    return own if len(port.op.outputs) == 1 else f"{own}:{port.index}"


def _user_label(port: InputPort) -> str:
    if port.inner:
        return f"result {port.name or f'#{port.index}'}"
    return f"{port.op.name or port.op.label} (input {port.name or port.index})"


def _type_text(port: OutputPort | None) -> str | None:
    return None if port is None or port.type is None else str(port.type)


def _rows(data: dict[str, Any], side: str) -> Iterator[tuple[int, dict[str, Any]]]:
    return enumerate(data[f"{side}puts"])


def _name(index: int, port: dict[str, Any]) -> str:
    return port["name"] or f"#{index}"


def _join_first(names: list[str], *, full: bool) -> str:
    shown = names if full else names[:_USERS]
    more = len(names) - len(shown)
    return ", ".join([*shown, *([f"and {more} more"] if more else [])]) or "nothing"


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[Any]:
    if rows:
        yield ""
        yield Table(headings, rows)
