"""A part of the cases, on numpy; the page has all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from amanda.cli import run_command_line
from amanda.scoreboard import count_outcomes, parse_section
from amanda_tf_conformance import KINDS, cases, run_case
from amanda_tf_conformance.made_models import models_folder
from amanda_tf_conformance.models.table import floats

pytestmark = pytest.mark.xdist_group("models")

PAGE = Path(__file__).parents[3] / "docs" / "scoreboard-tensorflow.md"
EVERY_FROZEN, EVERY_MADE = 23, 14
FAILED = ("fail", "wrong", "stopped")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Some of the models, made by TensorFlow in a process of its own."""
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow makes the models")
    folder = tmp_path_factory.mktemp("models")
    command = [sys.executable, "-m", "amanda_tf_conformance.models.making"]
    subprocess.run([*command, str(folder), str(EVERY_MADE)], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMANDA_TEST_TF_MODELS", str(folder))
        models_folder.cache_clear()
        yield folder
    models_folder.cache_clear()


@pytest.fixture(scope="module")
def frozen_cases():
    if "AMANDA_TEST_DATA" not in os.environ:
        pytest.skip("needs tf_graphs in AMANDA_TEST_DATA")
    return list(cases(["promoted", "plain"]))


def faults(outcomes):
    return {o.case: o.why for o in outcomes if o.status in FAILED}


def worse_than_page(outcomes):
    """Cases that pass by the page, but do not."""
    listed = parse_section(PAGE.read_text("utf-8"), "numpy")
    return {o.case: o.why for o in outcomes
            if o.status != "pass" and o.case not in listed}  # fmt: skip


def test_frozen_graphs(frozen_cases):
    assert len(frozen_cases) == 2 * 922
    outcomes = [run_case(*each) for each in frozen_cases[::EVERY_FROZEN]]
    assert faults(outcomes) == {}
    assert worse_than_page(outcomes) == {}
    assert count_outcomes(outcomes)["pass"] >= 0.97 * len(outcomes)


def test_made_models(made):
    chosen = list(cases(["function"]))
    assert len(chosen) >= 25
    chosen += cases(["saved-model", "training"])
    assert {kind for kind, _ in chosen} == {"function", "saved-model", "training"}
    outcomes = [run_case(*each) for each in chosen]
    assert worse_than_page(outcomes) == {}
    assert count_outcomes(outcomes)["pass"] >= 0.97 * len(outcomes)
    assert all((made / case.name / "saved_model").is_dir() for _, case in chosen)


def test_command(made, capsys):
    arguments = ["--kind", "function", "--every", "9", "--json", "--seconds", "30"]
    run_command_line(["scoreboard", "tensorflow", *arguments])
    answer = json.loads(capsys.readouterr().out)
    assert (answer["suite"], answer["every"]) == ("tensorflow", 9)
    assert sum(answer["counts"].values()) == answer["totals"]["function"]


def test_kinds_that_do_not_exist(capsys):
    assert run_command_line(["scoreboard", "tensorflow", "--kind", "frozen"]) == 2
    assert f"expected: one of {', '.join(KINDS)}" in capsys.readouterr().err


def test_second_data(capsys):
    assert run_command_line(["scoreboard", "tensorflow", "--second"]) == 2
    assert "no second data set" in capsys.readouterr().err


def test_inputs_of_models_are_the_same_each_time():
    assert (floats(2, 3) == floats(2, 3)).all()
