"""A part of ONNX's node suite as programs of PyTorch; the page has all of it."""

from __future__ import annotations

from itertools import islice

import pytest

from amanda.scoreboard import count_outcomes

pytest.importorskip("torch", reason="runs the programs")
suite = pytest.importorskip("amanda_onnx_conformance", reason="has the cases")

EVERY = 97


def test_cases():
    chosen = list(islice(suite.cases(["node"]), 0, None, EVERY))
    outcomes = [suite.run_case(*each, "torch-export") for each in chosen]
    failed = {o.case: o.why for o in outcomes if o.status in ("fail", "wrong")}
    assert failed == {}
    assert count_outcomes(outcomes)["pass"] >= 0.8 * len(outcomes) >= 15
