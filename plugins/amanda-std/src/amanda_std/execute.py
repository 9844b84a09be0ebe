"""Graphs run on arrays: steps over numbered places, made once and run many times.

The same program runs on any array library: what differs is the table of kernels. A
value is dropped after the last step that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from amanda.errors import AmandaError, BackendError
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import TensorType, Type, unknown
from amanda_std import inference
from amanda_std.arrays import Kernels
from amanda_std.hosts import plain
from amanda_std.kinds import HOST, TENSOR, Param
from amanda_std.operation import Operation
from amanda_std.reading import arguments, is_constant, is_std, operation_of


class Step(NamedTuple):
    """One op: what it calls, the places it reads and writes, and those then empty."""

    call: Callable[..., Any]
    take: Callable[[list[Any]], Sequence[Any]]
    out: int
    """Where the one result goes; -1 where several come in a sequence."""
    outs: tuple[int, ...]
    drop: tuple[int, ...]
    label: str


class Row(NamedTuple):
    """A step in the making."""

    op: Op
    call: Callable[..., Any]
    ins: list[int]
    outs: list[int]
    many: bool
    label: str


class Program:
    """A graph as steps. `run` gets what its parameters are, and what it captures."""

    def __init__(self, graph: Graph, kernels: Kernels | None = None) -> None:
        self.kernels = kernels
        self.captures = graph.captures
        self.result_types: tuple[Type | None, ...] = tuple(
            None if v is None else v.type for v in graph.results
        )
        self._place: dict[OutputPort, int] = {}
        self._start: list[Any] = []
        self.weights: list[tuple[int, Tensor]] = []
        for value in (*graph.parameters, *self.captures):
            self._new(value)
        self._inputs = len(self._start)
        found = (self._row(op, i) for i, op in enumerate(graph))
        rows = [row for row in found if row is not None]
        kept = [None if v is None else self._place[v] for v in graph.results]
        self._results = [self._fixed(None) if p is None else p for p in kept]
        self.steps = self._scheduled(rows)

    def _new(self, value: OutputPort | None = None) -> int:
        place = len(self._start)
        self._start.append(None)
        if value is not None:
            self._place[value] = place
        return place

    def _fixed(self, value: Any) -> int:
        """A place that holds the same in every run."""
        place = self._new()
        self._start[place] = value
        return place

    # -- making ----------------------------------------------------------------

    def _row(self, op: Op, number: int) -> Row | None:
        if is_constant(op):
            tensor = op.attrs["value"]
            place = self._new(op.output)
            self._start[place] = tensor.numpy()
            self.weights.append((place, tensor))
            return None
        if isinstance(op, Graph):
            program = Program(op, self.kernels)
            inputs = [v for v in op.inputs if v is not None]
            ins = [self._place[v] for v in (*inputs, *program.captures)]
            call: Callable[..., Any] = partial(_call_graph, program, len(inputs))
            many = True
        else:
            call, ins = self._call(op)
            many = operation_of(op).form.many
        label = f"{op.type} {op.name!r}" if op.name else f"{op.type} #{number}"
        return Row(op, call, ins, [self._new(port) for port in op.outputs], many, label)

    def _call(self, op: Op) -> tuple[Callable[..., Any], list[int]]:
        """The kernel of an op, wrapped as far as its arguments ask for."""
        operation = operation_of(op)
        args, attrs = arguments(op, lambda port: port)
        params = operation.form.each(len(args))
        call = operation.implementation(self.kernels)
        if attrs:
            call = partial(call, **attrs)
        hosts = [
            i
            for i, (p, a) in enumerate(zip(params, args, strict=True))
            if p.kind.role == HOST and isinstance(a, OutputPort)
        ]
        if hosts:
            call = partial(_with_hosts, call, tuple(hosts))
        if not all(map(_is_typed, params, args)):
            call = partial(_checked, operation, params, call)
        bodies = [
            (i, Program(a, self.kernels))
            for i, a in enumerate(args)
            if isinstance(a, Graph)
        ]
        ins = [
            self._place[a] if isinstance(a, OutputPort) else self._fixed(a)
            for a in args
            if not isinstance(a, Graph)
        ]
        if bodies:
            call = partial(_with_bodies, call, len(ins), bodies)
            ins += [self._place[v] for _, program in bodies for v in program.captures]
        return call, ins

    def _scheduled(self, rows: Sequence[Row]) -> list[Step]:
        """The steps, each with the places that nothing reads after it."""
        last: dict[int, int] = {}
        for i, row in enumerate(rows):
            last.update(dict.fromkeys((*row.outs, *row.ins), i))
        for place in self._results:
            last.pop(place, None)
        dead: dict[int, list[int]] = {}
        for place, i in last.items():
            dead.setdefault(i, []).append(place)
        plan = Reuse(rows, self.kernels)
        return [
            Step(
                plan.call(row, dead.get(i, ())),
                _taker(row.ins),
                -1 if row.many else row.outs[0],
                tuple(row.outs),
                tuple(dead.get(i, ())),
                row.label,
            )
            for i, row in enumerate(rows)
        ]

    # -- running ---------------------------------------------------------------

    def run(
        self, args: Sequence[Any], captured: Sequence[Any] = (), weights: Any = None
    ) -> list[Any]:
        """The results. `weights`: others in place of the constants, in their order."""
        values = self._start.copy()
        values[: self._inputs] = [*args, *captured]
        if weights is not None:
            for (place, _), weight in zip(self.weights, weights, strict=True):
                values[place] = weight
        step = None
        try:
            for step in self.steps:
                call, take, out, outs, drop, _ = step
                if out >= 0:
                    values[out] = call(*take(values))
                else:
                    for place, value in zip(outs, call(*take(values)), strict=True):
                        values[place] = value
                for place in drop:
                    values[place] = None
        except (AmandaError, MemoryError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise BackendError(
                f"{step.label if step else 'the graph'} failed while running",
                got=f"{type(error).__name__}: {error}",
            ) from error
        return [values[place] for place in self._results]


class Reuse:
    """Which steps may write their result over an operand that nothing reads after.

    The operand must be the program's own: made by an op that gives fresh memory, and
    never read by an op that may give a view of it."""

    def __init__(self, rows: Sequence[Row], kernels: Kernels | None) -> None:
        self._kernels = kernels
        self._own: dict[int, OutputPort] = {}
        if kernels is None or not kernels.in_place:
            return
        for row in rows:
            if row.op.type in kernels.fresh and is_std(row.op) and not row.many:
                self._own[row.outs[0]] = row.op.output
            else:
                for place in row.ins:
                    self._own.pop(place, None)

    def call(self, row: Row, dead: Sequence[int]) -> Callable[..., Any]:
        """What the step calls; with `out=` where an operand can be written over."""
        kernels = self._kernels
        if kernels is None or row.op.type not in kernels.in_place or row.many:
            return row.call
        if row.call is not kernels.get(row.op.type):
            return row.call  # wrapped for a reason
        result = row.op.output.type
        for i, place in enumerate(row.ins):
            own = self._own.get(place)
            if own is not None and place in dead and _alike(own.type, result):
                return partial(_over, row.call, i)
        return row.call


def _alike(a: Type | None, b: Type | None) -> bool:
    """Whether two values surely have one element type and shape, and are no scalars."""
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return False
    same = a.dtype is b.dtype and a.dtype is not unknown and a.shape == b.shape
    return same and a.shape.has_rank and a.shape.rank > 0


def _over(call: Callable[..., Any], place: int, *args: Any) -> Any:
    return call(*args, out=args[place])


class BodyCall:
    """A body that a kernel calls; it knows the types of what it returns."""

    __slots__ = ("captured", "program")

    def __init__(self, program: Program, captured: Sequence[Any]) -> None:
        self.program = program
        self.captured = captured

    @property
    def result_types(self) -> tuple[Type | None, ...]:
        return self.program.result_types

    def __call__(self, *args: Any) -> list[Any]:
        return self.program.run(args, self.captured)


def _call_graph(program: Program, count: int, *args: Any) -> list[Any]:
    return program.run(args[:count], args[count:])


def _with_bodies(
    call: Callable[..., Any],
    count: int,
    bodies: Sequence[tuple[int, Program]],
    *args: Any,
) -> Any:
    """Bodies put in at their places, each with what it captures."""
    ready = list(args[:count])
    at = count
    for place, program in bodies:
        end = at + len(program.captures)
        ready.insert(place, BodyCall(program, args[at:end]))
        at = end
    return call(*ready)


def _with_hosts(call: Callable[..., Any], hosts: Sequence[int], *args: Any) -> Any:
    ready = list(args)
    for i in hosts:
        ready[i] = plain(ready[i])
    return call(*ready)


def _checked(
    operation: Operation, params: Sequence[Param], call: Callable[..., Any], *args: Any
) -> Any:
    """For arguments whose element types were not known when the program was made."""
    inference.array_dtype(operation, params, args)
    return call(*args)


def _is_typed(param: Param, value: Any) -> bool:
    if param.kind.role != TENSOR or not isinstance(value, OutputPort):
        return True
    return isinstance(value.type, TensorType) and value.type.dtype is not unknown


def _taker(ins: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    if not ins:
        return lambda _: ()
    if len(ins) == 1:
        place = ins[0]
        return lambda values: (values[place],)
    return itemgetter(*ins)
