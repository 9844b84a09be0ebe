"""A part of the cases, on numpy; the page has all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from amanda.cli import run_command_line
from amanda.scoreboard import count_outcomes, parse_section
from amanda_torch_conformance import KINDS, cases, page, run_case
from amanda_torch_conformance.page import limits_section
from amanda_torch_conformance.program_files import programs_folder
from amanda_torch_conformance.tolerances import LARGER_LIMITS, limits_of

pytestmark = pytest.mark.xdist_group("programs")

PAGE = Path(__file__).parents[3] / "docs" / "scoreboard-torch.md"
EVERY = 19


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Some of the programs, made by PyTorch in a process of its own."""
    if find_spec("torch") is None or find_spec("expecttest") is None:
        pytest.skip("PyTorch and expecttest make the programs")
    folder = tmp_path_factory.mktemp("programs")
    command = [sys.executable, "-m", "amanda_torch_conformance.making"]
    subprocess.run([*command, str(folder), str(EVERY)], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMANDA_TEST_TORCH_PROGRAMS", str(folder))
        programs_folder.cache_clear()
        yield folder
    programs_folder.cache_clear()


def test_cases(programs):
    chosen = list(cases(["static"]))
    assert len(chosen) >= 30
    outcomes = [run_case(*each) for each in chosen]
    listed = parse_section(PAGE.read_text("utf-8"), "numpy: static")
    worse = {o.case: o.why for o in outcomes
             if o.status != "pass" and o.case not in listed}  # fmt: skip
    assert worse == {}
    assert count_outcomes(outcomes)["pass"] >= 0.8 * len(outcomes)
    assert all(
        (programs / case.name / "0" / "model.pt2").is_file() for _, case in chosen
    )


def test_round_trips(programs):
    """Mapped to PyTorch again, written, loaded and run by it."""
    chosen = list(cases(["static"]))[::3]
    outcomes = [run_case(*each, "torch-export") for each in chosen]
    failed = {o.case: o.why for o in outcomes if o.status != "pass"}
    assert failed == {}
    assert len(outcomes) >= 10


def test_command(programs, capsys):
    arguments = ["--kind", "static", "--every", "9", "--json", "--seconds", "30"]
    run_command_line(["scoreboard", "torch", *arguments])
    answer = json.loads(capsys.readouterr().out)
    assert (answer["suite"], answer["every"]) == ("torch", 9)
    assert sum(answer["counts"].values()) == answer["totals"]["static"]


def test_larger_tolerances_hold_where_they_are_stated() -> None:
    expected = [np.float32([1])]
    plain = {"rtol": 1.3e-6, "atol": 1e-5, "ulps": 0}
    assert limits_of("add", expected, "numpy") == plain
    assert limits_of("fft.fft2", expected, "numpy") == plain
    assert limits_of("fft.fft2", expected, "onnxruntime") == {**plain, "ulps": 24}
    assert limits_of("polygamma", expected, "numpy") == {**plain, "rtol": 3e-5}
    dynamic = limits_of("add", expected, "numpy", is_dynamic=True)
    assert dynamic == pytest.approx({"rtol": 1.3e-5, "atol": 1e-4, "ulps": 0})
    rows = [line for line in limits_section().splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + len(LARGER_LIMITS)
    row = "| fft.fft2 | 24 ulps of the largest element on onnxruntime |"
    assert any(row in each for each in rows)


def test_entries_without_a_program(monkeypatch) -> None:
    error = "ValueError: why For more information, see"
    rows = [{"name": name, "samples": 0, "error": error} for name in ("item", "equal")]
    monkeypatch.setattr(page, "program_rows", lambda: [*rows, {"samples": 3}])
    text = page.missing_section()
    assert text.splitlines()[2:] == ["- ValueError: why: equal, item"]


def test_kinds_that_do_not_exist(capsys):
    assert run_command_line(["scoreboard", "torch", "--kind", "moving"]) == 2
    assert f"expected: one of {', '.join(KINDS)}" in capsys.readouterr().err
