"""Checks of an edited model: dictionary, types, what it could be mapped to before."""

from __future__ import annotations

from typing import Any, Final

import amanda
from amanda.errors import AmandaError, GraphError
from amanda.graph import Graph, Op, OutputPort, input_dims
from amanda.mapping import Gap
from amanda.types import Sym, TensorType
from amanda_inspect.editing.rewriting import dictionary_of
from amanda_std.backends import infer

__all__ = ["EditError", "check_edit", "find_lost_dims", "infer_types"]

HUB: Final = "amanda/std/1"


class EditError(GraphError):
    """An edit after which the model is not valid."""


def infer_types(graph: Graph) -> list[Gap]:
    """Infer the types of all values of a root graph, as the hub does.

    Returns the ops that the hub does not have; where there are some, the types of
    values are left as they are.
    """
    memo: dict[Any, Any] = {}
    copy = graph.clone(memo=memo)
    values = [port for op in graph if not op.is_constant for port in op.outputs]
    for port in values:
        memo[port].type = None
    for name in list(copy.entries):
        copy.remove_entry(name)
    while copy.outputs:
        copy.remove_result(0)
    for i, port in enumerate(values):
        copy.result(memo[port], f"value {i}")
    plan = amanda.plan(copy, HUB)
    if plan.gaps:
        return list(plan.gaps)
    hub = plan.result if plan.steps else copy
    infer(hub)
    for port, value in zip(values, hub.results, strict=True):
        if value is not None and value.type is not None:
            port.type = value.type
    if graph.namespace == HUB:
        infer(graph)  # values in bodies, which are no results of the copy
    return []


def check_edit(before: Graph, after: Graph) -> None:
    """Raise EditError where an edited model has faults that it had not before.

    It is checked against its dictionary, and its types are inferred.
    """
    faults = after.check()
    old = {_without_positions(text) for text in _dictionary_faults(before)}
    faults += [
        text
        for text in _dictionary_faults(after)
        if _without_positions(text) not in old
    ]
    if not faults:
        faults = _type_faults(before, after)
    if faults:
        raise EditError(
            "the edited model is not valid", who=after.label,
            hint="edit it in another way; --no-check writes it as it is",
            problems=faults,
        )  # fmt: skip


def find_lost_dims(before: Graph, after: Graph) -> list[str]:
    """New symbolic dims of inputs that no output has, with the op where each ends.

    A shape that is a constant, as of Reshape, keeps the size that the dim had.
    """
    old = {symbol for dim in input_dims(before) for symbol in dim.free}
    new = {symbol for dim in input_dims(after) for symbol in dim.free} - old
    kept = {s for v in after.results if v is not None for s in _symbols(v)}
    found = []
    for symbol in sorted(new - kept, key=str):
        op = next((op for op in after if _ends_at(op, symbol)), None)
        where = "before the outputs" if op is None else f"at {op.label}"
        got = "" if op is None else f", whose output is {op.outputs[0].type}"
        found.append(f"the dim {symbol} of the inputs ends {where}{got}")
    return found


def _symbols(port: OutputPort) -> set[Sym]:
    kind = port.type
    if not isinstance(kind, TensorType) or not kind.shape.has_rank:
        return set()
    return {s for dim in kind.shape if isinstance(dim, Sym) for s in dim.free}


def _ends_at(op: Op, symbol: Sym) -> bool:
    """Whether an op reads a dim and gives numbers without it."""
    kinds = [port.type for port in op.outputs]
    is_known = all(isinstance(k, TensorType) and k.shape.has_rank for k in kinds)
    is_float = any(isinstance(k, TensorType) and k.dtype.kind == "float" for k in kinds)
    reads = any(symbol in _symbols(v) for v in op.inputs if v is not None)
    return (
        reads
        and is_known
        and is_float
        and not any(symbol in _symbols(port) for port in op.outputs)
    )


def _dictionary_faults(graph: Graph) -> list[str]:
    dictionary = dictionary_of(graph)
    return [] if dictionary is None else [str(p) for p in dictionary.validate(graph)]


def _without_positions(text: str) -> str:
    """A fault without positions, which edits change."""
    import re

    return re.sub(r"#\d+", "#", text)


def _type_faults(before: Graph, after: Graph) -> list[str]:
    try:
        gaps = infer_types(after)
    except AmandaError as error:
        return [str(error)]
    if not gaps:
        return _rank_faults(after)
    known = {(gap.op, gap.why) for gap in infer_types(before.clone())}
    return [
        str(gap)
        for gap in gaps
        if gap.why and not gap.foreign and (gap.op, gap.why) not in known
    ]


def _rank_faults(graph: Graph) -> list[str]:
    """Results without a type, which a model of a file needs."""
    results: list[OutputPort] = [v for v in graph.results if v is not None]
    return [f"the type of result {v} is not known" for v in results if v.type is None]
