"""Part of the ONNX conformance cases on jax; amanda-onnx runs all of them on numpy."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from amanda.scoreboard import count_outcomes, parse_section

PAGE = Path(__file__).parents[2] / "docs" / "scoreboard-onnx.md"
EVERY = 25
CONTAINERS = (
    "sequence|optional|_opt$|_seq|nonzero|unique|compress|nonmaxsuppression|dft"
)
"""Cases of sequences and optionals, of data-dependent sizes, and of DFT."""
NOT_IN_XLA = ("XLA has no element type string", "XLA computes with numbers")


@pytest.fixture(scope="module")
def conformance() -> Any:
    for needed in ("onnx", "jax", "amanda_jax"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    return pytest.importorskip("amanda_onnx_conformance")


def run_cases(conformance: Any, chosen: Any, **options: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # by numpy, while onnx generates its test data
        return [conformance.run_case(*case, "jax", **options) for case in chosen]


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("part", range(2))
def test_no_case_fails_on_jax(conformance, part):
    """A case passes within XLA or is declined; wrong values and errors are failures."""
    outcomes = run_cases(
        conformance, list(conformance.cases())[part * EVERY :: 2 * EVERY]
    )
    reasons = {o.case: o.why for o in outcomes if o.status not in ("pass", "drawn")}
    assert {case: why for case, why in reasons.items() if not is_declined(why)} == {}
    assert count_outcomes(outcomes)["pass"] > len(outcomes) * 0.9
    section = parse_section(PAGE.read_text("utf-8"), "jax")
    slice_ = {o.case: section.get(o.case, "pass") for o in outcomes}
    assert {o.case: o.status for o in outcomes} == slice_


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("part", range(2))
def test_container_cases_run_in_xla_with_other_data(conformance, part):
    chosen = list(conformance.cases(["node", "simple"], CONTAINERS))[part::2]
    outcomes = run_cases(conformance, chosen, second=True)
    assert len(outcomes) > 35
    assert {
        o.case: o.why for o in outcomes if o.status not in ("pass", "excluded")
    } == {}


def test_cases_outside_xla_run_on_the_fallback(conformance):
    chosen = list(conformance.cases(["node"], "string|image_decoder.*(png|bmp)"))
    assert len(chosen) > 10
    alone = {o.status for o in run_cases(conformance, chosen)}
    assert alone == {"declined"}
    together = run_cases(conformance, chosen, fallback="numpy")
    assert {o.case: o.why for o in together if o.status != "pass"} == {}


def is_declined(why: str) -> bool:
    return any(reason in why for reason in NOT_IN_XLA)
