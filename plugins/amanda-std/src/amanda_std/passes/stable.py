"""Formulas rewritten to numerically stable ops, and schema notes that name such ops."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, Final

from amanda.errors import InvalidTypeError
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import Decline, RuleSet
from amanda.passes import Rewriting
from amanda.types import accepts
from amanda_std import ops
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Value
from amanda_std.hub.mapping_side import STD_SIDE
from amanda_std.hub.op_access import has_trait, is_std, operation_of, traced_arguments
from amanda_std.passes.drop import drop
from amanda_std.passes.infer import infer
from amanda_std.passes.simplify import rules_of

__all__ = ["stable", "stable_form"]

_BARRIER: Final = "stable.barrier"
_NOTE: Final = "schema_note"


def stable(graph: Graph, keep: Collection[OutputPort] = ()) -> int:
    """Replace formulas by ops that compute them without overflow; returns how many.

    Uses of the values in `keep` stay as they are, for gradients with respect to them.
    """
    for port in keep:
        port.mark(_BARRIER)
    try:
        return _rewriting()(graph)
    finally:
        for port in keep:
            port.resolve().unmark(_BARRIER)


def stable_form(graph: Graph) -> Graph:
    """A copy after the pass `stable`; the graph itself if the pass changes nothing."""
    present = {op.type for op in graph.walk()}
    if not any(types <= present for types in _types_of_rules()):
        return graph
    copy = graph.clone()
    infer(copy)
    if not stable(copy):
        return graph
    drop(copy)
    return copy


@cache
def _rewriting() -> Rewriting:
    rules = _rules()
    return Rewriting(rules, STD_SIDE, recompute=True, barrier=_BARRIER)


def _rules() -> RuleSet:
    rules = rules_of("stable.rules", "stable")
    rules.read("log")(_log_of_moved_probabilities)
    rules.read(_NOTE)(_noted_op)
    return rules


@cache
def _types_of_rules() -> tuple[frozenset[str], ...]:
    """For each rule, the op types that a graph must have for it to apply."""
    rows = [frozenset(_types_in(row.left)) for row in _rules().rows]
    moved = [
        frozenset(("log", name))
        for name, operation in ops.OPS.items()
        if Trait.STABLE_LOGARITHM in operation.traits
    ]
    return (*rows, *moved, frozenset((_NOTE,)))


def _types_in(term: Any) -> Iterator[str]:
    if hasattr(term, "args"):
        yield term.type
        for part in term.args:
            yield from _types_in(part)


def _log_of_moved_probabilities(x: Any) -> Any:
    """The logarithm of selected or moved probabilities: move the logarithms instead."""
    moves: list[Op] = []
    op = x.port.op
    while is_std(op) and has_trait(op, Trait.MOVES_ELEMENTS) and _is_inside(op):
        moves.append(op)
        op = op.inputs[0].op
    if not (moves and is_std(op) and has_trait(op, Trait.STABLE_LOGARITHM)):
        raise Decline("it is not the logarithm of moved probabilities")
    if any(_BARRIER in port.marks for each in (op, *moves) for port in each.outputs):
        raise Decline("a gradient with respect to a value in between is requested")
    result = ops.log(Value(op.output))
    for move in reversed(moves):
        args, attrs = traced_arguments(move)
        result = operation_of(move)(result, *args[1:], **attrs)
    return result


def _is_inside(op: Op) -> bool:
    """Whether the first input of an op is computed in the same graph."""
    source = op.inputs[0] if op.inputs else None
    return source is not None and source.op is not op.graph


def _noted_op(value: Any, *inputs: Any, schema: str, attrs: Any = None) -> Any:
    """The op that a schema note names, in place of the formula."""
    if _BARRIER in value.port.marks:
        raise Decline("a gradient with respect to the value is requested")
    result = ops.find(schema)(*inputs, **(attrs or {}))
    own, other = value.type, getattr(result, "type", None)
    if own is not None and other is not None and accepts(own, other) is False:
        raise InvalidTypeError(
            f"the schema note {schema!r} has another type than its value",
            expected=own,
            got=other,
        )
    return result
