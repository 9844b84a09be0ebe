"""Which backend ran which ops, for verbs with --fallback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amanda.backend import PlacementReport, SplitExecutable

if TYPE_CHECKING:
    from amanda.backend import Compiled

__all__ = ["placement_data", "placement_lines"]


def placement_data(compiled: Compiled) -> list[dict[str, object]]:
    """The pieces of a graph that runs on several backends."""
    report = _report(compiled)
    return [] if report is None else [piece._asdict() for piece in report.pieces]


def placement_lines(compiled: Compiled) -> Iterator[str]:
    report = _report(compiled)
    if report is not None:
        yield ""
        yield from str(report).splitlines()


def _report(compiled: Compiled) -> PlacementReport | None:
    executable = compiled.executable
    return executable.report() if isinstance(executable, SplitExecutable) else None
