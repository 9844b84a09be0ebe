"""Calls of a model's local functions, replaced by the functions' bodies.

A function may call others, so a small file may expand to any number of ops: they are
counted before the first one is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from amanda.errors import FormatError, LimitError
from amanda.graph import Graph, Op, OutputPort

__all__ = ["expect_bounded_calls", "inline_functions"]

MAX_OPS: Final = 1 << 18
Callee: TypeAlias = Callable[[Op], Graph | None]
Specialize: TypeAlias = Callable[[Op, Graph], Graph]


def inline_functions(graph: Graph, callee: Callee, specialize: Specialize) -> Graph:
    """A copy without local functions and their calls; `graph` itself without any.

    `callee` returns the function that an op calls, or None; `specialize` returns a copy
    of that function for one call. LimitError where functions are recursive or expand to
    more than 2**18 ops.
    """
    if not graph.functions:
        return graph
    expect_bounded_calls(graph, callee)
    copy = graph.clone()
    parts = [g for g in copy.graphs() if g.owner is None and not _is_in_function(g)]
    waiting = [op for part in parts for op in part]
    while waiting:
        op = waiting.pop()
        function = callee(op) if op.__class__ is Op and op.graph is not None else None
        if function is not None:
            waiting += _inline_call(op, specialize(op, function))
    for name in list(copy.functions):
        copy.remove_function(name)
    return copy


def _is_in_function(graph: Graph) -> bool:
    at: Graph | None = graph
    while at is not None:
        if at.owner is not None:
            return True
        holder = at.holder
        at = holder.graph if holder is not None else at.graph
    return False


def expect_bounded_calls(root: Graph, callee: Callee) -> None:
    """Raise LimitError where local functions expand to too many ops.

    The ops that each function expands to are counted, leaves of the call graph first.
    """
    calls = {
        function: [each for op in function.walk() if (each := callee(op)) is not None]
        for function in root.functions.values()
    }
    sizes: dict[Graph, int] = {}
    stack = list(calls)
    active: set[Graph] = set()
    while stack:
        function = stack[-1]
        pending = [each for each in calls[function] if each not in sizes]
        if function in sizes or not pending:
            own = sum(1 for _ in function.walk())
            sizes[function] = own + sum(sizes[each] for each in calls[function])
            active.discard(function)
            stack.pop()
            continue
        if function in active and any(each in active for each in pending):
            raise LimitError("a local function calls itself", who=function.label)
        active.add(function)
        stack += dict.fromkeys(pending)
    used = [callee(op) for part in root.graphs() for op in part]
    total = sum(sizes[each] for each in used if each is not None)
    if total > MAX_OPS:
        raise LimitError(
            "calls of local functions expand to too many ops",
            expected=f"at most {MAX_OPS}",
            got=total,
        )


def _inline_call(op: Op, body: Graph) -> list[Op]:
    """Replace a call by the ops of a function body; returns them, nested ones too."""
    graph = op.graph
    assert graph is not None
    inputs: list[OutputPort | None] = list(op.inputs)
    inputs += [None] * (len(body.parameters) - len(inputs))
    if len(inputs) > len(body.parameters) or len(op.outputs) > len(body.results):
        raise FormatError(
            "a call has more inputs or outputs than its function", who=op.label
        )
    memo: dict[Any, Any] = {}
    with graph.before(op):
        values = graph.paste(body, inputs, memo=memo)
    for old, new in zip(op.outputs, values, strict=False):
        if new is not None and new.op is not graph and new.type is None:
            new.type = old.type
    copies = [memo[port].op for each in body for port in each.outputs if port in memo]
    graph.replace(op, values[: len(op.outputs)], "inlined")
    found = dict.fromkeys(copies)
    nested = [o for each in found for b in each.bodies.values() for o in b.walk()]
    return [*found, *nested]
