"""What holds for every run of tests: frameworks that it must not import, and how many
cases of a test it has; see `tools/test_runs.py` and CONTRIBUTING.md."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

import pytest

for _name in os.environ.get("AMANDA_TEST_WITHOUT", "").split():
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]  # import fails

MOST_CASES = "--most-cases"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        MOST_CASES,
        type=int,
        metavar="N",
        help="run at most N cases of each parametrized test, evenly spaced among all; "
        "fewer of those marked most_cases(fewer)",
    )


@pytest.hookimpl(trylast=True)  # of what -k and -m have left
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    most = config.getoption(MOST_CASES)
    if most is None:
        return
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = set().union(*(_spread(cases, most) for cases in tests.values()))
    config.hook.pytest_deselected(items=[i for i in items if i not in chosen])
    items[:] = [item for item in items if item in chosen]


def _spread(cases: Sequence[pytest.Item], most: int) -> Iterator[pytest.Item]:
    """So many cases of a test at most, at equal distances."""
    mark = cases[0].get_closest_marker("most_cases")
    count = min(len(cases), most, mark.args[0] if mark else most)
    for i in range(count):
        yield cases[i * len(cases) // count]
