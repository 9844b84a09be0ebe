"""Block reuse: one program for the repeated blocks of a graph, as transformer layers.

It is compiled once, and called for each block with its weights. The time to compile
then depends on how many different blocks there are, not on the depth of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import value_digest
from amanda_jax.compile.code import BuildContext, CompiledCode, ReplaceableCode
from amanda_jax.compile.jitted_program import JittedProgram, UntraceableError
from amanda_jax.compile.structure_hash import body_digest, structure_digest
from amanda_jax.shapes.static_values import analyze_static_values
from amanda_jax.weights.device_weights import ProgramConstants
from amanda_std.backends import StepRunner as StepProgram

__all__ = ["BlockPrograms", "block_numbers", "find_blocks"]

MIN_REPEATS: Final = 16
"""Repetitions from which blocks are shared: each call of a block has some cost."""
MIN_OPS: Final = 8
"""Ops that a block has at least."""


# -- finding repeated blocks -----------------------------------------------------------


class _RepeatedRun(NamedTuple):
    """A run of equal blocks in the order of ops: first op, ops per block, repeats."""

    begin: int
    length: int
    times: int

    @property
    def saved_ops(self) -> int:
        """How many ops are not compiled again."""
        return self.length * (self.times - 1)


def find_blocks(graph: Graph, is_free: Callable[[Op], bool]) -> list[list[Op]]:
    """Find the repeated blocks that save most; an empty list if none is worth it.

    They look equal by their ops; `BlockPrograms` decides whether they are."""
    ops = [op for op in graph if not is_free(op)]
    if len(ops) < MIN_REPEATS * MIN_OPS:
        return []
    numbers: dict[Any, int] = {}
    signatures = np.array(
        [numbers.setdefault(_signature(op), len(numbers)) for op in ops]
    )
    run = _longest_run(signatures)
    if run is None:
        return []
    begin, length, times = _shift_to_fewest_crossings(ops, run)
    return [
        ops[at : at + length] for at in range(begin, begin + length * times, length)
    ]


def block_numbers(blocks: Sequence[Collection[Op]]) -> dict[Op, int]:
    """The number of the block that each op is in."""
    return {op: i for i, block in enumerate(blocks) for op in block}


def _signature(op: Op) -> Any:
    """What corresponding ops of equal blocks have in common."""
    attributes: list[bytes] = []
    for key in sorted(op.attrs) if op.has_attrs else ():
        attributes.append(key.encode())
        value_digest(op.attrs[key], attributes.append)
    inputs = tuple(
        None if v is None else (str(v.type) if _is_constant(v) else "value")
        for v in op.inputs
    )
    bodies = tuple((name, body_digest(op.bodies[name])) for name in sorted(op.bodies))
    outputs = tuple(str(port.type) for port in op.outputs)
    return op.type, b"".join(attributes), inputs, outputs, bodies


def _is_constant(value: OutputPort) -> bool:
    return not isinstance(value.op, Graph) and value.op.is_constant


def _longest_run(signatures: Any) -> _RepeatedRun | None:
    """The run that saves most, of all repetitions without a gap."""
    best: _RepeatedRun | None = None
    for length in range(MIN_OPS, len(signatures) // MIN_REPEATS + 1):
        same = signatures[:-length] == signatures[length:]
        edges = np.flatnonzero(np.diff(np.concatenate(([0], same, [0]))))
        for first, end in zip(edges[::2], edges[1::2], strict=True):
            times = int(end - first) // length + 1
            run = _RepeatedRun(int(first), length, times)
            if times >= MIN_REPEATS and (
                best is None or run.saved_ops > best.saved_ops
            ):
                best = run
    return best


def _shift_to_fewest_crossings(ops: Sequence[Op], run: _RepeatedRun) -> _RepeatedRun:
    """The same run, shifted to where the fewest values go from block to block."""
    positions = {op: i for i, op in enumerate(ops)}
    first = run.begin
    last = {op: max((positions.get(u, -1) for v in op.outputs for u in v.user_ops),
                    default=-1) for op in ops[first:]}  # fmt: skip
    crossings = [
        sum(last[op] >= at for op in ops[first:at])
        for at in range(first + run.length, first + 2 * run.length)
    ]
    shift = int(np.argmin(crossings))
    end = first + run.length * run.times
    while end < len(ops) and _signature(ops[end]) == _signature(ops[end - run.length]):
        end += 1
    times = (end - first - shift) // run.length
    return _RepeatedRun(first + shift, run.length, times)


# -- sharing programs ------------------------------------------------------------------


class BlockPrograms:
    """The programs of blocks, by the structure that equal blocks share."""

    def __init__(self, build: BuildContext) -> None:
        self._build = build
        self._programs: dict[Any, JittedProgram] = {}

    def compile(self, graph: Graph) -> CompiledCode:
        """Compile a block, or share the program of an equal one."""
        static = analyze_static_values(graph)
        key = None if static.data else structure_digest(graph, static.constants)
        if key is None:
            return self._build.compile(graph)
        program = self._programs.get(key)
        if program is not None:
            return SharedProgram(program, graph, static.constants, self._build)
        program = JittedProgram(graph, static.constants, self._build)
        self._programs[key] = program
        return program


class SharedProgram(ReplaceableCode):
    """The program of an equal block, called with other weights."""

    def __init__(
        self,
        program: JittedProgram,
        graph: Graph,
        static: frozenset[OutputPort],
        build: BuildContext,
    ) -> None:
        self._program = program
        self._graph = graph
        self._build = build
        steps = StepProgram(graph)
        self._constants = ProgramConstants(graph, steps, build.weights, static)

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        if self._replacement is None and not self._program.is_in_use:
            self._replacement = self._build.compile(self._graph)
        if self._replacement is not None:
            return self._replacement(args)
        feeds = [*args]
        try:
            results: Sequence[Any] = self._program.call_with(self._constants, feeds)
        except UntraceableError:
            self._replacement = self._build.compile(self._graph)
            return self._replacement(feeds)
        return results

    @property
    def aliased_results(self) -> frozenset[int]:
        return (self._replacement or self._program).aliased_results
