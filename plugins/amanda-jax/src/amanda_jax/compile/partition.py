"""Partitioning: where a graph is cut into pieces, and the code that runs the pieces.

A graph is cut around ops that XLA does not support, before values that shapes depend
on, and at blocks that repeat. Pieces are programs of XLA, and ops run from Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import jax

from amanda.backend import OpTime, Piece, op_label, partition
from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.types import TensorType
from amanda_jax.compile.block_reuse import BlockPrograms, block_numbers, find_blocks
from amanda_jax.compile.code import BuildContext, CompiledCode, find_aliases
from amanda_jax.compile.data_sized import DataSizedCode, has_data_size
from amanda_jax.compile.jitted_program import JittedProgram
from amanda_jax.compile.python_ops import DATA_DEPENDENT, PythonOps
from amanda_jax.compile.specialize import SpecializedCode, describe_origin
from amanda_jax.kernels import JAX
from amanda_jax.shapes.static_values import (
    StaticValues,
    analyze_static_values,
    ancestors,
)
from amanda_jax.weights.device_weights import LITERAL
from amanda_std.backends import (
    RunStep,
    effect_of,
    is_std,
    operation_of,
    run_steps,
    slot_reader,
    time_steps,
    why_no_kernel,
)

__all__ = ["PartitionedCode", "compile_graph", "compile_op_by_op", "why_not_xla"]

CHEAP: Final = 64
"""Ops on small integers up to which computing a value twice costs nothing."""
XLA, PYTHON = "xla", "python"


def compile_graph(
    graph: Graph, build: BuildContext, outside: Mapping[Op, str] | None = None
) -> CompiledCode:
    """Compile a graph that the passes have prepared.

    `outside`: more ops that XLA does not support, with the reason."""
    unsupported = {**_unsupported_ops(graph), **(outside or {})}
    static = analyze_static_values(graph)
    later = _later_values(static, unsupported)
    if unsupported or later:
        return PartitionedCode(graph, build, static, unsupported, later)
    if static.data:
        return SpecializedCode(graph, static, build)
    if "blocks" not in build.settings.without:
        blocks = find_blocks(graph, static.is_free)
        if blocks:
            return PartitionedCode(graph, build, static, blocks=block_numbers(blocks))
    return JittedProgram(graph, static.constants, build)


def compile_op_by_op(graph: Graph, build: BuildContext) -> PartitionedCode:
    """Compile a graph so that each op is a piece, to be timed alone."""
    unsupported = _unsupported_ops(graph)
    static = analyze_static_values(graph)
    later = _later_values(static, unsupported)
    alone = {op: i for i, op in enumerate(graph) if not op.is_constant}
    return PartitionedCode(graph, build, static, unsupported, later, alone)


def _unsupported_ops(graph: Graph) -> dict[Op, str]:
    return {op: why for op in graph if (why := why_not_xla(op)) is not None}


def _later_values(
    static: StaticValues, unsupported: Mapping[Op, str]
) -> dict[Op, list[OutputPort]]:
    """The values that must be computed before an op is compiled, as shapes are."""
    return {
        op: expensive
        for op, ports in static.readers.items()
        if op not in unsupported
        and (expensive := [p for p in ports if not _is_cheap(p)])
    }


def why_not_xla(op: Op) -> str | None:
    """Why XLA does not support an op, as far as is known before tracing; else None."""
    if op.is_constant:
        return None
    inner = [op] if isinstance(op, Graph) else list(op.bodies.values())
    for each in (op, *(each for body in inner for each in body.walk())):
        name = each.type or ""
        if effect_of(each) is not None:
            return f"{name} has side effects"
        why = DATA_DEPENDENT.get(name)
        if why is None and is_std(each) and not isinstance(each, Graph):
            why = why_no_kernel(operation_of(each), JAX)
        if why is not None:
            return why if each is op else f"it contains {name}: {why}"
    return None


def _is_cheap(port: OutputPort) -> bool:
    """Whether a value is cheap to compute twice: little arithmetic on few integers."""
    if type(port) is Parameter:
        return True
    count = 0
    for value in ancestors([port], lambda _: True):
        if type(value) is Parameter or value.op.is_constant:
            continue
        count += 1
        if count > CHEAP or value.op.bodies or not _is_small(value):
            return False
    return True


def _is_small(value: OutputPort) -> bool:
    own = value.type
    if not isinstance(own, TensorType) or not own.shape.is_static:
        return False
    is_short = prod(map(int, own.shape)) <= LITERAL
    return is_short and own.dtype.kind in ("int", "uint", "bool")


# -- running the pieces ----------------------------------------------------------------


class PartitionedCode(CompiledCode):
    """Runs the pieces of a graph one after the other, on one device."""

    def __init__(
        self,
        graph: Graph,
        build: BuildContext,
        static: StaticValues,
        unsupported: Mapping[Op, str] | None = None,
        later: Mapping[Op, Sequence[OutputPort]] | None = None,
        blocks: Mapping[Op, int] | None = None,
    ) -> None:
        build = build.without_donation
        unsupported, blocks = unsupported or {}, blocks or {}
        parts = partition(
            graph,
            lambda op: PYTHON if op in unsupported else blocks.get(op, XLA),
            copied=lambda op: static.is_free(op) and op not in unsupported,
            later=later,
        )
        self._put = build.weights.put
        compiler = _PieceCompiler(build, unsupported)
        slots: dict[OutputPort, int] = {p: i for i, p in enumerate(graph.parameters)}
        self._input_count = len(slots)
        for port in (port for piece in parts for port in piece.gives):
            slots[port] = len(slots)
        self._results = [_result_slot(value, slots) for value in graph.results]
        results = {slot for slot in self._results if type(slot) is int}
        self._codes = [compiler.compile(piece) for piece in parts]
        self._steps = [
            RunStep(
                partial(_call_code, code),
                slot_reader([slots[value] for value in piece.reads]),
                -1,
                tuple(slots[value] for value in piece.gives),
                frees,
                str(piece.who),
            )
            for code, piece, frees in zip(
                self._codes, parts, _freed_slots(parts, slots, results), strict=True
            )
        ]
        self._slot_count = len(slots)
        self._labels = [op_label(piece.ops[-1], i) for i, piece in enumerate(parts)]

    def time_pieces(self, args: Iterable[Any]) -> list[OpTime]:
        """Run the pieces, and time each; by the last op in it, which is the only one
        after `compile_op_by_op`, but for ops that take no time of their own."""
        values = self._first_values([*args])
        return time_steps(self._steps, self._labels, values, jax.block_until_ready)

    def _first_values(self, feeds: Sequence[Any]) -> list[Any]:
        """The slots before the first piece."""
        return [*feeds, *[None] * (self._slot_count - self._input_count)]

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        feeds = [*args]
        values = self._first_values(feeds)
        run_steps(self._steps, values, wrap_errors=False)
        results = [values[r] if type(r) is int else r for r in self._results]
        self._aliases |= find_aliases(results, feeds)
        return [self._to_device(result) for result in results]

    def _to_device(self, result: Any) -> Any:
        if isinstance(result, jax.Array):
            return result
        if result is None or isinstance(result, list | tuple):
            return jax.tree.map(self._to_device, result)
        return self._put(result)

    def children(self) -> Sequence[CompiledCode]:
        return self._codes


class _PieceCompiler:
    """Compiles pieces by what runs them; equal blocks share one program."""

    def __init__(self, build: BuildContext, unsupported: Mapping[Op, str]) -> None:
        self._build = build
        self._unsupported = unsupported
        self._blocks = BlockPrograms(build)

    def compile(self, piece: Piece) -> CompiledCode:
        if piece.who == PYTHON:
            unsupported = self._unsupported
            reasons = [unsupported[op] for op in piece.ops if op in unsupported]
            return PythonOps(piece.graph, self._build, reasons)
        if piece.who == XLA:
            sized = [describe_origin(p) if has_data_size(p) else None
                     for p in piece.reads]  # fmt: skip
            if any(sized) and not self._build.settings.is_distributed:
                return DataSizedCode(piece.graph, self._build, sized)
            return self._build.compile(piece.graph)
        return self._blocks.compile(piece.graph)


def _call_code(code: CompiledCode, *args: Any) -> Sequence[Any]:
    return code(args)


def _result_slot(value: OutputPort | None, slots: Mapping[OutputPort, int]) -> Any:
    """The slot of a result, or the constant that it is."""
    if value is None or value in slots:
        return None if value is None else slots[value]
    assert value.op.is_constant
    return value.op.attrs["value"].numpy()


def _freed_slots(
    parts: Sequence[Piece], slots: Mapping[OutputPort, int], results: set[int]
) -> list[tuple[int, ...]]:
    """For each piece, the slots that no later piece reads."""
    last = {
        slots[value]: i
        for i, piece in enumerate(parts)
        for value in (*piece.reads, *piece.gives)
    }
    freed: list[list[int]] = [[] for _ in parts]
    for slot, i in last.items():
        if slot not in results:
            freed[i].append(slot)
    return list(map(tuple, freed))
