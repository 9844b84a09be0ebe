"""Inlining of nested graphs and of calls of functions."""

from __future__ import annotations

from amanda.graph import Graph, Op
from amanda.tensors import FunctionRef
from amanda_std.engine.function_lookup import find_function
from amanda_std.hub.expansion import expand, expand_graph
from amanda_std.hub.op_access import is_std, operation_of
from amanda_std.ops.control.functions import GRADIENT, call

__all__ = ["inline_calls"]

BY = "inline_calls"


def inline_calls(graph: Graph) -> int:
    """Replace nested graphs and calls of functions by their ops, in bodies too.

    Calls of functions that have a gradient of their own stay, and so do functions that
    attributes of other ops name. Returns the number of calls replaced."""
    functions = {inner for f in graph.functions.values() for inner in f.graphs()}
    waiting = [
        op for part in graph.graphs() if part not in functions for op in list(part)
    ]
    count = 0
    while waiting:
        op = waiting.pop()
        if isinstance(op, Graph):
            made = expand_graph(op, BY)
        elif _is_inlined(op):
            made = expand(op, None, BY)
        else:
            continue
        count += 1
        waiting += made
        waiting += [
            op for new in made for body in new.bodies.values() for op in body.walk()
        ]
    _remove_unused_functions(graph)
    return count


def _is_inlined(op: Op) -> bool:
    """Whether an op calls a function, one without its own gradient."""
    if not is_std(op) or operation_of(op) is not call:
        return False
    if op.bodies:
        return True
    name = op.attrs.get("function")
    return name is not None and GRADIENT not in find_function(op.graph, name).attrs


def _remove_unused_functions(graph: Graph) -> None:
    """Remove the functions that neither ops nor other functions name any more."""
    inside = {inner for f in graph.functions.values() for inner in f.graphs()}
    waiting = [part for part in graph.graphs() if part not in inside]
    used: set[str] = set()
    while waiting:
        part = waiting.pop()
        for op in (part, *part):
            for ref in op.attrs.values() if op.has_attrs else ():
                if isinstance(ref, FunctionRef) and ref.name not in used:
                    used.add(ref.name)
                    found = graph.functions.get(ref.name)
                    waiting += [] if found is None else found.graphs()
    for name in [name for name in graph.functions if name not in used]:
        graph.remove_function(name)
