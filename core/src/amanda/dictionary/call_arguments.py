"""Bind the arguments of a call to the ports and attributes of an op definition."""

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
    """Bound arguments: each input with its port, in order; attributes; bodies."""

    inputs: tuple[tuple[Port, Any], ...]
    attrs: dict[str, Any]
    bodies: dict[str, Graph]


def bind_arguments(
    op_def: OpDef, args: Sequence[Any], kwargs: Mapping[str, Any], *, recorded: bool
) -> CallArguments:
    """Bind positional and keyword arguments, or raise a `GraphError` with all faults.

    With `recorded`, attributes that are inferred from the inputs may be passed too.
    """
    values, faults = _bind_positional(op_def, args)
    ports = {port.name: port for port in op_def.inputs if port.name}
    variables = op_def.variables if recorded else ()
    known = {attr.name: attr for attr in (*op_def.attrs, *variables)}
    attrs: dict[str, Any] = {}
    bodies: dict[str, Graph] = {}
    for name, value in kwargs.items():
        if name in values:
            faults.append(f"got multiple values for {name!r}")
        elif name in ports or name in known:
            values[name] = value
        elif op_def.open:
            attrs[name] = value
        else:
            names = [*ports, *known]
            valid = f"valid are {', '.join(names) or 'none'}"
            hint = suggest_names(name, names) or valid
            faults.append(f"has no argument {name!r} ({hint})")
    for name, value in values.items():
        attr = known.get(name) if name not in ports else None
        if attr is not None and isinstance(value, Graph):
            bodies[name] = value
        elif attr is not None and value is not None:
            attrs[name] = cast_value(attr, value)
    if faults:
        raise GraphError(
            f"invalid arguments for {op_def.name}",
            expected=op_def.signature,
            problems=faults,
        )
    return CallArguments(tuple(_inputs_with_ports(op_def, values)), attrs, bodies)


def _bind_positional(
    op_def: OpDef, args: Sequence[Any]
) -> tuple[dict[str, Any], list[str]]:
    """Positional arguments by name (`#i` without one), and faults."""
    parameters = op_def.arguments()
    values: dict[str, Any] = {}
    for i, parameter in enumerate(parameters):
        if i >= len(args):
            break
        key = parameter.name or f"#{i}"
        is_variadic = isinstance(parameter, Port) and parameter.repeats
        is_last = i == len(parameters) - 1
        if is_variadic and is_last and not _is_one_list(args[i:]):
            values[key] = list(args[i:])
            return values, []
        values[key] = args[i]
    faults = []
    if len(args) > len(parameters):
        count = len(parameters)
        faults.append(f"expected {count} positional arguments, got {len(args)}")
    return values, faults


def _is_one_list(rest: Sequence[Any]) -> bool:
    return len(rest) == 1 and isinstance(rest[0], list | tuple)


def _inputs_with_ports(
    op_def: OpDef, values: Mapping[str, Any]
) -> Iterator[tuple[Port, Any]]:
    """Every input value with its port, in the order of the op's inputs."""
    parameters = op_def.arguments()
    unnamed = {id(part): f"#{i}" for i, part in enumerate(parameters) if not part.name}
    ports = [part for part in parameters if isinstance(part, Port)]
    ports += [port for port in op_def.inputs if port.keyword]
    for port in ports:
        value = values.get(port.name or unnamed[id(port)])
        if not port.repeats:
            yield port, value
        elif value is not None:
            items = value if isinstance(value, list | tuple) else [value]
            yield from ((port, item) for item in items)
