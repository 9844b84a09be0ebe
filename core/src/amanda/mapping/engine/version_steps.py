"""Steps between the versions of one framework, and reports of several steps as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from amanda.dictionary import Name, parse_name
from amanda.mapping.routes.report import Conversion, Report
from amanda.mapping.rules.rule_set import RuleSet

__all__ = ["between", "cuts", "merged"]


def cuts(rules: RuleSet) -> list[int]:
    """The versions at which some rule of a set begins to hold, or has ended.

    >>> rules = RuleSet("steps", "acme/a", "acme/a")
    >>> rules.equations("Softmax[:12](x) => Softmax[13:](x)")
    >>> cuts(rules)
    [13]
    """
    found: set[int] = set()
    for row in rules.rows:
        for term in (row.left, row.right):
            if term.low is not None:
                found.add(term.low)
            if term.high is not None:
                found.add(term.high + 1)
    return sorted(found)


def between(rules: RuleSet, start: str, goal: str) -> Iterator[tuple[str, str]]:
    """The steps from one version to another: one, but within a framework more.

    There, a step ends wherever the meaning of some op changes, so that changes that
    follow each other compose.
    """
    source, target = parse_name(start), parse_name(goal)
    stops = _stops(rules, source, target) if rules.left == rules.right else []
    names = [start, *(str(Name(source.path, str(v))) for v in stops), goal]
    yield from pairwise(names)


def _stops(rules: RuleSet, source: Name, target: Name) -> list[int]:
    """Upwards each version that changes something; downwards the one before it."""
    try:
        old, new = int(source.version or ""), int(target.version or "")
    except ValueError:
        return []
    if old <= new:
        return [v for v in cuts(rules) if old < v < new]
    return [v - 1 for v in reversed(cuts(rules)) if new < v - 1 < old]


def merged(done: Sequence[Conversion]) -> Conversion:
    """The last graph, with what all steps told."""
    if len(done) == 1:
        return done[0]
    whole = Report(done[0].report.source, done[-1].report.target)
    for _, report in done:
        whole.rules += report.rules
        whole.kept, whole.carried = report.kept, report.carried
        whole.filled += report.filled
        whole.gaps += report.gaps
        whole.losses += report.losses
        if report.trace is not None:
            whole.trace = [*(whole.trace or []), *report.trace]
    return Conversion(done[-1].graph, whole)
