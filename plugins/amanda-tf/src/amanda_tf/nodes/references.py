"""How nodes name the values that they read: `node:1`, in functions `node:output:1`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from amanda.errors import FormatError
from amanda.graph import Op, OutputPort
from amanda.types import DType, RefType, TensorType, Type

if TYPE_CHECKING:
    from amanda.dictionary import OpDef

__all__ = [
    "Groups",
    "Spelling",
    "groups_and_types",
    "has_fixed_outputs",
    "output_groups",
    "output_types",
    "parse_reference",
]

Groups = list[tuple[str, int]]
"""The outputs of a node: the name of each, and its number of values."""


_MAX_OUTPUTS = 1 << 16
"""The most outputs of one name that a node may have."""


def parse_reference(text: str) -> tuple[str, str, int]:
    """Node, output name and index of an input.

    >>> parse_reference("a:1"), parse_reference("a"), parse_reference("a:y:2")
    (('a', '', 1), ('a', '', 0), ('a', 'y', 2))
    """
    name, *output = text.removeprefix("^").split(":")
    index = output.pop() if output else "0"
    if len(output) > 1 or not (index.isascii() and index.isdigit() and len(index) < 9):
        raise FormatError("this names no output of a node", got=repr(text))
    return name, "".join(output), int(index)


class Spelling(NamedTuple):
    """How the inputs of nodes are written; `groups_of` is for functions only."""

    name_of: Callable[[Op], str]
    groups_of: Callable[[Op], Groups] | None = None
    parameter_name: Callable[[OutputPort], str] = lambda port: port.name or ""

    def inputs(self, op: Op, recorded: list[str] | None = None) -> list[str]:
        """The inputs of a node, control inputs last; as a file had spelled them, where
        they still are these."""
        values = [self.value(value, op.graph) for value in op.inputs]
        own = values + [f"^{self.name_of(first)}" for first in op.control_inputs]
        return recorded if recorded and self._same(recorded, own, op) else own

    def _same(self, recorded: list[str], own: list[str], op: Op) -> bool:
        """Whether recorded inputs are those of the op.

        Control edges into an op with feedback are only in the record, since they may be
        cycles; so are those from parameters, which order nothing.
        """
        values, recorded_control = _split_inputs(recorded)
        own_values, control = _split_inputs(own)
        if values != own_values:
            return False
        if op.feedback or control == recorded_control:
            return True
        ports = op.graph.parameters if op.graph is not None else ()
        names = {self.parameter_name(port) for port in ports}
        return control <= recorded_control <= control | names

    def value(self, value: OutputPort | None, graph: Op | None) -> str:
        """The reference to a value of a graph."""
        if value is None:
            raise FormatError("TensorFlow has no optional inputs")
        if value.op is graph:
            return self.parameter_name(value)
        name, index = self.name_of(value.op), value.index
        if self.groups_of is None:
            return f"{name}:{index}" if index else name
        for group, count in self.groups_of(value.op):
            if index < count:
                return f"{name}:{group}:{index}"
            index -= count
        raise FormatError("an output that has no name in TensorFlow", who=name)


def _split_inputs(inputs: list[str]) -> tuple[list[tuple[str, str, int]], set[str]]:
    """The values that a node reads, and the nodes that it waits for."""
    values = [parse_reference(text) for text in inputs if text[:1] != "^"]
    return values, {text[1:] for text in inputs if text[:1] == "^"}


def output_groups(entry: OpDef, attrs: Mapping[str, Any]) -> Groups:
    """Name and number of values of each output, as the attributes say."""
    return [(port.name, len(types)) for port, types in _outputs(entry, attrs)]


def output_types(entry: OpDef, attrs: Mapping[str, Any]) -> Iterator[Type | None]:
    """The type of each output, as far as the attributes say."""
    for port, dtypes in _outputs(entry, attrs):
        yield from _types(port, dtypes)


def groups_and_types(
    entry: OpDef, attrs: Mapping[str, Any]
) -> tuple[Groups, list[Type | None]]:
    """Both of the above."""
    rows = list(_outputs(entry, attrs))
    groups = [(port.name, len(dtypes)) for port, dtypes in rows]
    return groups, [type for row in rows for type in _types(*row)]


def has_fixed_outputs(entry: OpDef) -> bool:
    """Whether no attribute decides the number and the types of an op's outputs."""
    return not any(port.number or isinstance(port.type, str) for port in entry.outputs)


def _types(port: Any, dtypes: list[Any]) -> Iterator[Type | None]:
    for dtype in dtypes:
        type = TensorType(dtype) if isinstance(dtype, DType) else None
        yield RefType(type) if port.ref and type is not None else type


def _outputs(entry: OpDef, attrs: Mapping[str, Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Each output with the element types of its values."""
    for port in entry.outputs:
        given: Any = port.type
        if isinstance(given, str):
            given = _attribute(entry, attrs, given)
        dtypes = list(given) if isinstance(given, list | tuple) else [given]
        times = _attribute(entry, attrs, port.number) if port.number else 1
        count = times if isinstance(times, int) else 1
        if count > _MAX_OUTPUTS:
            raise FormatError(
                f"{port.number} of {entry.name}: too many outputs",
                expected=f"at most {_MAX_OUTPUTS}", got=count,
            )  # fmt: skip
        yield port, dtypes * count


def _attribute(entry: OpDef, attrs: Mapping[str, Any], name: str) -> Any:
    """An attribute of a node, or its default."""
    if name in attrs:
        return attrs[name]
    rows = (*entry.attrs, *entry.variables)
    return next((each.default for each in rows if each.name == name), None)
