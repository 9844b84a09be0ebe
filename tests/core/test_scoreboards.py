"""Runs of the cases of a suite in processes that may be stopped."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError
from amanda.scoreboard import (
    DataSet,
    Outcome,
    Selection,
    as_exact_as,
    cases_by_compilations,
    format_page,
    parse_section,
    run_data_sets,
    run_function,
    run_selection,
    same_distribution,
    same_quantities,
    same_types,
)


class Cases:
    """A suite whose cases sleep, end their process, or pass."""

    KINDS = ("all",)
    SECOND_DATA = False
    SECONDS = None

    def cases(self, kinds, pattern):
        del pattern
        for name in ("first", "sleeps", "second", "ends", "third"):
            yield kinds[0], SimpleNamespace(name=name)

    def run_case(self, kind, case, backend, **options):
        del backend, options
        if case.name == "sleeps":
            time.sleep(60)
        if case.name == "ends":
            os._exit(7)
        return Outcome(case.name, kind, "pass")


class LocalSelection(Selection):
    """A selection of the suite above, in processes that have no entry point of it."""

    def load(self):
        return Cases()


def test_cases_that_take_too_long_or_end_the_process_are_named():
    found = list(run_selection(LocalSelection("local"), seconds=3))
    assert [(each.case, each.status, each.why) for each in found] == [
        ("first", "pass", ""),
        ("sleeps", "stopped", "took longer than 3 s"),
        ("second", "pass", ""),
        ("ends", "stopped", "the process ended with code 7"),
        ("third", "pass", ""),
    ]


@pytest.mark.parametrize("seconds", [None, 30])
def test_every_second_case(seconds):
    found = run_selection(LocalSelection("local", every=2), seconds)
    assert [each.case for each in found if each] == ["first", "second", "third"]


# -- functions of a framework ----------------------------------------------------------


def double(feeds):
    return [2 * x for x in feeds]


def test_functions():
    right = DataSet([np.ones(2)], [np.full(2, 2.0)], 0, 0)
    wrong = right._replace(expected=[np.full(2, 3.0)])
    found = [run_function("two", "all", lambda: double, [s]) for s in (right, wrong)]
    assert found == [
        Outcome("two", "all", "pass"),
        Outcome("two", "all", "wrong",
                "output 0: 2 of 2 elements differ, at [0] 2, not 3; max abs 1, "
                "max rel 0.333, SNR 9.54 dB"),
    ]  # fmt: skip


def test_functions_that_cannot_be_made():
    """Errors of the conversion have another status than those of the function."""

    def make():
        raise BackendError("no such op", problems=["relu 'y': no kernel"])

    def fails(feeds):
        raise ValueError("two")

    sets = [DataSet([], [], 0, 0)]
    found = run_function("a", "all", make, sets)
    assert (found.status, found.why) == ("declined", "relu: no kernel")
    found = run_function("a", "all", lambda: fails, sets)
    assert (found.status, found.why) == ("fail", "ValueError: two")


def test_programs_are_counted():
    """Those that a backend compiled for all data sets of a case."""
    found = Outcome("relu", "all", "pass", compilations=2)
    assert cases_by_compilations([found, Outcome("a", "all", "gap"), found]) == {2: 2}
    answer = {"backend": "jax", "cases": [], "totals": {"all": 2},
              "compilations": {"2": 2}}  # fmt: skip
    page = format_page("", [answer])
    assert "| cases | programs compiled in all runs |\n| --- | --- |\n| 2 | 2 |" in page


# -- criteria --------------------------------------------------------------------------


def draws_of(draw, count=300, seed=0):
    """Many outputs in one array, and a function that returns another output."""
    theirs, ours = (np.random.default_rng(seed + i) for i in range(2))
    return np.stack([draw(theirs) for _ in range(count)]), lambda: [draw(ours)]


def uniform(rng):
    return rng.random((4, 5), "float32")


def by_row(rng):
    """Rows that are equal as a whole: as its elements alone, the next one."""
    return np.repeat(rng.random((4, 1)), 5, 1)


def by_element(rng):
    return rng.random((4, 5))


def check(theirs, ours):
    draws, _ = draws_of(theirs)
    _, draw = draws_of(ours, seed=7)
    return same_distribution([draws], [draws[0]], 1e-5, 1e-5)(draw)


@pytest.mark.parametrize(
    "draw",
    [
        uniform, by_row, by_element,
        lambda rng: rng.standard_cauchy((3, 3)),
        lambda rng: rng.integers(0, 3, (6,)),
        lambda rng: np.float32(rng.random()),
        lambda rng: rng.random(3) + 1j * rng.random(3),
        lambda rng: np.full((2, 2), 0.1, "float32") * (1 + 1e-6 * rng.random()),
        lambda rng: rng.random((0, 3)),
    ],
)  # fmt: skip
def test_the_same_distribution(draw):
    assert check(draw, draw) is None


def test_other_distributions():
    scaled = check(uniform, lambda rng: uniform(rng) * np.float32(1.15))
    assert "mean ranks of elements" in scaled
    shifted = check(uniform, lambda rng: uniform(rng) + np.float32(0.3))
    assert "Kolmogorov-Smirnov statistic" in shifted
    assert "output 0: difference" in check(by_row, by_element)
    assert "(5, 4)" in check(uniform, lambda rng: uniform(rng).T)
    assert "element 0" in check(lambda _: np.zeros(3), lambda _: np.ones(3))


def test_quantities_of_a_factorization():
    q, r = np.linalg.qr(np.arange(6.0).reshape(3, 2))

    def quantities(q, r):
        return [q @ r, q.T @ q]

    criterion = same_quantities(quantities, [q, r], 1e-9, 1e-9)
    assert criterion(lambda: [-q, -r]) is None
    assert criterion(lambda: [q, -r]).startswith("output 0: ")
    assert criterion(lambda: [2 * q, r / 2]).startswith("output 1: ")
    assert "float32" in criterion(lambda: [q.astype("float32"), r])


def test_uninitialized_outputs():
    criterion = same_types([np.zeros(3)])
    assert criterion(lambda: [np.full(3, np.nan)]) is None
    assert criterion(lambda: [np.zeros(4)]).startswith("dtypes and shapes")


ROUNDING = np.float32([3e-9, -2e-9, 1e-9, 0])
"""An expected gradient that is 0 in exact arithmetic."""


@pytest.mark.parametrize(("found", "is_right"), [
    (ROUNDING, True),
    (np.roll(ROUNDING, 1), True),  # other rounding errors, as large as those expected
    (2 * ROUNDING[::-1], True),
    (3 * ROUNDING[::-1], False),
    (ROUNDING + np.float32([0, 0, 0, 1e-6]), False),
    (ROUNDING.astype("float64"), False),
    (np.full(4, np.nan, "float32"), False),
])  # fmt: skip
def test_outputs_that_are_rounding_errors(found: Any, is_right: bool) -> None:
    criterion = as_exact_as([ROUNDING], [np.zeros(4)], 1e-5, 0.0)
    assert (criterion(lambda: [found]) is None) is is_right


def test_outputs_are_compared_with_exact_ones_one_by_one() -> None:
    """The errors of one output do not excuse another."""
    exact = [np.full(3, 2.0), np.zeros(3)]
    expected = [np.float32([2, 2, 2]), np.float32([1e-6, 0, -1e-6])]
    criterion = as_exact_as(expected, exact, 1e-5, 0.0)
    assert criterion(lambda: [expected[0] + np.float32(1e-6), -expected[1]]) is None
    why = criterion(lambda: [expected[0] * np.float32(1.001), expected[1]])
    assert why is not None
    assert why.startswith("output 0: 3 of 3 elements")
    assert why.endswith("; errors 2.0e-03 and 0.0e+00")


@pytest.mark.parametrize(("expected", "status"), [
    ([np.float32([9, 9]), np.array([True, False])], "drawn"),
    ([np.float32([9, 9]), np.array([1, 0])], "wrong"),
    ([np.float32([9]), np.array([True, False])], "wrong"),
])  # fmt: skip
def test_values_that_are_left_open(expected: Any, status: str) -> None:
    """Truth values as well as numbers; dtypes and shapes are not."""
    pytest.importorskip("amanda_std", reason="its ops are run")
    from amanda_std import ops, trace

    graph = trace(
        lambda x: (x * 2.0, ops.greater(x, 0.0)), [amanda.parse_type("float32[2]")]
    )
    graph.parameters[0].name = "x"
    outcome = run_data_sets(
        "dropout", "node", lambda: graph,
        [DataSet([np.float32([-1, 2])], expected, 1e-5, 1e-5)], "numpy", {},
        leaves_values_open=lambda _: True,
    )  # fmt: skip
    assert outcome.status == status, outcome.why


def test_sections_of_another_suite_have_its_name_in_their_titles() -> None:
    answers = [
        {"suite": suite, "backend": "torch-export", "totals": {"node": 2}, "cases": []}
        for suite in ("torch", "onnx")
    ]
    page = format_page("# Page\n", answers)
    titles = [line for line in page.splitlines() if line.startswith("## ")]
    assert titles == ["## torch-export", "## onnx: torch-export"]


def test_sections_of_one_backend_have_their_kinds_in_their_titles() -> None:
    def answer(backend: str, kind: str, *failing: str) -> dict[str, Any]:
        cases = [
            {"case": case, "kind": kind, "status": "gap", "why": "no rule"}
            for case in failing
        ]
        return {"backend": backend, "totals": {kind: 2}, "cases": cases}

    answers = [
        answer("numpy", "static", "relu"), answer("numpy", "models", "bert"),
        answer("jax", "static"),
    ]  # fmt: skip
    page = format_page("# Page\n", answers)
    assert parse_section(page, "numpy: static") == {"relu": "gap"}
    assert parse_section(page, "numpy: models") == {"bert": "gap"}
    assert "\n## jax\n" in page
