"""Applying passes in turn until none changes anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from amanda.errors import AmandaError, UsageError
from amanda.graph import Graph, bulk

ROUNDS = 16
"""Maximal number of rounds: passes that take longer undo each other's changes."""


class Pass(Protocol):
    """The protocol of entries of `amanda.passes`: returns the number of changes."""

    def __call__(self, graph: Graph, /) -> int: ...


Named: TypeAlias = "Mapping[str, Pass] | Sequence[Callable[[Graph], int]]"


class PassReport:
    """The number of changes of each pass, by round."""

    def __init__(self) -> None:
        self.rounds: list[dict[str, int]] = []

    @property
    def changes(self) -> dict[str, int]:
        """The number of changes of each pass in all rounds."""
        total: dict[str, int] = {}
        for round in self.rounds:
            for name, count in round.items():
                total[name] = total.get(name, 0) + count
        return total

    def __bool__(self) -> bool:
        return any(self.changes.values())

    def __str__(self) -> str:
        told = [f"{name} {count}" for name, count in self.changes.items() if count]
        if not told:
            return "nothing changed"
        number = len(self.rounds)
        return f"{', '.join(told)} ({number} round{'s' if number > 1 else ''})"

    def __repr__(self) -> str:
        return f"<applied: {self}>"


def apply_passes(graph: Graph, passes: Named, *, rounds: int = ROUNDS) -> PassReport:
    """Run passes in turn until none changes anything, or for `rounds` rounds.

    This ends once each has run without a change since the last one that there was.
    With `rounds=1` each pass runs once. An error names the pass; the changes of passes
    before it stay.

    >>> from amanda.graph import Graph
    >>> apply_passes(Graph("amanda/std/1"), {"nothing": lambda graph: 0})
    <applied: nothing changed>
    """
    named = passes if isinstance(passes, Mapping) else _pass_names(passes)
    applied = PassReport()
    unchanged = 0  # passes in a row that changed nothing
    with bulk():
        for _ in range(rounds):
            applied.rounds.append(done := {})
            for name, run in named.items():
                done[name] = _run_pass(name, run, graph)
                unchanged = 0 if done[name] else unchanged + 1
                if unchanged == len(named):
                    break
            if unchanged >= len(named):
                break
    return applied


def _pass_names(passes: Sequence[Callable[[Graph], int]]) -> dict[str, Pass]:
    named: dict[str, Pass] = {}
    for i, run in enumerate(passes):
        name = str(getattr(run, "name", getattr(run, "__name__", f"pass {i}")))
        named[f"{name} ({i})" if name in named else name] = run
    return named


def _run_pass(name: str, run: Pass, graph: Graph) -> int:
    try:
        count = run(graph)
    except AmandaError as error:
        error.add_note(f"while the pass {name!r} ran over {graph.label}")
        raise
    if not isinstance(count, int):
        raise UsageError(
            f"the pass {name!r} does not return its number of changes",
            expected="an int",
            got=type(count).__name__,
        )
    return count
