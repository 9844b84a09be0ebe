"""A slice of the cases of ONNX on jax; on numpy amanda-onnx runs them all."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "scoreboard-onnx.md"
EVERY = 25
HOLDING = "sequence|optional|_opt$|_seq|nonzero|unique|compress|nonmaxsuppression|dft"
"""Cases of what holds tensors, of what data decides the size of, of what is halved."""
NOT_IN_XLA = ("XLA has no element type string", "XLA computes with numbers")


@pytest.fixture(scope="module")
def conformance() -> Any:
    for needed in ("onnx", "jax", "amanda_jax"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    return pytest.importorskip("amanda_onnx_conformance")


def went(conformance: Any, chosen: Any, **how: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, while onnx makes its test data
        return [conformance.run_case(*case, "jax", **how) for case in chosen]


def test_none_goes_wrong_on_jax(conformance):
    """Declined is an answer; other values without one, or an error, are none.

    Nor is a pass what ran outside XLA."""
    page = pytest.importorskip("amanda_onnx_conformance.page")
    found = went(conformance, list(conformance.cases())[::EVERY])
    told = {o.case: o.why for o in found if o.status not in ("pass", "drawn")}
    assert {case: why for case, why in told.items() if not is_declined(why)} == {}
    assert conformance.count_outcomes(found)["pass"] > len(found) * 0.9
    section = page.parse_section(PAGE.read_text("utf-8"), "jax")
    slice_ = {o.case: section.get(o.case, "pass") for o in found}
    assert {o.case: o.status for o in found} == slice_


def test_what_holds_tensors_runs_in_xla_with_other_data_too(conformance):
    chosen = conformance.cases(["node", "simple"], HOLDING)
    found = went(conformance, chosen, second=True)
    assert len(found) > 70
    assert {o.case: o.why for o in found if o.status not in ("pass", "excluded")} == {}


def test_what_xla_has_not_runs_on_numpy_where_that_is_allowed(conformance):
    chosen = list(conformance.cases(["node"], "string|image_decoder.*(png|bmp)"))
    assert len(chosen) > 10
    apart = {o.status for o in went(conformance, chosen)}
    assert apart == {"declined"}
    together = went(conformance, chosen, fallback="numpy")
    assert {o.case: o.why for o in together if o.status != "pass"} == {}


def is_declined(why: str) -> bool:
    return any(reason in why for reason in NOT_IN_XLA)
