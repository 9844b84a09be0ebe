"""How the arguments of a node become the inputs and attributes of an op.

Both ways follow from the op definition: which arguments are ports, which are
positional, and which are lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from amanda.graph import Graph, Op, OutputPort

if TYPE_CHECKING:
    from amanda.dictionary import Attr, OpDef

__all__ = ["Argument", "CallLayout", "OpInputs", "arguments_of"]


class OpInputs(NamedTuple):
    """The inputs, attributes and bodies of an op; `names` are of its last inputs."""

    values: list[OutputPort | None]
    names: list[tuple[int, str]]
    attrs: dict[str, Any]
    bodies: dict[str, Graph]


class Argument(NamedTuple):
    """An argument: a value, a constant, a graph, or a list or dict of these."""

    name: str
    value: Any


class CallLayout:
    """The arguments of one op type."""

    def __init__(self, op_def: OpDef | None) -> None:
        self.op_def = op_def
        inputs = () if op_def is None else op_def.inputs
        self.ports = {port.name: port for port in inputs}
        self.variadic = [port.name for port in inputs if port.repeats]
        self.attrs: Mapping[str, Attr] = {} if op_def is None else op_def.attrs_by_name

    @cached_property
    def positional(self) -> list[str]:
        """The names of the positional arguments, in order."""
        return [] if self.op_def is None else [a.name for a in self.op_def.arguments()]

    @cached_property
    def optional(self) -> frozenset[str]:
        """The names of the arguments that have a default."""
        ports = [name for name, port in self.ports.items() if port.form == "optional"]
        attrs = [name for name, attr in self.attrs.items() if not attr.required]
        return frozenset(ports + attrs)

    @cached_property
    def outputs_list(self) -> bool:
        """Whether the outputs are one list."""
        outputs = () if self.op_def is None else self.op_def.outputs
        return len(outputs) == 1 and outputs[0].repeats and outputs[0].type != "any"

    def inputs(self, arguments: list[Argument]) -> OpInputs:
        """The inputs and attributes of an op with these arguments."""
        found = OpInputs([], [], {}, {})
        slots: dict[str, list[OutputPort | None]] = {}
        more: list[tuple[str, OutputPort]] = []
        for name, value in arguments:
            if isinstance(value, Graph):
                found.bodies[name] = value
            elif (
                name in self.ports
                and (items := _port_values(value, name in self.variadic)) is not None
            ):
                slots[name] = items
            elif value.__class__ is OutputPort or isinstance(value, OutputPort):
                more.append((name, value))
            else:
                found.attrs[name] = _without_values(value, name, more, found.bodies)
        named = bool(self.variadic) and (bool(more) or len(self.variadic) > 1)
        size = 0
        for name in self.ports:
            is_list = name in self.variadic
            items = slots.get(name, [] if is_list else [None])
            if named and is_list:
                at = len(found.values)
                found.names.extend((at + i, f"{name}.{i}") for i in range(len(items)))
            found.values.extend(items)
            if items and (is_list or items[0] is not None):
                size = len(found.values)
        del found.values[size:]
        for name, value in more:
            found.names.append((len(found.values), name))
            found.values.append(value)
        return found


def _port_values(value: Any, is_list: bool) -> list[OutputPort | None] | None:
    """The values for a port; None if the argument is something else, a number say."""
    if not is_list:
        return [value] if value is None or isinstance(value, OutputPort) else None
    if isinstance(value, OutputPort):
        return None
    items = [] if value is None else value
    if not isinstance(items, list):
        return None
    return items if all(i is None or isinstance(i, OutputPort) for i in items) else None


def _without_values(
    value: Any,
    path: str,
    values: list[tuple[str, OutputPort]],
    bodies: dict[str, Graph],
) -> Any:
    """An argument as an attribute: with null in the place of each value."""
    if isinstance(value, OutputPort):
        values.append((path, value))
        return None
    if isinstance(value, Graph):
        bodies[path] = value
        return None
    if isinstance(value, list):
        return [
            _without_values(item, f"{path}.{i}", values, bodies)
            for i, item in enumerate(value)
        ]
    if isinstance(value, dict):
        return {
            key: _without_values(item, f"{path}.{key}", values, bodies)
            for key, item in value.items()
        }
    return value


def arguments_of(op: Op, layout: CallLayout) -> dict[str, Any]:
    """The arguments of an op by name, as they were before `inputs`.

    A variadic port has a list; what is null in an attribute and an input is that
        value.
    """
    found: dict[str, Any] = {}
    unnamed: list[OutputPort | None] = []
    named: list[tuple[str, OutputPort | None]] = []
    for port in op.input_ports:
        if port.name is None:
            unnamed.append(port.source)
        else:
            named.append((port.name, port.source))
    if not any(name.partition(".")[0] in layout.variadic for name, _ in named):
        _bind(unnamed, layout, found)
    else:
        singles = [name for name in layout.ports if name not in layout.variadic]
        found |= zip(singles, unnamed, strict=False)
    found = {name: value for name, value in found.items() if value is not None}
    for key, value in op.attrs.items():
        if not key.startswith("x-") and ":" not in key:
            found[key] = _copy_value(value)
    found |= op.bodies
    for name, value in named:
        _put(found, name.split("."), value)
    return found


def _bind(
    values: list[OutputPort | None], layout: CallLayout, found: dict[str, Any]
) -> None:
    """Bind inputs to ports by position."""
    singles = len(layout.ports) - len(layout.variadic)
    rest = list(values)
    for name in layout.ports:
        if name in layout.variadic:
            count = max(len(rest) - (singles - len(found)), 0)
            found[name], rest = rest[:count], rest[count:]
        elif rest:
            found[name] = rest.pop(0)


def _copy_value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_copy_value(item) for item in value]
    if isinstance(value, dict):
        return {key: _copy_value(item) for key, item in value.items()}
    return value


def _put(found: dict[str, Any], path: list[str], value: Any) -> None:
    """Put a value into an argument: at an index of a list, at a key of a dict."""
    holder: Any = found
    for i, key in enumerate(path):
        is_last = i == len(path) - 1
        if isinstance(holder, list):
            at = int(key) if key.isdecimal() else -1
            if not 0 <= at <= len(holder):
                from amanda.errors import FormatError

                raise FormatError("an input names no place of an argument", got=path)
            if at == len(holder):
                holder.append(None)
            holder, key = holder, at  # type: ignore[assignment]
        elif key not in holder and not is_last:
            holder[key] = []
        if is_last:
            holder[key] = value
        else:
            holder = holder[key]
