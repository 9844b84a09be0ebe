"""The modules and source lines of a program, as the table of scopes of a graph."""

from __future__ import annotations

from amanda.graph import Graph, ScopeTable
from amanda_torch.records import NODE_RECORDS

__all__ = ["scopes_of_program"]

_Stack = tuple[tuple[str, ...], tuple[str, ...]]


def scopes_of_program(program: Graph) -> ScopeTable:
    """The modules and source lines of the ops of a program."""
    table = ScopeTable()
    stacks: dict[str, _Stack] = {}
    for op in program.walk():
        metadata = NODE_RECORDS.of(op).get("metadata") if op.has_attrs else None
        if not metadata or op.name is None:
            continue
        text = metadata.get("nn_module_stack", "")
        stack = stacks.get(text)
        if stack is None:
            stack = stacks[text] = _parse_stack(text)
        line = _last_frame(metadata.get("stack_trace", ""))
        if stack[0] or line:
            table.add(op.name, op.type or "", *stack, line)
    return table


def _parse_stack(text: str) -> _Stack:
    """The paths and classes of the modules of an `nn_module_stack`.

    >>> _parse_stack("L__self__,,net.Net;L__self___fc,fc,torch.nn.Linear")
    (('', 'fc'), ('net.Net', 'torch.nn.Linear'))
    """
    rows = [part.split(",", 2) for part in text.split(";") if part.count(",") >= 2]
    return tuple(row[1] for row in rows), tuple(row[2] for row in rows)


def _last_frame(trace: str) -> str:
    r"""The innermost frame of a stack trace.

    >>> _last_frame('File "a.py", line 1, in f\n  g()\nFile "b.py", line 2, in g\n  x')
    'File "b.py", line 2, in g\n  x'
    """
    place = trace.rfind('File "')
    return trace[place:].rstrip() if place >= 0 else ""
