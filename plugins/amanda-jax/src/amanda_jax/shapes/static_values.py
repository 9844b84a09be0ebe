"""Static values: what has to be known while a program is traced.

XLA needs static shapes, so a shape argument (shape, axes, pads, k) that the graph
computes has to be a number during tracing; so does the number of iterations of a loop
that stacks its results. Going back from each of them: shapes of traced values are
static, constants stay numbers, and values that depend on data are reported, so that a
program is compiled for each of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.types import OptionalType, SequenceType, TupleType
from amanda_std.backends import (
    SHAPE_ARG,
    Trait,
    compile_time_arguments,
    has_trait,
    is_std,
    op_arguments,
    operation_of,
)

__all__ = ["StaticValues", "ancestors", "analyze_static_values", "is_container"]


class StaticValues(NamedTuple):
    """The static values of one graph."""

    constants: frozenset[OutputPort]
    """Constants that stay numbers."""
    data: tuple[OutputPort, ...]
    """Values of the graph that decide shapes and depend on data; in order."""
    readers: Mapping[Op, Sequence[OutputPort]]
    """Which of these an op of the graph, or an op in its bodies, needs."""
    shapes: frozenset[Op]
    """Ops that compute shape arguments and use only the shapes of data."""

    def is_free(self, op: Op) -> bool:
        """Whether it costs nothing to repeat an op in several pieces."""
        return op.is_constant or op in self.shapes


def analyze_static_values(graph: Graph) -> StaticValues:
    """Find what the shape arguments of the graph, and of all its bodies, depend on."""
    constants: set[OutputPort] = set()
    data: set[OutputPort] = set()
    shapes: set[Op] = set()
    readers: dict[Op, list[OutputPort]] = {}
    for op in graph.walk():
        for port, is_needed in _needed_values(op):
            for entry in _graph_values(port, graph, constants):
                sources = list(ancestors([entry], lambda _: True))
                if not any(map(_is_run_time_value, sources)):
                    shapes.update(v.op for v in sources if v.graph is graph)
                elif is_needed:
                    data.add(entry)
                    readers.setdefault(_enclosing_op(op, graph), []).append(entry)
                else:
                    continue
                constants.update(filter(_is_constant, sources))
    positions = {op: i for i, op in enumerate(graph)}

    def order(port: OutputPort) -> tuple[int, int]:
        is_input = type(port) is Parameter
        return (-1 if is_input else positions[port.op], port.index)

    in_order = tuple(sorted(data, key=order))
    return StaticValues(frozenset(constants), in_order, readers, frozenset(shapes))


def _enclosing_op(op: Op, graph: Graph) -> Op:
    """The op of `graph` that is this op, or contains it."""
    current = op
    while current.graph is not graph:
        parent = current.graph
        assert parent is not None
        current = parent.holder if parent.holder is not None else parent
    return current


def _needed_values(op: Op) -> Iterator[tuple[OutputPort, bool]]:
    """The values that should be static while an op is traced, and whether they must be.

    A condition that depends on shapes alone is static even if the graph is cut around
    it."""
    if not is_std(op):
        return
    args, _ = op_arguments(op, lambda port: port)
    params = operation_of(op).form.params_of(len(args))
    deciding = compile_time_arguments(op)
    for param, value in zip(params, args, strict=True):
        if isinstance(value, OutputPort):
            if param.kind.role == SHAPE_ARG or any(value is each for each in deciding):
                yield value, True
            elif has_trait(op, Trait.BRANCHES) and value is args[0]:
                yield value, False


def is_container(port: OutputPort) -> bool:
    """Whether a value is known to be a container: a sequence, optional or tuple."""
    return isinstance(port.type, SequenceType | OptionalType | TupleType)


def _graph_values(
    port: OutputPort, graph: Graph, constants: set[OutputPort]
) -> list[OutputPort]:
    """The values of the graph itself that a shape argument depends on."""
    values: dict[OutputPort, None] = {}
    for value in ancestors([port], lambda v: v.graph is not graph):
        if value.graph is graph:
            values[value] = None
        elif _is_constant(value):
            constants.add(value)
    return list(values)


def ancestors(
    start: Iterable[OutputPort], follow: Callable[[OutputPort], bool]
) -> Iterator[OutputPort]:
    """The values that some values are computed from, up to those with a static shape.

    `follow`: whether to go on from a value to those that it is computed from."""
    pending = list(start)
    seen = set(pending)
    while pending:
        value = pending.pop()
        yield value
        if not follow(value):
            continue
        for source in _inputs(value):
            if source not in seen:
                seen.add(source)
                pending.append(source)


def _inputs(value: OutputPort) -> list[OutputPort]:
    if type(value) is Parameter:
        return _outer_values(value)
    if _is_constant(value) or _is_run_time_value(value):
        return []
    if has_trait(value.op, Trait.SHAPE_QUERY):
        return []
    return [v for v in value.op.inputs if v is not None]


def _outer_values(parameter: OutputPort) -> list[OutputPort]:
    """The outer value that a body parameter is in every iteration, if any."""
    body = parameter.graph
    assert body is not None
    holder = body.holder
    if holder is None:
        inputs = body.inputs if body.graph is not None else ()
        source = inputs[parameter.index] if inputs else None
    elif has_trait(holder, Trait.BRANCHES):
        source = holder.inputs[parameter.index + 1]
    else:
        source = None
    return [] if source is None else [source]


def _is_constant(value: OutputPort) -> bool:
    return type(value) is not Parameter and value.op.is_constant


def _is_run_time_value(value: OutputPort) -> bool:
    """Whether a value is known only at run time: a feed, or computed by a body."""
    if type(value) is Parameter:
        return not _outer_values(value)
    return bool(value.op.bodies) or isinstance(value.op, Graph)
