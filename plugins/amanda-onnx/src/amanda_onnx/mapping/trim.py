"""What rules made and nothing reads: constants that became attributes, shape sums."""

from __future__ import annotations

from amanda.graph import KEEP, Graph, Op, OutputPort
from amanda.types import VoidType
from amanda_onnx.domains import domain_of

__all__ = ["leave_out", "trim"]


def trim(source: Graph, made: Graph) -> int:
    """Take out ops without users, if nothing in the source was so; how many.

    What is idle in the source stays, by the names of its values.
    """
    idle = _idle(source, frozenset())
    names = frozenset(port.name for op in idle for port in op.outputs) - {None}
    found = _idle(made, names)
    for op in found:
        if op.graph is not None:
            op.graph.remove(op, "trim")
    return len(found)


def leave_out(made: Graph) -> None:
    """Outputs that nobody reads, of ops of other domains: those may be left out.

    A runtime that computes them may take another way, or refuse the op."""
    for part in made.graphs():
        pinned = _pinned(part)
        for op in part:
            space = op.own_namespace
            found = None if space is None else domain_of(space)
            if found is None or not found[0] or op.provenance is None:
                continue
            for port in op.outputs[1:]:
                if not port.users and port not in pinned and KEEP not in port.marks:
                    port.type = VoidType()


def _pinned(part: Graph) -> set[OutputPort]:
    """The values that an entry names, who uses them or not."""
    return {v for e in part.entries.values() for side in e for v in side.values()}


def _idle(graph: Graph, kept: frozenset[str | None]) -> list[Op]:
    """Ops that no result needs, users before what they use; none of these names."""
    found: dict[Op, None] = {}
    for part in reversed(list(graph.graphs())):
        pinned = _pinned(part)
        sinks = set(part.inner_control_sinks)
        for op in reversed(part):
            if not _is_idle(op, pinned, sinks, found):
                continue
            if kept and any(port.name in kept for port in op.outputs):
                continue
            found[op] = None
    return list(found)


def _is_idle(
    op: Op, pinned: set[OutputPort], sinks: set[Op], idle: dict[Op, None]
) -> bool:
    """Results are users too: there it is the graph that reads, which is never idle."""
    for port in op.outputs:
        for user in port.user_ops:
            if user not in idle:
                return False
    if not op.outputs or op.control_outputs or op in sinks or op.bodies:
        return False
    if isinstance(op, Graph):
        return False
    return not any(port in pinned or KEEP in port.marks for port in op.outputs)
