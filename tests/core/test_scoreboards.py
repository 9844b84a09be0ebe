"""Runs of the cases of a suite in processes that may be stopped."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest

from amanda.scoreboard import Outcome, Selection, run_selection


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
