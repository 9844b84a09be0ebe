"""Calls of a model's local functions, replaced by the functions' bodies.

A function may call others, so a small file may expand to any number of ops: they are
counted before the first one is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from amanda.errors import AmandaError, FormatError, LimitError
from amanda.graph import Graph, Op, OutputPort

__all__ = [
    "expanded_sizes",
    "expect_bounded_calls",
    "expect_bounded_expansion",
    "inline_functions",
    "inline_functions_in_place",
    "sum_over_calls",
]

MAX_OPS: Final = 1 << 18
Callee: TypeAlias = Callable[[Op], Graph | None]
Callees: TypeAlias = Callable[[Op], Iterable[Graph] | None]
Key = TypeVar("Key", bound=Hashable)
Specialize: TypeAlias = Callable[[Op, Graph], Graph]


def inline_functions(graph: Graph, callee: Callee, specialize: Specialize) -> Graph:
    """A copy without local functions and their calls; `graph` itself without any.

    `callee` returns the function that an op calls, or None; `specialize` returns that
    function for one call, whose ops are copied. LimitError where functions are
    recursive or expand to more than 2**18 ops.
    """
    if not graph.functions:
        return graph
    copy = graph.clone()
    inline_functions_in_place(copy, callee, specialize)
    return copy


def inline_functions_in_place(
    copy: Graph, callee: Callee, specialize: Specialize
) -> None:
    """Replace all calls of local functions, and remove these: see
    `inline_functions`."""
    expect_bounded_calls(copy, lambda op: filter(None, [callee(op)]))
    parts = [g for g in copy.graphs() if g.owner is None and not _is_in_function(g)]
    waiting = [op for part in parts for op in part]
    while waiting:
        op = waiting.pop()
        function = callee(op) if op.__class__ is Op and op.graph is not None else None
        if function is not None:
            waiting += _inline_call(op, specialize(op, function))
    for name in list(copy.functions):
        copy.remove_function(name)


def _is_in_function(graph: Graph) -> bool:
    at: Graph | None = graph
    while at is not None:
        if at.owner is not None:
            return True
        holder = at.holder
        at = holder.graph if holder is not None else at.graph
    return False


def expect_bounded_calls(root: Graph, callees: Callees) -> None:
    """Raise LimitError where local functions expand to too many ops.

    `callees` returns the functions that an op calls.
    """
    functions = root.functions.values()
    sizes = expanded_sizes(functions, callees)
    used = (each for part in root.graphs() for op in part for each in callees(op) or ())
    expect_bounded_expansion(sum(sizes[each] for each in used), sum(map(_count, sizes)))


def _cycle_error(function: object) -> AmandaError:
    return LimitError(
        "a local function calls itself", who=getattr(function, "label", str(function))
    )


def expanded_sizes(
    functions: Iterable[Graph],
    callees: Callees,
    cycle_error: Callable[[Graph], AmandaError] = _cycle_error,
) -> dict[Graph, int]:
    """The ops that each function expands to, with those of the functions it calls."""
    calls: dict[Graph, list[Graph]] = {}
    waiting = list(functions)
    while waiting:
        function = waiting.pop()
        if function not in calls:
            calls[function] = [
                each for op in function.walk() for each in callees(op) or ()
            ]
            waiting += calls[function]
    own = {function: _count(function) for function in calls}
    return sum_over_calls(own, calls, cycle_error)


def _count(function: Graph) -> int:
    return sum(1 for _ in function.walk())


def sum_over_calls(
    own: Mapping[Key, int],
    calls: Mapping[Key, Sequence[Key]],
    cycle_error: Callable[[Key], AmandaError] = _cycle_error,
) -> dict[Key, int]:
    """The numbers of functions, plus those of each function they call, call by call.

    `cycle_error` makes the error where a function calls itself.
    """
    sizes: dict[Key, int] = {}
    stack = list(own)
    active: set[Key] = set()
    while stack:
        function = stack[-1]
        pending = [each for each in calls.get(function, ()) if each not in sizes]
        if function in sizes or not pending:
            called = sum(sizes[each] for each in calls.get(function, ()))
            sizes[function] = own.get(function, 0) + called
            active.discard(function)
            stack.pop()
            continue
        if function in active and any(each in active for each in pending):
            raise cycle_error(function)
        active.add(function)
        stack += dict.fromkeys(pending)
    return sizes


def expect_bounded_expansion(total: int, written: int) -> None:
    """Raise LimitError for calls that expand to far more ops than are written."""
    limit = max(MAX_OPS, 4 * written)
    if total > limit:
        raise LimitError(
            "calls of functions expand to too many ops",
            expected=f"at most {limit}",
            got=total if total < 1 << 63 else "more than 2**63",
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
