"""A slice of the cases of ONNX on jax; on numpy amanda-onnx runs them all."""

from __future__ import annotations

import warnings

import pytest

EVERY = 25


def test_none_goes_wrong_on_jax():
    """Declined is an answer; other values without one, or an error, are none."""
    for needed in ("onnx", "jax", "amanda_jax"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    scoreboard = pytest.importorskip("amanda_onnx.scoreboard")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, while onnx makes its test data
        chosen = list(scoreboard.cases())[::EVERY]
        went = [scoreboard.outcome(*case, "jax") for case in chosen]
    bad = {o.case: o.why for o in went if o.status in ("wrong", "fail")}
    assert bad == {}
    assert scoreboard.counted(went)["pass"] > len(went) * 0.8
