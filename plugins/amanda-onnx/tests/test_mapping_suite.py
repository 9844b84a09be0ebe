"""The ONNX project's own cases, all of them, through the hub set, on numpy."""

from __future__ import annotations

import json
import warnings
from collections import Counter

import pytest

from amanda_onnx.scoreboard import OUTCOMES, cases, command, data, outcome

CASES = 2033  # of onnx 1.23; newer ones have more
PASSES = 2023  # this only grows
DRAWN = ("test_bernoulli", "test_training_dropout")  # with a ratio that is not 0


@pytest.fixture(scope="module")
def outcomes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [outcome(*case) for case in cases()]


def test_every_case_of_the_suite_is_found(models):
    """As many as the format reads and writes; each with what goes in and comes out."""
    found = list(cases())
    assert len(found) == len(models) >= CASES
    assert len({(kind, case.name) for kind, case in found}) == len(found)
    assert [case.name for _, case in found if not any(data(case))] == []


def test_the_real_networks_pass(outcomes):
    real = [each for each in outcomes if each.kind == "real"]
    assert len(real) >= 9
    assert {each.case: each.why for each in real if each.status != "pass"} == {}


def test_as_many_pass_as_ever(outcomes):
    counts = Counter(each.status for each in outcomes)
    assert set(counts) <= set(OUTCOMES)
    assert counts["pass"] >= PASSES, counts


def test_none_goes_wrong_and_none_ends_in_an_error(outcomes):
    """Other values without an error are the worst; a gap is told before it runs."""
    bad = [each for each in outcomes if each.status in ("wrong", "fail")]
    assert {each.case: each.why for each in bad} == {}


def test_only_what_draws_is_not_compared(outcomes):
    """onnx's own reference leaves these out; they have other numbers in every run."""
    drawn = [each.case for each in outcomes if each.status == "drawn"]
    assert all(name.startswith(DRAWN) for name in drawn), drawn


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
