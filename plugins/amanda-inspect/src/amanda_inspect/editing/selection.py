"""Ops and values of a graph by their names, for edits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final, TypeAlias

from amanda.errors import UsageError
from amanda.graph import Graph, Op, OutputPort

__all__ = ["OpsLike", "ValueName", "find_ops", "find_value", "result_index"]

TYPE: Final = "type:"
ValueName: TypeAlias = "str | OutputPort"
"""A value, or its name: that of an input, of a value, or of an op with one output.

`op:1` is the second output of an op."""
OpsLike: TypeAlias = "str | Op | Iterable[str | Op]"
"""Ops, or their names: a name, a pattern such as `layer3/*`, or `type:Dropout`."""


def find_value(graph: Graph, name: ValueName) -> OutputPort:
    """The value of a name in a root graph."""
    if not isinstance(name, str):
        return name
    values = {port.name: port for op in graph for port in op.outputs}
    values.update((port.name, port) for port in graph.parameters)
    if name in values:
        return values[name]
    stem, _, index = name.rpartition(":")
    if name in graph:
        return graph.ops[name].output
    if (
        stem in graph
        and index.isdecimal()
        and int(index) < len(graph.ops[stem].outputs)
    ):
        return graph.ops[stem].outputs[int(index)]
    for port, value in zip(graph.outputs, graph.results, strict=True):
        if port.name == name and value is not None:
            return value
    known = [str(each) for each in values if each] + [
        op.name for op in graph if op.name
    ]
    raise _unknown("value", name, known)


def find_ops(graph: Graph, ops: OpsLike) -> list[Op]:
    """The ops of names, patterns or types in a root graph; there is at least one."""
    given: Sequence[str | Op] = [ops] if isinstance(ops, str | Op) else list(ops)
    found: dict[Op, None] = {}
    for each in given:
        chosen = [each] if isinstance(each, Op) else _named_ops(graph, each)
        found.update(dict.fromkeys(chosen))
    return list(found)


def _named_ops(graph: Graph, name: str) -> list[Op]:
    if name.startswith(TYPE):
        kind = name.removeprefix(TYPE)
        found = graph.ops.select(kind)
        types = {str(op.type) for op in graph}
        if not found:
            raise _unknown("op of the type", kind, types)
        return found
    found = [graph.ops[name]] if name in graph else graph.ops.select(name=name)
    if not found:
        raise _unknown("op", name, [op.name for op in graph if op.name])
    return found


def result_index(graph: Graph, name: str | int) -> int:
    """The index of a result by its name or index."""
    for port in graph.outputs:
        if name in (port.name, port.index):
            return port.index
    known = [str(port.name or port.index) for port in graph.outputs]
    raise _unknown("output", str(name), known)


def _unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    names = sorted(set(known))
    near = get_close_matches(name, names, n=3)
    shown = ", ".join(near or names[:10])
    return UsageError(
        f"the model has no {what} {name!r}",
        expected=shown or f"it has no {what}s with names",
        hint="`amanda show` lists them",
    )
