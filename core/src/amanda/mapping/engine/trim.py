"""Removal of ops that a conversion built and that no result uses."""

from __future__ import annotations

from typing import Any

from amanda.current_host import host_in_use
from amanda.graph import KEEP, Graph, Op, OutputPort

__all__ = ["entry_values", "trim"]


def trim(source: Graph, target: Graph) -> int:
    """Remove unused ops of a converted graph; returns how many.

    Rules leave some behind, such as constants that became attributes. Ops whose values
    were unused in the source graph already, by name, stay, and so do ops with effects
    on what they get.
    """
    unused = _unused_ops(source, frozenset())
    names = frozenset(port.name for op in unused for port in op.outputs) - {None}
    found = _unused_ops(target, names)
    for op in found:
        if op.graph is not None:
            op.graph.remove(op, "trim")
    return len(found)


def entry_values(graph: Graph) -> set[OutputPort]:
    """The values that the entries of a graph name, used or not."""
    return {v for e in graph.entries.values() for side in e for v in side.values()}


def _unused_ops(graph: Graph, keep: frozenset[str | None]) -> list[Op]:
    """Ops that no result needs, users first, except those with a value in `keep`."""
    found: dict[Op, None] = {}
    effects: dict[tuple[str | None, str | None], bool] = {}
    for part in reversed(list(graph.graphs())):
        named = entry_values(part)
        sinks = set(part.inner_control_sinks)
        for op in reversed(part):
            if not _is_unused(op, named, sinks, found):
                continue
            if keep and any(port.name in keep for port in op.outputs):
                continue
            if op.inputs:
                key = op.namespace, op.type
                if key not in effects:
                    effects[key] = _has_effects(op)
                if effects[key]:
                    continue
            found[op] = None
    return list(found)


def _is_unused(
    op: Op, named: set[OutputPort], sinks: set[Op], unused: dict[Op, None]
) -> bool:
    # A result of a graph is used by the graph itself, which is never unused.
    for port in op.outputs:
        if not unused and port.is_used:
            return False
        if any(user not in unused for user in port.user_ops):
            return False
    if not op.outputs or op.control_outputs or op in sinks or op.bodies:
        return False
    if isinstance(op, Graph):
        return False
    return not any(port in named or KEEP in port.marks for port in op.outputs)


def _has_effects(op: Op) -> bool:
    """Whether an op has effects, by its definition; an unknown op has none."""
    space: Any = host_in_use().namespace(op.namespace or "", assume=True)
    entry = space.get(op.type or "")
    return entry is not None and bool(entry.effects)
