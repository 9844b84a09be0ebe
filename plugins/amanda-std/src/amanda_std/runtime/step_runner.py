"""Graphs run on arrays: steps over numbered slots, built once and run many times.

The same runner serves every array library; only the kernel table differs. A value is
dropped after the last step that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from amanda.backend import Implementation
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
from amanda_std.runtime.containers import decode_string, holds_strings, string_array
from amanda_std.runtime.implementations import ChosenKernel
from amanda_std.runtime.kernel_binding import call_with_integers
from amanda_std.runtime.memory_plan import (
    Lifetimes,
    MemoryPlan,
    PlannedStep,
    PlannedValue,
    plan_lifetimes,
)


class RunStep(NamedTuple):
    """One op: its kernel, the slots it reads and writes, and the slots freed after
    it."""

    call: Callable[..., Any]
    take: Callable[[list[Any]], Sequence[Any]]
    out: int
    """The slot of the only result; -1 if a sequence of results is returned."""
    outs: tuple[int, ...]
    drop: tuple[int, ...]
    label: str


class UnscheduledStep(NamedTuple):
    """A step before its memory is planned."""

    op: Op
    call: Callable[..., Any]
    ins: list[int]
    outs: list[int]
    many: bool
    label: str


Key = str | int


class StepRunner:
    """A graph as steps; `run` receives its parameters and captures.

    Subclasses may override `body_runner`, `kernels_of`, `bind_kernel`,
    `constant_array`, `unscheduled_step` and `schedule`."""

    def __init__(self, graph: Graph, kernels: Kernels | None = None) -> None:
        self.kernels = kernels
        self.captures = graph.captures
        self.result_types: tuple[Type | None, ...] = tuple(
            None if v is None else v.type for v in graph.results
        )
        self._slots: dict[OutputPort, int] = {}
        self._initial: list[Any] = []
        self._initial_with_weights: list[Any] | None = None
        self._chosen: list[ChosenKernel] = []
        self._inner: list[StepRunner] = []
        """The programs of bodies and of graphs that stand as ops."""
        self.weights: dict[Key, tuple[int, Tensor]] = {}
        """The slot and tensor of each constant, by name, or by number if unnamed."""
        for value in (*graph.parameters, *self.captures):
            self._new_slot(value)
        self._inputs = len(self._initial)
        found = (self.unscheduled_step(op, i) for i, op in enumerate(graph))
        rows = [row for row in found if row is not None]
        kept = [None if v is None else self._slots[v] for v in graph.results]
        self._results = [self._constant_slot(None) if p is None else p for p in kept]
        self.steps = self.schedule(rows)
        self.effects = frozenset(filter(None, map(_effect, graph.walk())))
        """The effects of all ops inside."""
        self._slots.clear()

    def _new_slot(self, value: OutputPort | None = None) -> int:
        place = len(self._initial)
        self._initial.append(None)
        if value is not None:
            self._slots[value] = place
        return place

    def _constant_slot(self, value: Any) -> int:
        """A slot that holds the same value in every run."""
        place = self._new_slot()
        self._initial[place] = value
        return place

    # -- making ----------------------------------------------------------------

    def body_runner(self, graph: Graph) -> StepRunner:
        """The runner of a body, or of a graph that stands as an op."""
        return StepRunner(graph, self.kernels)

    def _body_program(self, graph: Graph) -> StepRunner:
        program = self.body_runner(graph)
        if isinstance(program, StepRunner):
            self._inner.append(program)
        return program

    def unscheduled_step(self, op: Op, number: int) -> UnscheduledStep | None:
        """The step of an op before the order of steps is known; None for a constant,
        which is a weight. For subclasses to override."""
        if op.is_constant:
            key = len(self.weights) if op.name is None else op.name
            self.weights[key] = (self._new_slot(op.output), op.attrs["value"])
            return None
        label = _label(op, number)
        if isinstance(op, Graph):
            program = self._body_program(op)
            inputs = [v for v in op.inputs if v is not None]
            ins = [self._slots[v] for v in (*inputs, *program.captures)]
            call: Callable[..., Any] = partial(_call_graph, program, len(inputs))
            many = True
        else:
            call, ins = self.bind_kernel(op)
            self._chosen[-1] = self._chosen[-1]._replace(op=label)
            many = operation_of(op).form.many
        outs = [self._new_slot(port) for port in op.outputs]
        return UnscheduledStep(op, call, ins, outs, many, label)

    def add_step(
        self, op: Op, number: int, call: Callable[..., Any],
        inputs: Sequence[OutputPort], many: bool, kernel: Any,
    ) -> UnscheduledStep:  # fmt: skip
        """A step that calls a function with values; `kernel` names it in reports."""
        label = _label(op, number)
        chosen = ChosenKernel(label, op.type or "?", (), kernel, "")
        self._chosen.append(chosen)
        ins = [self._slots[value] for value in inputs]
        outs = [self._new_slot(port) for port in op.outputs]
        return UnscheduledStep(op, call, ins, outs, many, label)

    def kernels_of(self, op: Op) -> Kernels | None:  # noqa: ARG002
        """The table that has the kernel of an op."""
        return self.kernels

    def constant_array(self, tensor: Tensor) -> Any:
        """A constant as kernels expect it."""
        return _weight_array(tensor)

    def bind_kernel(self, op: Op) -> tuple[Callable[..., Any], list[int]]:
        """The callable of an op, with attributes bound, and the slots it reads."""
        operation, kernels = operation_of(op), self.kernels_of(op)
        args, attrs = op_arguments(op, lambda port: port)
        params = operation.form.params_of(len(args))
        call = operation.implementation(kernels)
        if isinstance(call, KernelDispatch):
            types = [a.type for a in args if isinstance(a, OutputPort)]
            call = call.built(types, attrs)
        self._chosen.append(ChosenKernel.of(op, call, kernels))
        if attrs:
            call = partial(call, **attrs)
        hosts = [
            i
            for i, (p, a) in enumerate(zip(params, args, strict=True))
            if p.kind.role == SHAPE_ARG and isinstance(a, OutputPort)
        ]
        if hosts:
            call = partial(call_with_integers, call, tuple(hosts))
        if not all(map(_has_known_dtype, params, args)):
            call = partial(_call_checked, operation, params, call)
        bodies = [
            (i, param.kind.many, [self._body_program(graph) for graph in graphs])
            for i, (param, a) in enumerate(zip(params, args, strict=True))
            if (graphs := _bodies_in(param, a))
        ]
        ins = [
            self._slots[a] if isinstance(a, OutputPort) else self._constant_slot(a)
            for param, a in zip(params, args, strict=True)
            if not _bodies_in(param, a)
        ]
        if bodies:
            call = partial(_with_bodies, call, len(ins), bodies)
            ins += [
                self._slots[v]
                for _, _, programs in bodies
                for program in programs
                for v in program.captures
            ]
        return call, ins

    def schedule(self, rows: Sequence[UnscheduledStep]) -> list[RunStep]:
        """The steps, each with the slots freed after it."""
        plan = plan_lifetimes(rows, self._results, self.kernels)
        steps = []
        for i, row in enumerate(rows):
            call, ins, over = row.call, row.ins, plan.over.get(i)
            if over is not None and over in ins:
                call = partial(_call_in_place, call, ins.index(over))
            elif over is not None:
                call, ins = partial(_call_with_out, call), [*ins, over]
            out = -1 if row.many else row.outs[0]
            drop = tuple(plan.frees[i])
            steps.append(
                RunStep(call, slot_reader(ins), out, tuple(row.outs), drop, row.label)
            )
        self._memory_plan = _memory_plan(self, rows, plan)
        return steps

    def plan(self) -> MemoryPlan:
        """The memory plan: lifetimes of values and reuse of memory."""
        return self._memory_plan

    def implementations(self) -> Iterator[Implementation]:
        """What each op calls, those of bodies included."""
        yield from (chosen.implementation() for chosen in self._chosen)
        for program in self._inner:
            yield from program.implementations()

    # -- running ---------------------------------------------------------------

    def _load_weights(self, weights: Mapping[Key, Any] | None) -> list[Any]:
        """The slots before the first step. Weights are loaded on first use."""
        start = self._initial.copy()
        for key, (place, tensor) in self.weights.items():
            start[place] = (
                self.constant_array(tensor) if weights is None else weights[key]
            )
        if weights is None:
            self._initial_with_weights = start
        return start

    def run(
        self,
        args: Sequence[Any],
        captured: Sequence[Any] = (),
        weights: Mapping[Key, Any] | None = None,
    ) -> list[Any]:
        """The results. `weights` replaces all constants, by their keys."""
        values = self._first_values(args, captured, weights)
        run_steps(self.steps, values)
        return self._results_in(values)

    def _first_values(
        self,
        args: Sequence[Any],
        captured: Sequence[Any] = (),
        weights: Mapping[Key, Any] | None = None,
    ) -> list[Any]:
        """The content of the slots before the first step."""
        ready = self._initial_with_weights if weights is None else None
        values = (self._load_weights(weights) if ready is None else ready).copy()
        values[: self._inputs] = [*args, *captured]
        return values

    def _results_in(self, values: Sequence[Any]) -> list[Any]:
        """The results in the slots after the last step."""
        return [values[place] for place in self._results]

    def run_consuming(self, args: list[Any]) -> list[Any]:
        """The results of arguments that are freed after their last use.

        The list is cleared. There are no captures."""
        ready = self._initial_with_weights
        values = (self._load_weights(None) if ready is None else ready).copy()
        values[: self._inputs] = args
        args.clear()
        run_steps(self.steps, values)
        return [values[place] for place in self._results]


def run_steps(
    steps: Sequence[RunStep], values: list[Any], *, wrap_errors: bool = True
) -> None:
    """Run steps over `values`, the content of the slots, in place.

    `wrap_errors`: errors of kernels become BackendErrors that name the step."""
    step = None
    try:
        for step in steps:
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
        if not wrap_errors:
            raise
        raise BackendError(
            f"{step.label if step else 'the graph'} failed while running",
            got=f"{type(error).__name__}: {error}",
        ) from error


def _label(op: Op, number: int) -> str:
    """The name of a step in memory plans and errors."""
    label = f"{op.type} {op.name!r}" if op.name else f"{op.type} #{number}"
    shown = operation_of(op).label_attribute if is_std(op) else None
    if shown is None or not op.has_attrs or not (value := op.attrs.get(shown[0])):
        return label
    return f"{label} {shown[1]} {value}"


def _call_with_out(call: Callable[..., Any], *args: Any) -> Any:
    return call(*args[:-1], out=args[-1])


def _call_in_place(call: Callable[..., Any], place: int, *args: Any) -> Any:
    return call(*args, out=args[place])


def _weight_array(tensor: Tensor) -> Any:
    """A weight as kernels expect it: strings as `str`."""
    array = tensor.numpy()
    return (
        string_array([decode_string(t) for t in array.flat], array.shape)
        if holds_strings(array)
        else array
    )


def _memory_plan(
    program: StepRunner, rows: Sequence[UnscheduledStep], plan: Lifetimes
) -> MemoryPlan:
    """The description of the memory plan."""
    made = {place: i for i, row in enumerate(rows) for place in row.outs}
    last: dict[int, int] = {}
    for i, row in enumerate(rows):
        last.update(dict.fromkeys((*row.outs, *row.ins), i))
    kept = set(program._results)
    ports = {place: port for port, place in program._slots.items()}
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
        aliases = tuple(sorted(plan.aliases.get(place, ())))
        value = PlannedValue(
            place, str(port), kind, type_, begins, ends, memory, aliases
        )
        values.append(value)
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
    """A body as kernels call it, with the types of its results."""

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


def _bodies_in(param: Param, value: Any) -> Sequence[Graph]:
    """The bodies in an argument."""
    if param.kind.role != BODY:
        return ()
    return value if param.kind.many else (value,)


def _with_bodies(
    call: Callable[..., Any],
    count: int,
    bodies: Sequence[tuple[int, bool, Sequence[StepRunner]]],
    *args: Any,
) -> Any:
    """Call a kernel with runners of its bodies, each with its captures."""
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


def _call_checked(
    operation: Operation, params: Sequence[Param], call: Callable[..., Any], *args: Any
) -> Any:
    """Call a kernel whose argument dtypes were unknown when the program was built."""
    type_inference.array_dtype(operation, params, args)
    return call(*args)


def _has_known_dtype(param: Param, value: Any) -> bool:
    if param.kind.role != TENSOR or not isinstance(value, OutputPort):
        return True
    return isinstance(value.type, TensorType) and value.type.dtype is not unknown


def slot_reader(ins: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """A function that reads these slots, for `RunStep.take`."""
    if not ins:
        return lambda _: ()
    if len(ins) == 1:
        place = ins[0]
        return lambda values: (values[place],)
    return itemgetter(*ins)
