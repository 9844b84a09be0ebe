"""Which values are followed on the host while a program is traced.

XLA knows all shapes beforehand, so a host argument (shape, axes, pads, k) that is
computed in the graph has to be a number while the program is traced; so has the number
of rounds of a loop that stacks what each gives. Going back from
each one: shapes of traced values are numbers already, constants stay on the host, and
what comes from data is told, so that a program is made for its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.types import OptionalType, SequenceType, TupleType
from amanda_std.backends import (
    SHAPE_ARG,
    is_std,
    op_arguments,
    operation_of,
)

__all__ = ["Followed", "behind", "followed", "holds"]

_SHAPES: Final = ("shape_of", "dim", "size")


class Followed(NamedTuple):
    """The answer for one graph."""

    constants: frozenset[OutputPort]
    """Constants that stay on the host."""
    data: tuple[OutputPort, ...]
    """Values of the graph that host arguments are, and that data decides; in order."""
    readers: Mapping[Op, Sequence[OutputPort]]
    """Which of these an op of the graph, or what is in its bodies, needs."""
    shapes: frozenset[Op]
    """Ops that tell host arguments and ask of data for no more than its shape."""

    def is_free(self, op: Op) -> bool:
        """Whether nothing is done again where an op stands in several pieces."""
        return op.is_constant or op in self.shapes


def followed(graph: Graph) -> Followed:
    """What host arguments of the graph, and of all its bodies, are made of."""
    constants: set[OutputPort] = set()
    data: set[OutputPort] = set()
    shapes: set[Op] = set()
    readers: dict[Op, list[OutputPort]] = {}
    for op in graph.walk():
        for port, is_needed in _asked(op):
            for entry in _entries(port, graph, constants):
                made_of = list(behind([entry], lambda _: True))
                if not any(map(_is_opaque, made_of)):
                    shapes.update(v.op for v in made_of if v.graph is graph)
                elif is_needed:
                    data.add(entry)
                    readers.setdefault(_placed(op, graph), []).append(entry)
                else:
                    continue
                constants.update(filter(_is_constant, made_of))
    places = {op: i for i, op in enumerate(graph)}

    def order(port: OutputPort) -> tuple[int, int]:
        is_input = type(port) is Parameter
        return (-1 if is_input else places[port.op], port.index)

    in_order = tuple(sorted(data, key=order))
    return Followed(frozenset(constants), in_order, readers, frozenset(shapes))


def _placed(op: Op, graph: Graph) -> Op:
    """The op of a graph that is this one, or holds it."""
    at = op
    while at.graph is not graph:
        home = at.graph
        assert home is not None
        at = home.holder if home.holder is not None else home
    return at


def _asked(op: Op) -> Iterator[tuple[OutputPort, bool]]:
    """What should be a number while an op is traced, and whether it has to be one.

    A choice that shapes alone decide is none where the graph is cut around it, too."""
    if not is_std(op):
        return
    args, _ = op_arguments(op, lambda port: port)
    params = operation_of(op).form.each(len(args))
    deciding = _deciding(op, args)
    for param, value in zip(params, args, strict=True):
        if isinstance(value, OutputPort):
            if param.kind.role == SHAPE_ARG or any(value is each for each in deciding):
                yield value, True
            elif op.type in ("if", "case") and value is args[0]:
                yield value, False


_PLACES: Final = {"sequence_at": 1, "sequence_insert": 2, "sequence_erase": 1}
"""Ops that take one of several tensors: which of their arguments says which one."""


def _deciding(op: Op, args: Sequence[Any]) -> Sequence[Any]:
    """What decides which tensors there are, besides host arguments."""
    if op.type in _PLACES:
        return args[_PLACES[op.type] :]
    if op.type == "resize" and op.attrs.get("antialias"):
        return args[2:3]  # a scale tells how many old elements make a new one
    if op.type == "loop":
        return args[:2] if _stacks(op) or _hands_on(op) else ()
    if op.type in ("if", "case"):
        return args[:1] if _hands_on(op) else ()
    return ()


def _stacks(op: Op) -> bool:
    """Whether a loop stacks what its rounds give: their number decides a shape."""
    return len(op.outputs) > len(op.inputs) - 2


def _hands_on(op: Op) -> bool:
    """Whether what a choice or a loop gives, or carries, is no tensor, but holds some.

    How many it holds may be another number after each branch and each round."""
    results = (v for body in op.bodies.values() for v in body.results if v is not None)
    return any(map(holds, (*op.outputs, *results)))


def holds(port: OutputPort) -> bool:
    """Whether a value is known to be no tensor, but to hold some."""
    return isinstance(port.type, SequenceType | OptionalType | TupleType)


def _entries(
    port: OutputPort, graph: Graph, constants: set[OutputPort]
) -> list[OutputPort]:
    """The values of the graph itself that a host argument, maybe of a body, reads."""
    found: dict[OutputPort, None] = {}
    for value in behind([port], lambda v: v.graph is not graph):
        if value.graph is graph:
            found[value] = None
        elif _is_constant(value):
            constants.add(value)
    return list(found)


def behind(
    start: Iterable[OutputPort], goes_on: Callable[[OutputPort], bool]
) -> Iterator[OutputPort]:
    """The values that some are made of, through all that is no question of shapes."""
    waiting = list(start)
    seen = set(waiting)
    while waiting:
        value = waiting.pop()
        yield value
        if not goes_on(value):
            continue
        for source in _sources(value):
            if source not in seen:
                seen.add(source)
                waiting.append(source)


def _sources(value: OutputPort) -> list[OutputPort]:
    if type(value) is Parameter:
        return _outside(value)
    if value.op.type in _SHAPES or _is_constant(value) or _is_opaque(value):
        return []
    return [v for v in value.op.inputs if v is not None]


def _outside(parameter: OutputPort) -> list[OutputPort]:
    """What a parameter of a body is outside, where it is the same in every round."""
    body = parameter.graph
    assert body is not None
    holder = body.holder
    if holder is None:
        inputs = body.inputs if body.graph is not None else ()
        given = inputs[parameter.index] if inputs else None
    elif holder.type in ("if", "case"):
        given = holder.inputs[parameter.index + 1]
    else:
        given = None
    return [] if given is None else [given]


def _is_constant(value: OutputPort) -> bool:
    return type(value) is not Parameter and value.op.is_constant


def _is_opaque(value: OutputPort) -> bool:
    """Whether only a run tells it: what is fed, and what bodies compute."""
    if type(value) is Parameter:
        return not _outside(value)
    return bool(value.op.bodies) or isinstance(value.op, Graph)
