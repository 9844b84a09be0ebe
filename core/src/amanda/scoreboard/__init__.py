"""Suites of test cases, and scoreboards: outcomes, their comparison, count and page.

A suite of `amanda scoreboard` is an entry point of `amanda.scoreboards`, an object or
module with the members of `Scoreboard`.

outcomes.py    run one case on a backend, and classify how it went
comparison.py  compare outputs with the expected ones
criteria.py    what outputs must meet whose values are open, as random ones
suites.py      run the cases of a suite, each within a time limit
page.py        the page of a scoreboard, from answers of `amanda scoreboard`
"""

from __future__ import annotations

from amanda.scoreboard.comparison import difference
from amanda.scoreboard.criteria import (
    Criterion,
    as_exact_as,
    same_distribution,
    same_quantities,
    same_types,
)
from amanda.scoreboard.outcomes import (
    OUTCOMES,
    DataSet,
    Outcome,
    cases_by_compilations,
    cases_by_mode,
    count_outcomes,
    run_data_sets,
    run_function,
)
from amanda.scoreboard.page import format_page, parse_section, print_page
from amanda.scoreboard.suites import (
    Scoreboard,
    Selection,
    name_filter,
    run_selection,
)

__all__ = [
    "OUTCOMES",
    "Criterion",
    "DataSet",
    "Outcome",
    "Scoreboard",
    "Selection",
    "as_exact_as",
    "cases_by_compilations",
    "cases_by_mode",
    "count_outcomes",
    "difference",
    "format_page",
    "name_filter",
    "parse_section",
    "print_page",
    "run_data_sets",
    "run_function",
    "run_selection",
    "same_distribution",
    "same_quantities",
    "same_types",
]
