"""Ops that Python runs between the programs of XLA, one by one.

These are ops that XLA does not support, ops whose result size depends on data, and
control flow that XLA cannot drive, whose bodies are programs of their own. Where only
the size of a result depends on data, XLA computes the largest result possible, and
Python reads how much of it is valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import jax
import numpy as np

from amanda.backend import Implementation, extract_graph
from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.types import Type
from amanda_jax.compile.chunked_loops import ChunkedLoop
from amanda_jax.compile.code import BuildContext, CodeDetails, CompiledCode
from amanda_jax.compile.data_sized import LoopBody
from amanda_jax.compile.trace_context import trace_context
from amanda_jax.kernels import JAX, dynamic_shapes
from amanda_jax.weights.device_weights import ProgramConstants
from amanda_std.backends import (
    BODY,
    Operation,
    Trait,
    effect_of,
    has_trait,
    run_context,
    use_kernels,
)
from amanda_std.backends import StepRunner as StepProgram
from amanda_std.ops import OPS

__all__ = ["DATA_DEPENDENT", "PythonOps"]

DATA_DEPENDENT: Final = {
    name: "data decides the shape of its result"
    for name, operation in OPS.items()
    if Trait.DATA_DEPENDENT_SIZE in operation.traits
}
"""Ops around which a graph is cut, with the reason."""


def _needs_jax(operation: Operation) -> bool:
    """Whether an op has bodies, which are programs, or touches no elements."""
    has_bodies = any(param.role == BODY for param in operation.form.params)
    return operation.effect is None and (
        has_bodies or Trait.CONTAINER in operation.traits
    )


def _loop(trips: Any, condition: Any, body: Any, *init: Any) -> Any:
    """A loop whose iterations Python counts; XLA runs them in chunks, if it can."""
    program = getattr(body, "program", None)  # none in a `while`, which is a loop too
    results = None
    if isinstance(program, _CompiledBody) and program.in_chunks is not None:
        stacks = len(body.result_types) > len(init) + 1
        chunks = program.in_chunks
        results = chunks(trips, condition, init, body.captured) if stacks else None
    if results is None:
        results = JAX["loop"](trips, condition, body, *init)
    return results


KERNELS: Final = JAX.also(
    {
        name: dynamic_shapes.numpy_kernel(name)
        for name, operation in OPS.items()
        if not _needs_jax(operation)
    }
).also({"loop": _loop, **dynamic_shapes.KERNELS})
"""The kernels between programs: those of NumPy, which compile nothing."""


class PythonOps(CompiledCode):
    """Runs the ops of a piece one by one, and counts how often each of them runs."""

    def __init__(
        self, graph: Graph, build: BuildContext, reasons: Sequence[str]
    ) -> None:
        self._state = build.state
        self._device, self._to_local = build.weights.device, build.weights.to_local
        self._precision = build.settings.precision
        self._steps = _PythonSteps(graph, build)
        self._constants = ProgramConstants(graph, self._steps, build.weights)
        self._outside: Counter[str] = Counter()
        self._dynamic_sizes: Counter[str] = Counter()
        self._python_driven: list[str] = []
        self._runs = [0] * len(self._steps.steps)
        """How many times each step ran."""
        ops = [op for op in graph if not op.is_constant]
        why = iter(reasons)
        for i, op in enumerate(ops):
            step = self._steps.steps[i]
            call = partial(_count_and_call, self._runs, i, step.call)
            if op.bodies or isinstance(op, Graph):
                self._python_driven.append(f"{step.label}: {next(why, '')}")
            elif effect_of(op) != "draws":  # keys are feeds of programs, not results
                is_dynamic = op.type in dynamic_shapes.KERNELS
                counts = self._dynamic_sizes if is_dynamic else self._outside
                counts[step.label] = 0
                call = partial(_count_and_call, counts, step.label, call)
            self._steps.steps[i] = step._replace(call=call)

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        with ExitStack() as stack:
            enter = stack.enter_context
            enter(jax.enable_x64(True))
            enter(jax.default_device(self._device))
            enter(jax.default_matmul_precision(self._precision))
            enter(trace_context(python_driven=True))
            enter(use_kernels(KERNELS))
            enter(run_context(self._state))
            enter(np.errstate(all="ignore"))
            arrays = self._to_local(self._constants.arrays)
            weights = self._constants.with_arrays(arrays)
            return self._steps.run(self._to_local([*args]), weights=weights)

    @property
    def program_count(self) -> int:
        return 0

    @property
    def details(self) -> CodeDetails:
        return CodeDetails(
            python_driven=self._python_driven,
            outside=self._outside,
            dynamic_sizes=self._dynamic_sizes,
            python_ops=sum(self._runs),
        )

    def implementations(self) -> Iterable[Implementation]:
        return self._steps.implementations()

    def children(self) -> Sequence[CompiledCode]:
        return [body.code for body in self._steps.bodies]


def _count_and_call(counts: Any, key: Any, call: Callable[..., Any], *args: Any) -> Any:
    counts[key] += 1
    return call(*args)


class _PythonSteps(StepProgram):
    """Steps whose bodies are code of their own."""

    def __init__(self, graph: Graph, build: BuildContext) -> None:
        self.bodies: list[_CompiledBody] = []
        self._build = build
        super().__init__(graph, KERNELS)

    def body_runner(self, graph: Graph) -> Any:
        body = _CompiledBody(graph, self._build)
        self.bodies.append(body)
        return body

    def bind_kernel(self, op: Op) -> tuple[Callable[..., Any], list[int]]:
        first = len(self.bodies)
        call, ins = super().bind_kernel(op)
        codes = [body.code for body in self.bodies[first:]]
        loops = [code for code in codes if isinstance(code, LoopBody)]
        return partial(_call_loop, loops, call) if loops else call, ins


def _call_loop(bodies: Sequence[LoopBody], call: Callable[..., Any], *args: Any) -> Any:
    for body in bodies:
        body.start()
    return call(*args)


class _CompiledBody:
    """A body as compiled code, called by the op that holds it.

    Constants around the body that it reads become constants of the code."""

    def __init__(self, graph: Graph, build: BuildContext) -> None:
        self.captures = graph.captures
        self.result_types: tuple[Type | None, ...] = tuple(
            None if v is None else v.type for v in graph.results
        )
        root, reads = extract_graph(graph, list(graph), graph.results)
        fed = _inline_constants(root, reads)
        values = (*graph.parameters, *self.captures)
        indices = {value: i for i, value in enumerate(values)}
        self._indices = [indices[value] for value in fed]
        holder = graph.holder
        self.code: CompiledCode
        if holder is None or has_trait(holder, Trait.BRANCHES):
            self.code = build.compile(root)
        else:
            self.code = LoopBody(root, build, str(holder.label))
        self._to_local = build.weights.to_local
        settings = build.settings
        is_local = not settings.is_distributed
        self.in_chunks = ChunkedLoop(graph, settings.without) if is_local else None

    def run(self, args: Sequence[Any], captured: Sequence[Any] = ()) -> list[Any]:
        values = (*args, *captured)
        return list(self._to_local(self.code([values[i] for i in self._indices])))


def _inline_constants(root: Graph, reads: Sequence[OutputPort]) -> list[OutputPort]:
    """Put the constants that a graph reads into it; return what it is still fed."""
    fed = list(reads)
    for i in reversed(range(len(reads))):
        value = reads[i]
        if type(value) is Parameter or not value.op.is_constant:
            continue
        with root.before(next(iter(root), None)):
            inner = root.constant(value.op.attrs["value"]).output
        inner.type = value.type
        root.replace_uses(root.parameters[i], inner)
        root.remove_parameter(i)
        del fed[i]
    return fed
