"""Graphs run on arrays: steps over numbered places, made once and run many times.

The same program runs on any array library: what differs is the table of kernels. A
value is dropped after the last step that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from amanda.errors import AmandaError, BackendError
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import TensorType, Type, unknown
from amanda_std.engine.annotations import BODY, SHAPE_ARG, TENSOR, Param
from amanda_std.engine.arrays import Kernels
from amanda_std.engine.kernel_dispatch import KernelDispatch
from amanda_std.engine.operation import Operation
from amanda_std.hub.effect_order import effect_of as _effect
from amanda_std.hub.op_access import is_std, op_arguments, operation_of
from amanda_std.inference import type_inference
from amanda_std.inference.shape_arguments import to_integers
from amanda_std.runtime.containers import decode_string, holds_strings, string_array
from amanda_std.runtime.memory_plan import (
    Lifetimes,
    MemoryPlan,
    PlannedStep,
    PlannedValue,
    plan_lifetimes,
)


class RunStep(NamedTuple):
    """One op: what it calls, the places it reads and writes, and those then empty."""

    call: Callable[..., Any]
    take: Callable[[list[Any]], Sequence[Any]]
    out: int
    """Where the one result goes; -1 where several come in a sequence."""
    outs: tuple[int, ...]
    drop: tuple[int, ...]
    label: str


class UnscheduledStep(NamedTuple):
    """A step in the making."""

    op: Op
    call: Callable[..., Any]
    ins: list[int]
    outs: list[int]
    many: bool
    label: str


Key = str | int


class StepRunner:
    """A graph as steps. `run` gets what its parameters are, and what it captures."""

    def __init__(self, graph: Graph, kernels: Kernels | None = None) -> None:
        self.kernels = kernels
        self.captures = graph.captures
        self.result_types: tuple[Type | None, ...] = tuple(
            None if v is None else v.type for v in graph.results
        )
        self._place: dict[OutputPort, int] = {}
        self._start: list[Any] = []
        self._ready: list[Any] | None = None
        self.weights: dict[Key, tuple[int, Tensor]] = {}
        """The constants by key: their names, or their numbers where they have none."""
        for value in (*graph.parameters, *self.captures):
            self._new(value)
        self._inputs = len(self._start)
        found = (self._row(op, i) for i, op in enumerate(graph))
        rows = [row for row in found if row is not None]
        kept = [None if v is None else self._place[v] for v in graph.results]
        self._results = [self._fixed(None) if p is None else p for p in kept]
        self.steps = self._scheduled(rows)
        self.effects = frozenset(filter(None, map(_effect, graph.walk())))
        """What its ops do besides computing."""
        self._place.clear()

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

    def _inside(self, graph: Graph) -> StepRunner:
        """What runs a body, or a graph that stands as an op."""
        return StepRunner(graph, self.kernels)

    def _row(self, op: Op, number: int) -> UnscheduledStep | None:
        if op.is_constant:
            key = len(self.weights) if op.name is None else op.name
            self.weights[key] = (self._new(op.output), op.attrs["value"])
            return None
        if isinstance(op, Graph):
            program = self._inside(op)
            inputs = [v for v in op.inputs if v is not None]
            ins = [self._place[v] for v in (*inputs, *program.captures)]
            call: Callable[..., Any] = partial(_call_graph, program, len(inputs))
            many = True
        else:
            call, ins = self._call(op)
            many = operation_of(op).form.many
        outs = [self._new(port) for port in op.outputs]
        return UnscheduledStep(op, call, ins, outs, many, _label(op, number))

    def _call(self, op: Op) -> tuple[Callable[..., Any], list[int]]:
        """The kernel of an op, wrapped as far as its arguments ask for."""
        operation = operation_of(op)
        args, attrs = op_arguments(op, lambda port: port)
        params = operation.form.each(len(args))
        call = operation.implementation(self.kernels)
        if isinstance(call, KernelDispatch):
            types = [a.type for a in args if isinstance(a, OutputPort)]
            call = call.built(types, attrs)
        if attrs:
            call = partial(call, **attrs)
        hosts = [
            i
            for i, (p, a) in enumerate(zip(params, args, strict=True))
            if p.kind.role == SHAPE_ARG and isinstance(a, OutputPort)
        ]
        if hosts:
            call = partial(_with_hosts, call, tuple(hosts))
        if not all(map(_is_typed, params, args)):
            call = partial(_checked, operation, params, call)
        bodies = [
            (i, param.kind.many, [self._inside(graph) for graph in graphs])
            for i, (param, a) in enumerate(zip(params, args, strict=True))
            if (graphs := _graphs(param, a))
        ]
        ins = [
            self._place[a] if isinstance(a, OutputPort) else self._fixed(a)
            for param, a in zip(params, args, strict=True)
            if not _graphs(param, a)
        ]
        if bodies:
            call = partial(_with_bodies, call, len(ins), bodies)
            ins += [
                self._place[v]
                for _, _, programs in bodies
                for program in programs
                for v in program.captures
            ]
        return call, ins

    def _scheduled(self, rows: Sequence[UnscheduledStep]) -> list[RunStep]:
        """The steps, each with the places that nothing reads after it."""
        plan = plan_lifetimes(rows, self._results, self.kernels)
        steps = []
        for i, row in enumerate(rows):
            call, ins, over = row.call, row.ins, plan.over.get(i)
            if over is not None and over in ins:
                call = partial(_over, call, ins.index(over))
            elif over is not None:
                call, ins = partial(_into, call), [*ins, over]
            out = -1 if row.many else row.outs[0]
            drop = tuple(plan.frees[i])
            steps.append(
                RunStep(call, _taker(ins), out, tuple(row.outs), drop, row.label)
            )
        self._plan = _plan(self, rows, plan)
        return steps

    def plan(self) -> MemoryPlan:
        """What is kept where, how long, and what is written over."""
        return self._plan

    # -- running ---------------------------------------------------------------

    def _filled(self, weights: Mapping[Key, Any] | None) -> list[Any]:
        """The values before the first step. Weights are read when they are needed."""
        start = self._start.copy()
        for key, (place, tensor) in self.weights.items():
            start[place] = _array(tensor) if weights is None else weights[key]
        if weights is None:
            self._ready = start
        return start

    def run(
        self,
        args: Sequence[Any],
        captured: Sequence[Any] = (),
        weights: Mapping[Key, Any] | None = None,
    ) -> list[Any]:
        """The results. `weights`: others in place of the constants, by their keys."""
        ready = self._ready if weights is None else None
        values = (self._filled(weights) if ready is None else ready).copy()
        values[: self._inputs] = [*args, *captured]
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


def _label(op: Op, number: int) -> str:
    """The name of a step in memory plans and errors."""
    label = f"{op.type} {op.name!r}" if op.name else f"{op.type} #{number}"
    shown = operation_of(op).label_attribute if is_std(op) else None
    if shown is None or not op.has_attrs or not (value := op.attrs.get(shown[0])):
        return label
    return f"{label} {shown[1]} {value}"


def _into(call: Callable[..., Any], *args: Any) -> Any:
    return call(*args[:-1], out=args[-1])


def _over(call: Callable[..., Any], place: int, *args: Any) -> Any:
    return call(*args, out=args[place])


def _array(tensor: Tensor) -> Any:
    """A weight as kernels want it: texts are `str`."""
    array = tensor.numpy()
    return (
        string_array([decode_string(t) for t in array.flat], array.shape)
        if holds_strings(array)
        else array
    )


def _plan(
    program: StepRunner, rows: Sequence[UnscheduledStep], plan: Lifetimes
) -> MemoryPlan:
    """The description of what was planned."""
    made = {place: i for i, row in enumerate(rows) for place in row.outs}
    last: dict[int, int] = {}
    for i, row in enumerate(rows):
        last.update(dict.fromkeys((*row.outs, *row.ins), i))
    kept = set(program._results)
    ports = {place: port for port, place in program._place.items()}
    weights = {place for place, _ in program.weights.values()}
    values = []
    for place, port in sorted(ports.items()):
        if place in made:
            kind = "value"
        elif place in weights:
            kind = "weight"
        else:
            kind = "captured" if port in program.captures else "input"
        ends = None if place in kept else last.get(place, -1)
        memory = plan.memory.get(place)
        type_ = port.type
        begins = made.get(place, -1)
        values.append(PlannedValue(place, str(port), kind, type_, begins, ends, memory))
    steps = [
        PlannedStep(
            row.label,
            tuple(row.ins),
            tuple(row.outs),
            plan.over.get(i),
            tuple(plan.frees[i]),
        )
        for i, row in enumerate(rows)
    ]
    return MemoryPlan(tuple(values), tuple(steps))


class BodyCall:
    """A body that a kernel calls; it knows the types of what it returns."""

    __slots__ = ("captured", "program")

    def __init__(self, program: StepRunner, captured: Sequence[Any]) -> None:
        self.program = program
        self.captured = captured

    @property
    def result_types(self) -> tuple[Type | None, ...]:
        return self.program.result_types

    def __call__(self, *args: Any) -> list[Any]:
        return self.program.run(args, self.captured)


def _call_graph(program: StepRunner, count: int, *args: Any) -> list[Any]:
    return program.run(args[:count], args[count:])


def _graphs(param: Param, value: Any) -> Sequence[Graph]:
    """The bodies that an argument is."""
    if param.kind.role != BODY:
        return ()
    return value if param.kind.many else (value,)


def _with_bodies(
    call: Callable[..., Any],
    count: int,
    bodies: Sequence[tuple[int, bool, Sequence[StepRunner]]],
    *args: Any,
) -> Any:
    """Bodies put in at their places, each with what it captures."""
    ready = list(args[:count])
    at = count
    for place, many, programs in bodies:
        found = []
        for program in programs:
            end = at + len(program.captures)
            found.append(BodyCall(program, args[at:end]))
            at = end
        ready.insert(place, tuple(found) if many else found[0])
    return call(*ready)


def _with_hosts(call: Callable[..., Any], hosts: Sequence[int], *args: Any) -> Any:
    ready = list(args)
    for i in hosts:
        ready[i] = to_integers(ready[i])
    return call(*ready)


def _checked(
    operation: Operation, params: Sequence[Param], call: Callable[..., Any], *args: Any
) -> Any:
    """For arguments whose element types were not known when the program was made."""
    type_inference.array_dtype(operation, params, args)
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
