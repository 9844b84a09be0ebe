"""Profiles: how long each op of a compiled graph took, and its source ops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from amanda.graph import Op

__all__ = ["OpLabel", "OpTime", "Profile", "op_label", "typical_run"]


class OpLabel(NamedTuple):
    """An op as a profile names it."""

    name: str
    type: str
    sources: tuple[str, ...]
    """The names of the ops that it was converted from."""


def op_label(op: Op, number: int) -> OpLabel:
    """The label of an op; `number` names one without a name."""
    name, type_ = op.name or f"#{number}", op.type or "?"
    origin = op.provenance
    return OpLabel(name, type_, origin.sources if origin else (name,))


class OpTime(NamedTuple):
    """The time of one op in one call, in seconds."""

    label: OpLabel
    start: float
    """Since the start of the call."""
    seconds: float
    memory: int | None = None
    """Bytes allocated at the peak while it ran, beyond those before it."""


def typical_run(runs: Sequence[list[OpTime]]) -> list[OpTime]:
    """The run with the median of the total times."""
    ordered = sorted(runs, key=lambda run: sum(each.seconds for each in run))
    return ordered[len(ordered) // 2]


class Profile(NamedTuple):
    """The times of the ops in a call, in the order in which they ran."""

    how: str
    """How they were measured."""
    ops: Sequence[OpTime]
    call: float
    """Seconds of a whole call without measurement inside."""
    results: Any = None
    """The results of the call that was measured, in order."""

    @property
    def seconds(self) -> float:
        """The sum of the times of all ops."""
        return sum(each.seconds for each in self.ops)

    def by_op(self) -> dict[str, float]:
        """Seconds for each op that ran, the slowest first."""
        return _sum((each.label.name, each.seconds) for each in self.ops)

    def by_source(self) -> dict[str, float]:
        """Seconds for each source op, the slowest first.

        The time of an op that comes from several is divided equally among them."""
        return _sum(
            (source, each.seconds / len(each.label.sources))
            for each in self.ops
            for source in each.label.sources
        )

    def by_type(self) -> dict[str, float]:
        """Seconds for each type of op, the slowest first."""
        return _sum((each.label.type, each.seconds) for each in self.ops)

    def trace(self) -> dict[str, Any]:
        """The profile in Chrome's trace event format, for Perfetto and chrome://tracing.

        Its `ops` and `sources` are seconds by name, for other programs."""
        events: list[Mapping[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "ts": 0,
             "args": {"name": self.how}},
        ]  # fmt: skip
        events += [_event(each) for each in self.ops]
        return {
            "traceEvents": events,
            "displayTimeUnit": "ms",
            "how": self.how,
            "ops": self.by_op(),
            "sources": self.by_source(),
        }


def _event(each: OpTime) -> dict[str, Any]:
    arguments = {"op": each.label.name, "sources": list(each.label.sources)}
    memory = {} if each.memory is None else {"bytes": each.memory}
    return {
        "name": f"{each.label.type} {each.label.name}",
        "cat": each.label.type,
        "ph": "X",
        "ts": each.start * 1e6,
        "dur": each.seconds * 1e6,
        "pid": 1,
        "tid": 1,
        "args": {**arguments, **memory},
    }


def _sum(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, seconds in rows:
        found[name] = found.get(name, 0.0) + seconds
    return dict(sorted(found.items(), key=lambda row: -row[1]))
