"""Attributes with default values: filled in, or stripped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from amanda.dictionary.op_definition import EnumMember
from amanda.graph import Graph, Op
from amanda.tensors import same_value

if TYPE_CHECKING:
    from amanda.dictionary.history import Dictionary
    from amanda.dictionary.op_definition import OpDef

__all__ = ["fill_defaults", "strip_defaults"]


def fill_defaults(graph: Graph, dictionary: Dictionary) -> list[tuple[Op, str]]:
    """Add the omitted attributes of every op with their default values.

    Returns the attributes that were added.
    """
    filled = []
    for op, op_def in _ops_with_definitions(graph, dictionary):
        for attr in op_def.attrs:
            if attr.default is not None and attr.name not in op.attrs:
                op.attrs[attr.name] = default_value(attr.default)
                filled.append((op, attr.name))
    return filled


def strip_defaults(
    graph: Graph,
    dictionary: Dictionary,
    only: Iterable[tuple[Op, str]] | None = None,
) -> int:
    """Remove attributes equal to their defaults, or `only` some; return the count."""
    if only is None:
        only = [
            (op, attr.name)
            for op, op_def in _ops_with_definitions(graph, dictionary)
            for attr in op_def.attrs
            if attr.default is not None and attr.name in op.attrs
        ]
    count = 0
    for op, name in only:
        op_def = dictionary.get(op.type)
        attr = None if op_def is None else op_def.attr(name)
        value = op.attrs.get(name)
        if attr is not None and value is not None:
            value = list(value) if isinstance(value, tuple) else value
            if same_value(value, default_value(attr.default)):
                del op.attrs[name]
                count += 1
    return count


def _ops_with_definitions(
    graph: Graph, dictionary: Dictionary
) -> Iterator[tuple[Op, OpDef]]:
    """The ops of the namespace, with definitions, also in bodies and functions."""
    for op in graph.walk():
        if op.__class__ is Op and op.namespace == dictionary.name:
            op_def = dictionary.get(op.type)
            if op_def is not None:
                yield op, op_def


def default_value(default: Any) -> Any:
    """A default as an op attribute: lists for tuples, the name of an enum member."""
    if isinstance(default, tuple):
        return [default_value(item) for item in default]
    return str(default) if isinstance(default, EnumMember) else default
