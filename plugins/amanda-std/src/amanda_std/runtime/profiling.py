"""The time, and the memory, of each step of a program."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from amanda.backend import OpLabel, OpTime, Profile, op_label, typical_run
from amanda.graph import Graph
from amanda_std.runtime.step_runner import RunStep, StepRunner, run_steps

__all__ = ["profile_program", "step_labels", "time_steps"]

_RUNS = 5
"""How many calls are timed; the one with the median of the totals is the profile."""


def step_labels(graph: Graph) -> list[OpLabel]:
    """The labels of the steps of a graph: all ops but the constants."""
    return [op_label(op, i) for i, op in enumerate(graph) if not op.is_constant]


def profile_program(
    program: StepRunner, labels: Sequence[OpLabel], args: Sequence[Any]
) -> Profile:
    """A profile of a program: the time of each step, and its memory in another run.

    A program with side effects runs once, and has no memory in its profile."""
    call = 0.0
    memory: list[int] = []
    if not program.effects:
        program.run(args)  # loads the weights
        start = perf_counter()
        program.run(args)
        call = perf_counter() - start
        memory = _measure_memory(program.steps, program._first_values(args))
    values = program._first_values(args)
    ops = time_steps(program.steps, labels, values)
    if not program.effects:
        more = [_time_again(program, labels, args) for _ in range(_RUNS - 1)]
        ops = typical_run([ops, *more])
    if memory:
        rows = zip(ops, memory, strict=True)
        ops = [each._replace(memory=nbytes) for each, nbytes in rows]
    how = "each op in turn, as calls run them"
    return Profile(how, ops, call or sum(each.seconds for each in ops),
                   program._results_in(values))  # fmt: skip


def _time_again(
    program: StepRunner, labels: Sequence[OpLabel], args: Sequence[Any]
) -> list[OpTime]:
    return time_steps(program.steps, labels, program._first_values(args))


def _run_step(step: RunStep, values: list[Any]) -> None:
    """Run a step, and free nothing; errors are those of the kernel."""
    found = step.call(*step.take(values))
    if step.out >= 0:
        values[step.out] = found
    else:
        for place, value in zip(step.outs, found, strict=True):
            values[place] = value


def time_steps(
    steps: Sequence[RunStep],
    labels: Sequence[OpLabel],
    values: list[Any],
    wait: Callable[[Any], object] = lambda _: None,
) -> list[OpTime]:
    """Run steps over slots and time each; `wait` returns when values are computed."""
    start = perf_counter()
    found = []
    for step, label in zip(steps, labels, strict=True):
        begins = perf_counter()
        _run_step(step, values)
        wait([values[place] for place in (step.outs or (step.out,))])
        ends = perf_counter()
        for place in step.drop:
            values[place] = None
        found.append(OpTime(label, begins - start, ends - begins))
    return found


def _measure_memory(steps: Sequence[RunStep], values: list[Any]) -> list[int]:
    """Bytes that each step allocates at its peak, beyond those before it."""
    is_ours = not tracemalloc.is_tracing()
    if is_ours:
        tracemalloc.start()
    try:
        found = []
        for step in steps:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            run_steps([step], values)
            found.append(tracemalloc.get_traced_memory()[1] - before)
        return found
    finally:
        if is_ours:
            tracemalloc.stop()
