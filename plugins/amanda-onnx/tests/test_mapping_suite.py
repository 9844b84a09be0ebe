"""A slice of the ONNX project's own cases, through the hub set, on numpy."""

from __future__ import annotations

import json
import warnings
from collections import Counter

import pytest

from amanda_onnx.scoreboard import OUTCOMES, cases, command, outcome

EVERY = 4
PASSES = 417  # this only grows
WRONG: set[str] = set()  # cases with other values and no error; this only shrinks


@pytest.fixture(scope="module")
def outcomes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [outcome(*case) for case in list(cases())[::EVERY]]


def test_as_many_pass_as_ever(outcomes):
    counts = Counter(each.status for each in outcomes)
    assert set(counts) <= set(OUTCOMES)
    failed = [each for each in outcomes if each.status == "fail"]
    assert counts["pass"] >= PASSES, (counts, failed)


def test_no_case_goes_wrong_silently(outcomes):
    wrong = {each.case: each.why for each in outcomes if each.status == "wrong"}
    assert wrong.keys() <= WRONG, wrong


def test_every_other_outcome_has_a_reason(outcomes):
    assert all(each.why for each in outcomes if each.status != "pass")


def test_the_verb_counts(capsys):
    from click.testing import CliRunner

    arguments = ["onnx", "--kind", "simple", "--match", "sequence|sign", "--json"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(command, arguments)
    told = json.loads(result.stdout)
    assert told["suite"] == "onnx"
    assert told["backend"] == "numpy"
    assert sum(told["counts"].values()) == len(told["cases"]) + told["counts"]["pass"]
