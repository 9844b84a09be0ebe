"""The memory plan of a program: lifetimes of values and reuse of their memory.

A value owns its memory if its kernel returns a fresh array. Results of other kernels
may be views of their operands: they share the memory of these, which is in use until
the last of them was read. Then it is reused in place by the step that reads it last,
if its kernel can write to an operand, or by a later step whose result surely has the
same dtype and shape. Memory that an op with side effects or bodies may keep is not
reused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from amanda.types import TensorType, Type, unknown
from amanda_std.hub.op_access import is_std, operation_of

if TYPE_CHECKING:
    from amanda.graph import Op, OutputPort
    from amanda_std.engine.arrays import Kernels
    from amanda_std.runtime.step_runner import UnscheduledStep

__all__ = ["PlannedValue", "Lifetimes", "MemoryPlan", "PlannedStep", "plan_lifetimes"]

MAX_REUSE_DISTANCE = 32
"""Steps that free memory waits for a new user before it is released."""


class PlannedValue(NamedTuple):
    """A value of a running program."""

    place: int
    name: str
    kind: str
    """input, captured, weight, fixed or value"""
    type: Type | None
    made: int
    """The step that computes it; -1 if it exists before the first."""
    last: int | None
    """The step that reads it last; None for a result."""
    memory: int | None
    """The number of its buffer, if the program owns it."""
    aliases: tuple[int, ...] = ()
    """The values whose memory it may share, since it may be a view of them."""

    @property
    def nbytes(self) -> int | None:
        """Its size in bytes, if known."""
        type_ = self.type
        if not isinstance(type_, TensorType) or not type_.shape.is_static:
            return None
        bits = type_.dtype.bits
        return prod(map(int, type_.shape)) * bits // 8 if bits else None


class PlannedStep(NamedTuple):
    """A step with the slots that it reads and writes."""

    label: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    over: int | None
    """The slot whose memory the result reuses."""
    frees: tuple[int, ...]


class MemoryPlan(NamedTuple):
    """How a program uses memory; `str` renders a table."""

    values: tuple[PlannedValue, ...]
    steps: tuple[PlannedStep, ...]

    @property
    def reuse_count(self) -> int:
        """How many steps write to existing memory."""
        return sum(step.over is not None for step in self.steps)

    @property
    def memories(self) -> int:
        """How many buffers the program's own values need."""
        return len({v.memory for v in self.values if v.memory is not None})

    def __str__(self) -> str:
        lines = [
            f"%{v.place} {v.kind} {v.name}: {v.type or '?'}"
            + (f", memory {v.memory}" if v.memory is not None else "")
            + (f", shares %{', %'.join(map(str, v.aliases))}" if v.aliases else "")
            for v in self.values
        ]
        for i, step in enumerate(self.steps):
            writes, reads = (
                ", ".join(f"%{p}" for p in s) for s in (step.writes, step.reads)
            )
            line = f"{i}: {writes} = {step.label}({reads})"
            if step.over is not None:
                line += f", over %{step.over}"
            if step.frees:
                line += f", frees {', '.join(f'%{p}' for p in step.frees)}"
            lines.append(line)
        return "\n".join(lines)


class Lifetimes(NamedTuple):
    """By step: the slot it overwrites, the slots freed after it. By slot: its buffer,
    and the slots whose memory it may share."""

    over: Mapping[int, int]
    frees: Sequence[Sequence[int]]
    memory: Mapping[int, int]
    aliases: Mapping[int, Collection[int]]


def plan_lifetimes(
    rows: Sequence[UnscheduledStep], results: Sequence[int], kernels: Kernels | None
) -> Lifetimes:
    """Compute lifetimes of values and the reuse of their memory."""
    last: dict[int, int] = {}
    for i, row in enumerate(rows):
        last.update(dict.fromkeys((*row.outs, *row.ins), i))
    for place in results:
        last.pop(place, None)
    own, aliases = _find_aliases(rows, kernels)
    over = _find_reuse(rows, _last_uses(last, own, aliases), own, kernels)
    late = {place: i for i, place in over.items()}
    frees: list[list[int]] = [[] for _ in rows]
    for place, i in last.items():
        frees[late.get(place, i)].append(place)
    memory: dict[int, int] = {}
    for i, row in enumerate(rows):
        for place in row.outs:
            if place in own:
                kept = over.get(i)
                memory[place] = len(memory) if kept is None else memory[kept]
    return Lifetimes(over, frees, _renumber(memory), aliases)


def _last_uses(
    last: Mapping[int, int],
    own: Mapping[int, OutputPort],
    aliases: Mapping[int, Collection[int]],
) -> dict[int, int]:
    """The step after which the memory of each owned value is not read any more.

    It has none if that is a result, or if it would be kept for long: the op that may
    have returned a view may as well have copied."""
    ends: dict[int, int | None] = {place: last.get(place) for place in own}
    for place, shared in aliases.items():
        for owner in shared:
            end, until = ends.get(owner), last.get(place)
            ends[owner] = None if end is None or until is None else max(end, until)
    return {
        place: end
        for place, end in ends.items()
        if end is not None and end - last[place] <= MAX_REUSE_DISTANCE
    }


def _renumber(memory: Mapping[int, int]) -> dict[int, int]:
    """The same numbers without gaps, from 0."""
    numbers: dict[int, int] = {}
    return {p: numbers.setdefault(m, len(numbers)) for p, m in memory.items()}


def _find_aliases(
    rows: Sequence[UnscheduledStep], kernels: Kernels | None
) -> tuple[dict[int, OutputPort], dict[int, frozenset[int]]]:
    """The values whose memory belongs to the program alone, and for each other value
    those of them whose memory it may share."""
    own: dict[int, OutputPort] = {}
    aliases: dict[int, frozenset[int]] = {}
    kept: set[int] = set()
    if kernels is None or not kernels.fresh:
        return own, aliases
    for row in rows:
        if row.op.type in kernels.fresh and is_std(row.op) and not row.many:
            own[row.outs[0]] = row.op.output
            continue
        shared = frozenset().union(*(aliases.get(p, {p} & own.keys()) for p in row.ins))
        if _may_keep_operands(row.op):
            kept |= shared
        elif shared:
            aliases.update(dict.fromkeys(row.outs, shared))
    for place in kept:
        del own[place]
    return own, {p: found for p, all_ in aliases.items() if (found := all_ - kept)}


def _may_keep_operands(op: Op) -> bool:
    """Whether operands may be in use after all results of an op were read."""
    return not is_std(op) or bool(op.bodies) or operation_of(op).effect is not None


def _find_reuse(
    rows: Sequence[UnscheduledStep],
    ends: Mapping[int, int],
    own: Mapping[int, OutputPort],
    kernels: Kernels | None,
) -> dict[int, int]:
    """The slot whose memory each step reuses."""
    found: dict[int, int] = {}
    dying: list[list[int]] = [[] for _ in rows]
    for place, i in ends.items():
        dying[i].append(place)
    free: dict[TensorType, list[tuple[int, int]]] = {}
    for i, row in enumerate(rows):
        taken = None
        if kernels is not None and _accepts_out(row, kernels):
            wanted = _buffer_type(row.op.output.type)
            if wanted is not None:
                if row.op.type in kernels.in_place:
                    mine = (p for p in row.ins if p in dying[i])
                    taken = next(
                        (p for p in mine if _buffer_type(own[p].type) == wanted), None
                    )
                waiting = free.get(wanted, [])
                while taken is None and waiting:
                    place, since = waiting.pop()
                    taken = place if i - since <= MAX_REUSE_DISTANCE else None
        if taken is not None:
            found[i] = taken
        for place in dying[i]:
            type_ = _buffer_type(own[place].type)
            if place != taken and type_ is not None:
                free.setdefault(type_, []).append((place, i))
    return found


def _accepts_out(row: UnscheduledStep, kernels: Kernels) -> bool:
    """Whether the kernel of a step accepts `out=` and is called directly."""
    kind = row.op.type
    named = kind in kernels.in_place or kind in kernels.into
    return named and not row.many and row.call is kernels.get(kind or "")


def _buffer_type(type: Type | None) -> TensorType | None:
    """A type with dtype and shape, symbolic dims included; None for scalars."""
    if not isinstance(type, TensorType) or type.dtype is unknown:
        return None
    if not type.shape.has_rank or not type.shape.rank:
        return None
    return TensorType(type.dtype, type.shape)
