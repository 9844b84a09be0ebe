"""Attributes that ops leave to their defaults: written out, or taken away."""

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
    """Gives every op of the namespace the attributes that it leaves to their defaults.

    Returns which it gave.
    """
    found = []
    for op, entry in _known(graph, dictionary):
        for attr in entry.attrs:
            if attr.default is not None and attr.name not in op.attrs:
                op.attrs[attr.name] = default_value(attr.default)
                found.append((op, attr.name))
    return found


def strip_defaults(
    graph: Graph,
    dictionary: Dictionary,
    only: Iterable[tuple[Op, str]] | None = None,
) -> int:
    """Takes away attributes that say what their defaults say, all or `only` these."""
    if only is None:
        only = [
            (op, attr.name)
            for op, entry in _known(graph, dictionary)
            for attr in entry.attrs
            if attr.default is not None and attr.name in op.attrs
        ]
    count = 0
    for op, name in only:
        entry = dictionary.get(op.type)
        attr = None if entry is None else entry.attr(name)
        told = op.attrs.get(name)
        if attr is not None and told is not None:
            told = list(told) if isinstance(told, tuple) else told
            if same_value(told, default_value(attr.default)):
                del op.attrs[name]
                count += 1
    return count


def _known(graph: Graph, dictionary: Dictionary) -> Iterator[tuple[Op, OpDef]]:
    """The ops of the namespace, in bodies and functions too, each with its entry."""
    for op in graph.walk():
        if op.__class__ is Op and op.namespace == dictionary.name:
            entry = dictionary.get(op.type)
            if entry is not None:
                yield op, entry


def default_value(default: Any) -> Any:
    """A default as ops have it: lists for tuples, the name of an enum's value."""
    if isinstance(default, tuple):
        return [default_value(item) for item in default]
    return str(default) if isinstance(default, EnumMember) else default
