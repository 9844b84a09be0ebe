"""What a call of an op gives: which argument is which port or attribute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from amanda.dictionary.attributes import cast_value
from amanda.dictionary.history import suggest_names
from amanda.dictionary.op_definition import OpDef, Port
from amanda.errors import GraphError
from amanda.graph import Graph

__all__ = ["CallArguments", "bind_arguments"]


class CallArguments(NamedTuple):
    """The arguments of a call, sorted: inputs in the order of the ports, with these."""

    inputs: tuple[tuple[Port, Any], ...]
    attrs: dict[str, Any]
    bodies: dict[str, Graph]


def bind_arguments(
    entry: OpDef, args: Sequence[Any], more: Mapping[str, Any], *, recorded: bool
) -> CallArguments:
    """Arguments told by order and by name, or a `GraphError` that lists the faults.

    With `recorded`, attributes that follow from the ports may be told too.
    """
    values, faults = _by_order(entry, args)
    ports = {port.name: port for port in entry.inputs if port.name}
    known = {a.name: a for a in (*entry.attrs, *(entry.variables if recorded else ()))}
    attrs: dict[str, Any] = {}
    bodies: dict[str, Graph] = {}
    for name, value in more.items():
        if name in values:
            faults.append(f"{name!r} is given twice")
        elif name in ports or name in known:
            values[name] = value
        elif entry.open:
            attrs[name] = value
        else:
            names = [*ports, *known]
            hint = (
                suggest_names(name, names)
                or f"it takes {', '.join(names) or 'nothing'}"
            )
            faults.append(f"has no argument {name!r} ({hint})")
    for name, value in values.items():
        attr = known.get(name) if name not in ports else None
        if attr is not None and isinstance(value, Graph):
            bodies[name] = value
        elif attr is not None and value is not None:
            attrs[name] = cast_value(attr, value)
    if faults:
        raise GraphError(
            f"{entry.name} cannot be called so",
            expected=entry.signature,
            problems=faults,
        )
    return CallArguments(tuple(_inputs(entry, values)), attrs, bodies)


def _by_order(entry: OpDef, args: Sequence[Any]) -> tuple[dict[str, Any], list[str]]:
    """Positional arguments by the name of what they are for."""
    due = entry.arguments()
    values: dict[str, Any] = {}
    for i, part in enumerate(due):
        if i >= len(args):
            break
        key = part.name or f"#{i}"
        last = i == len(due) - 1
        if isinstance(part, Port) and part.repeats and last and not _is_list(args[i:]):
            values[key] = list(args[i:])
            return values, []
        values[key] = args[i]
    faults = []
    if len(args) > len(due):
        faults.append(f"takes {len(due)} arguments by order, {len(args)} are given")
    return values, faults


def _is_list(rest: Sequence[Any]) -> bool:
    return len(rest) == 1 and isinstance(rest[0], list | tuple)


def _inputs(entry: OpDef, values: Mapping[str, Any]) -> Iterator[tuple[Port, Any]]:
    """Every value with its port, in the order in which the op lists its inputs."""
    due = entry.arguments()
    unnamed = {id(part): f"#{i}" for i, part in enumerate(due) if not part.name}
    ports = [part for part in due if isinstance(part, Port)]
    ports += [port for port in entry.inputs if port.keyword]
    keys = [port.name or unnamed[id(port)] for port in ports]
    for key, port in zip(keys, ports, strict=True):
        value = values.get(key)
        if not port.repeats:
            yield port, value
        elif value is not None:
            items = value if isinstance(value, list | tuple) else [value]
            yield from ((port, item) for item in items)
