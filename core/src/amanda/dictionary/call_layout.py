"""Arguments that may be inputs or attributes, as in PyTorch.

In a dictionary with `named_inputs`, what is an input and what an attribute depends on
the argument that is given. A number in the place of a tensor is an attribute named as
the port; a value in the place of a number is an input named as the attribute, after
those of the ports. In a list it has its index in the name, and the attribute is null
there: `view(x, size=[null, 64])` with the input `size.0`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

from amanda.dictionary.op_definition import Attr, OpDef
from amanda.errors import GraphError
from amanda.graph import NOTE_PREFIX, Graph, Op, OutputPort

__all__ = ["CallLayout", "OpInputs"]


class OpInputs(NamedTuple):
    """The inputs, attributes and bodies of an op, and the names of inputs by place."""

    values: list[OutputPort | None]
    names: dict[int, str]
    attrs: dict[str, Any]
    bodies: dict[str, Graph]


class CallLayout:
    """The arguments of one op type; of an unknown one, all are attributes or named.

    >>> from amanda.dictionary import parse_signature
    >>> view = parse_signature("view(x: tensor, *, size: dim[]) -> (tensor)")
    >>> graph = Graph("amanda/torch/2.13.0")
    >>> x, n = graph.parameter(name="x"), graph.parameter(name="n")
    >>> found = CallLayout(view).inputs({"x": x, "size": [n, 64]})
    >>> found.values, found.names, found.attrs
    ([graph:x, graph:n], {1: 'size.0'}, {'size': [None, 64]})
    """

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
    def can_be_short(self) -> bool:
        """Whether nulls at the end are omitted: not after a list of unknown length."""
        lists = [port.repeats for port in self.ports.values()]
        return not any(lists) or lists.index(True) == len(lists) - 1

    # -- arguments to inputs --------------------------------------------------------

    def inputs(self, arguments: Mapping[str, Any]) -> OpInputs:
        """The inputs and attributes of an op with these arguments."""
        found = OpInputs([], {}, {}, {})
        slots: dict[str, list[OutputPort | None]] = {}
        more: list[tuple[str, OutputPort]] = []
        for name, value in arguments.items():
            if isinstance(value, OutputPort) and name not in self.ports:
                more.append((name, value))
                continue
            items = self._port_values(name, value)
            if items is not None:
                slots[name] = items
            elif isinstance(value, Graph):
                found.bodies[name] = value
            else:
                found.attrs[name] = _without_values(value, name, more, found.bodies)
        self._place(slots, found, bool(more) or len(self.variadic) > 1)
        for name, value in more:
            found.names[len(found.values)] = name
            found.values.append(value)
        return found

    def _port_values(self, name: str, value: Any) -> list[OutputPort | None] | None:
        """The values for a port; None if it is none, or gets something else."""
        if name not in self.ports:
            return None
        if name not in self.variadic:
            return [value] if value is None or isinstance(value, OutputPort) else None
        items = [] if value is None else value
        is_list = isinstance(items, list | tuple)
        if is_list and all(i is None or isinstance(i, OutputPort) for i in items):
            return list(items)
        return None

    def _place(
        self, slots: Mapping[str, list[OutputPort | None]], found: OpInputs, named: bool
    ) -> None:
        """Put values in the order of the ports, without nulls at the end."""
        size = 0
        for name in self.ports:
            is_list = name in self.variadic
            items = slots.get(name, [] if is_list else [None])
            if named and is_list:
                places = enumerate(range(len(items)), len(found.values))
                found.names.update((place, f"{name}.{i}") for place, i in places)
            found.values.extend(items)
            if items and (is_list or items[0] is not None or not self.can_be_short):
                size = len(found.values)
        del found.values[size:]

    # -- inputs to arguments --------------------------------------------------------

    def arguments(self, op: Op) -> dict[str, Any]:
        """The arguments of an op by name, as they were before `inputs`.

        A variadic port has a list; an item of an attribute that is an input is that
        value. Notes and file records are no arguments.
        """
        found: dict[str, Any] = {}
        ports = op.input_ports
        named = [(port.name, port.source) for port in ports if port.name]
        self._bind([port.source for port in ports if not port.name], named, found)
        for key, value in (op.attrs if op.has_attrs else {}).items():
            if not key.startswith(NOTE_PREFIX) and ":" not in key:
                found[key] = _copy_value(value)
        found |= op.bodies
        for name, value in named:
            _put(found, name.split("."), value, op)
        return found

    def _bind(
        self, values: list[OutputPort | None], named: list[tuple[str, Any]],
        found: dict[str, Any],
    ) -> None:  # fmt: skip
        """Bind inputs without names to ports by position."""
        listed = any(name.partition(".")[0] in self.variadic for name, _ in named)
        names = [n for n in self.ports if not (listed and n in self.variadic)]
        singles = sum(name not in self.variadic for name in names)
        rest = list(values)
        for name in names:
            if name in self.variadic:
                count = max(len(rest) - singles, 0)
                found[name], rest = rest[:count], rest[count:]
            else:
                singles -= 1
                value = rest.pop(0) if rest else None
                if value is not None:
                    found[name] = value
        if rest:
            found["#rest"] = rest


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
    if isinstance(value, list | tuple):
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


def _copy_value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_copy_value(item) for item in value]
    if isinstance(value, dict):
        return {key: _copy_value(item) for key, item in value.items()}
    return value


def _put(found: dict[str, Any], path: list[str], value: Any, op: Op) -> None:
    """Put a value into an argument: at an index of a list, at a key of a dict."""
    holder: Any = found
    for i, key in enumerate(path):
        place: Any = key
        if isinstance(holder, list):
            place = int(key) if key.isdecimal() else -1
            if not 0 <= place <= len(holder):
                break
            if place == len(holder):
                holder.append(None)
        elif not isinstance(holder, dict):
            break
        if i == len(path) - 1:
            holder[place] = value
            return
        if isinstance(holder, dict):
            holder.setdefault(place, [])
        holder = holder[place]
    raise GraphError(
        "the name of an input is no place of an argument", who=op.label,
        got=".".join(path),
    )  # fmt: skip
