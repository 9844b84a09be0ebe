"""Special values on numpy and jax: a part of the cases here, all with `-m scale`.

The oracles, the reference evaluator and onnxruntime, run in the test.
"""

from __future__ import annotations

from collections import Counter
from zlib import crc32

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from amanda_onnx_conformance import special_outcomes
from amanda_onnx_conformance.special_outcomes import (
    EXPLAINED,
    explanation_of,
    is_accepted,
    run_special,
)
from amanda_onnx_conformance.special_values import (
    KINDS_OF_VALUES,
    SpecialCase,
    special_cases,
)

ALL = 1500
"""Cases that the full run has at least."""
PARTS = 25
"""The models of the short run are one in so many."""
WITHOUT_CASES = {
    "ImageDecoder": "its input is an encoded file, which has no special values",
}
"""Ops without cases, and why."""


def run_all(cases, backends):
    """The cases whose differences have no explanation, the explanations that are
    needed, and the number of differences that they explain on each backend."""
    unexplained, used, explained = [], set(), Counter()
    for case in cases:
        for backend, why in run_special(case, backends).items():
            reason = explanation_of(case, backend)
            if reason is None:
                unexplained.append((backend, case.name, case.values, why))
            else:
                used.add(reason)
                explained[backend] += 1
    return unexplained, used, explained


def backends():
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("amanda_jax", reason="amanda-jax is not installed")
    return ["numpy", "jax"]


def is_in_part(name):
    return crc32(name.encode()) % PARTS == 0


def test_part_of_the_cases():
    names = backends()
    cases = list(special_cases(is_accepted, 1, is_in_part))
    assert len(cases) > 30
    unexplained, _, _ = run_all(cases, names)
    assert unexplained == []


@pytest.mark.scale
def test_all_cases():
    names = backends()
    cases = list(special_cases(is_accepted, per_op=3))
    assert len(cases) >= ALL
    assert {case.values for case in cases} >= KINDS_OF_VALUES.keys() | {"scalar"}
    covered = {case.op_type for case in cases}
    ops = {each.name for each in onnx.defs.get_all_schemas() if not each.deprecated}
    assert ops - covered == WITHOUT_CASES.keys()
    unexplained, used, explained = run_all(cases, names)
    print(f"\n{len(cases)} cases, {len(covered)} ops; explained: {dict(explained)}")
    assert unexplained == []
    assert [each for each in EXPLAINED if each not in used] == []


def relu(x):
    node = helper.make_node("Relu", ["x"], ["y"])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "xy"
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )
    return SpecialCase("relu", "Relu", "zero", model, {"x": x})


@pytest.mark.parametrize("wrong", [
    [np.nan, 0.0, 1.0], [0.0, -0.0, 1.0], [0.0, 0.0, 1.01], [0.0, np.inf, 1.0],
])  # fmt: skip
def test_a_difference_is_found(monkeypatch, wrong):
    case = relu(np.array([-1.0, 0.0, 1.0], "float32"))
    assert run_special(case, ["numpy"]) == {}
    answer = special_outcomes._Answer([np.array(wrong, "float32")])
    monkeypatch.setattr(special_outcomes, "_by_reference", lambda *_: answer)
    monkeypatch.setattr(special_outcomes, "_by_onnxruntime", lambda *_: answer)
    assert "1 of 3" in run_special(case, ["numpy"])["numpy"]
