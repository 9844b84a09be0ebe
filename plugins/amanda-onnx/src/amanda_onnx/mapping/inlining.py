"""Calls of local functions, put in their places: what mappings to other words need.

A function of a model may call others, so a small file can stand for any number of ops:
how many there will be is counted before the first one is copied.
"""

from __future__ import annotations

from typing import Any, Final

from amanda.errors import FormatError, LimitError
from amanda.graph import Graph, Op, OutputPort
from amanda_onnx.domains import called, domain_of
from amanda_onnx.format.attribute_reader import REFERENCE
from amanda_onnx.format.model_metadata import NOTES_KEY

__all__ = ["inlined"]

_MOST: Final = 1 << 20  # ops that calls may stand for
_BY: Final = "inlined"


def inlined(graph: Graph) -> Graph:
    """A copy without local functions and their calls; the graph itself without any.

    LimitError where functions call themselves, or stand for absurdly many ops.
    """
    if not graph.functions:
        return graph
    _expect_bounded(graph)
    made = graph.clone()
    parts = [g for g in made.graphs() if g.root is None and not _in_function(g)]
    waiting = [op for part in parts for op in part]
    while waiting:
        op = waiting.pop()
        function = called(op) if op.__class__ is Op and op.graph is not None else None
        if function is not None:
            waiting += _put(op, function)
    for name in list(made.functions):
        made.remove_function(name)
    return made


def _in_function(graph: Graph) -> bool:
    at: Graph | None = graph
    while at is not None:
        if at.root is not None:
            return True
        holder = at.holder
        at = holder.graph if holder is not None else at.graph
    return False


def _expect_bounded(root: Graph) -> None:
    """Count what every function stands for, those that call no other first."""
    calls = {
        function: [each for op in function.walk() if (each := called(op)) is not None]
        for function in root.functions.values()
    }
    sizes: dict[Graph, int] = {}
    stack = list(calls)
    around: set[Graph] = set()
    while stack:
        function = stack[-1]
        open_ = [each for each in calls[function] if each not in sizes]
        if function in sizes or not open_:
            own = sum(1 for _ in function.walk())
            sizes[function] = own + sum(sizes[each] for each in calls[function])
            around.discard(function)
            stack.pop()
            continue
        if function in around and any(each in around for each in open_):
            raise LimitError(
                "a local function calls itself, so there is no end to it",
                who=function.label,
            )
        around.add(function)
        stack += dict.fromkeys(open_)
    used = [called(op) for part in root.graphs() for op in part]
    total = sum(sizes[each] for each in used if each is not None)
    if total > _MOST:
        raise LimitError(
            "calls of local functions stand for absurdly many ops",
            expected=f"at most {_MOST}",
            got=total,
        )


def _put(op: Op, function: Graph) -> list[Op]:
    """The ops of a function in the place of its call; these."""
    part = op.graph
    assert part is not None
    body = _with_arguments(op, function)
    inputs: list[OutputPort | None] = list(op.inputs)
    inputs += [None] * (len(body.parameters) - len(inputs))
    if len(inputs) > len(body.parameters) or len(op.outputs) > len(body.results):
        raise FormatError("a call that does not fit its function", who=op.label)
    memo: dict[Any, Any] = {}
    with part.before(op):
        values = part.paste(body, inputs, memo=memo)
    for old, new in zip(op.outputs, values, strict=False):
        if new is not None and new.op is not part and new.type is None:
            new.type = old.type
    ops = [memo[port].op for each in body for port in each.outputs if port in memo]
    part.replace(op, values[: len(op.outputs)], _BY)
    found = dict.fromkeys(ops)
    inside = [o for each in found for b in each.bodies.values() for o in b.walk()]
    return [*found, *inside]


def _with_arguments(op: Op, function: Graph) -> Graph:
    """A copy of a function in which its attributes are what the call says."""
    own = function.attrs if function.has_attrs else {}
    given = {k: v for k, v in own.items() if k != NOTES_KEY} | {
        k: v for k, v in (op.attrs.items() if op.has_attrs else ()) if k != NOTES_KEY
    }
    space, around = domain_of(function.namespace or ""), domain_of(_home(op))
    made = function.clone()
    for each in made.walk():
        for port in each.outputs:
            port.name = None
        for key, value in list(each.attrs.items()) if each.has_attrs else ():
            if not (isinstance(value, dict) and REFERENCE in value):
                continue
            name = value[REFERENCE]
            if name in given:
                each.attrs[key] = given[name]
            else:
                del each.attrs[key]
    if space != around and space is not None and around is not None:
        return _at_opset(made, _home(op))
    return made


def _home(op: Op) -> str:
    return (op.graph.namespace if op.graph is not None else None) or ""


def _at_opset(function: Graph, to: str) -> Graph:
    """The function in the words of the opset that it is called in."""
    from amanda.mapping import unmapped
    from amanda_onnx.mapping.opset_conversion import MAPPING_OF_OPSETS

    done = MAPPING_OF_OPSETS.conversion(function, to)
    if done.report.gaps:
        raise unmapped(done.report.gaps, done.report.source, to)
    return done.graph
