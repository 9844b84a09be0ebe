"""Reports at the end of a pytest run how many checks of each suite ran.

pytest loads this wherever amanda-core is installed, so it imports nothing: a suite is
recognized by its attribute.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

PROPERTY = "amanda_suite"

_OUTCOMES = {
    "passed": "passed",
    "failed": "failed",
    "error": "failed",
    "xfailed": "waived",
    "skipped": "skipped",
}


def pytest_itemcollected(item: Any) -> None:
    """Record the suite as a property of the report, which other processes pass on."""
    if getattr(getattr(item, "cls", None), PROPERTY, False):
        item.user_properties.append((PROPERTY, item.cls.__name__))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write one line for each suite."""
    suites: dict[str, Counter[str]] = defaultdict(Counter)
    for category, outcome in _OUTCOMES.items():
        for report in terminalreporter.stats.get(category, ()):
            for name, value in getattr(report, "user_properties", ()):
                if name == PROPERTY:
                    suites[value][outcome] += 1
    if not suites:
        return
    from amanda.testing._suite import summary

    terminalreporter.section("conformance", sep="-")
    for suite, counts in sorted(suites.items()):
        ran = counts.total() - counts["skipped"]
        others = (counts[outcome] for outcome in ("waived", "failed", "skipped"))
        terminalreporter.write_line(summary(suite, ran, *others))
