"""Contents that no file form holds: found before a graph is written, and when read."""

from __future__ import annotations

from amanda.errors import FormatError
from amanda.graph import Graph, Op, constant_fault, content_faults

__all__ = ["expect_constant", "expect_valid_content"]


def expect_valid_content(graph: Graph) -> None:
    """Raise FormatError unless what is written of a graph can be read again."""
    problems = [fault for each in graph.graphs() for fault in content_faults(each)]
    if problems:
        raise FormatError("the graph has invalid content", problems=problems)


def expect_constant(op: Op) -> None:
    """Raise FormatError for a constant without a tensor."""
    if op.is_constant and (why := constant_fault(op)):
        raise FormatError(f"{op.label} {why}")
