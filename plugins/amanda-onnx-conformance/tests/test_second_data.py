"""The second data set: a part of it here, all of it in docs/scoreboard-onnx.md."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from zlib import crc32

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import amanda
from amanda.scoreboard import format_page, parse_section
from amanda_onnx_conformance import cases, run_case
from amanda_onnx_conformance.second_data import (
    EXCLUDED,
    SHAPE_INPUTS,
    second_data_set,
    shape_inputs,
)

pytestmark = pytest.mark.xdist_group("outcomes")

PAGE = Path(__file__).parents[3] / "docs" / "scoreboard-onnx.md"
PARTS = 8


@pytest.fixture(scope="module")
def part():
    """Every eighth case, of all kinds but the largest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(cases(["node", "simple", "pytorch-operator"]))
    return [pair for pair in found if crc32(pair[1].name.encode()) % PARTS == 0]


@pytest.fixture(scope="module")
def outcomes(part):
    return [run_case(*pair, second=True) for pair in part]


def test_second_data_set_passes(outcomes):
    bad = [o for o in outcomes if o.status not in ("pass", "excluded", "drawn")]
    assert len(outcomes) > 200
    assert bad == []


def test_excluded_cases_have_a_reason(outcomes):
    left_out = [o for o in outcomes if o.status == "excluded"]
    assert len(left_out) < len(outcomes) / 10
    assert {o.why for o in left_out} <= set(EXCLUDED.values())


def test_page_agrees_on_second_data_set(outcomes):
    told = parse_section(PAGE.read_text("utf-8"), "numpy, with a second data set")
    assert {o.case: o.status for o in outcomes if o.status != "pass"} == {
        o.case: told[o.case] for o in outcomes if o.case in told
    }


def test_page_agrees_on_first_data_set(part):
    told = parse_section(PAGE.read_text("utf-8"), "numpy")
    found = [run_case(*pair) for pair in part[::3]]
    assert {o.case: o.status for o in found if o.status != "pass"} == {
        o.case: told[o.case] for o in found if o.case in told
    }


def test_page_has_how_cases_ran():
    modes = {"by value": ["test_c", "test_a"], "one program": ["test_b"] * 5}
    answer = {"backend": "jax", "cases": [], "modes": modes,
              "totals": {"node": 7}}  # fmt: skip
    text = format_page("", [answer])
    assert "| 5 | one program |\n| 2 | by value |" in text
    assert "* by value: test_a, test_c" in text
    assert parse_section(text, "jax") == {}


def test_page_of_answers():
    told = [
        {"case": "test_a", "kind": "node", "status": "fail", "why": "a | b"},
        {"case": "test_b", "kind": "node", "status": "drawn", "why": "1, not 2"},
    ]
    totals = {"node": 5, "simple": 2}
    answer = {"backend": "numpy", "second": True, "cases": told, "totals": totals}
    text = format_page("", [answer])
    assert "| node | 5 | 3 | 1 | 1 |" in text
    assert "| all | 7 | 5 | 1 | 1 |" in text
    assert parse_section(text, "numpy, with a second data set") == {
        "test_a": "fail", "test_b": "drawn",
    }  # fmt: skip


# -- other values of inputs that decide shapes ---------------------------------------


def case_of(node, **inputs):
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
    infos = [
        helper.make_tensor_value_info(k, kinds[str(v.dtype)], v.shape)
        for k, v in inputs.items()
    ]
    shape = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([node], "g", infos, [shape])
    imports = [helper.make_opsetid("", 18)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    (want,) = onnx.reference.ReferenceEvaluator(made).run(None, inputs)
    found = second_data_set("t", made, made, list(inputs.values()), [want], differs)
    return made, found, want


def differs(found, expected):
    pairs = zip(found, expected, strict=True)
    return None if all(np.array_equal(a, b) for a, b in pairs) else "other"


X = np.arange(6, dtype="float32").reshape(2, 3) + 1


def test_shape_input_changes():
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    made, found, want = case_of(node, x=X, s=np.array([2, 3]))
    assert list(shape_inputs(made)) == ["s"]
    assert found.shaped
    assert found.feeds[1].tolist() == [3, 2]
    assert found.expected[0].shape == (3, 2) != want.shape
    given = dict(zip("xs", found.feeds, strict=True))
    (run,) = amanda.run(amanda.load(found.model), given, backend="numpy").values()
    np.testing.assert_array_equal(run, found.expected[0])


def test_baked_in_shape_fails(monkeypatch):
    """A model that forgets its shape operand passes the first data set only."""
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    made, _, want = case_of(node, x=X, s=np.array([2, 3]))
    data = [([X, np.array([2, 3])], [want])]
    case = SimpleNamespace(name="t", model=made, data_sets=data, rtol=1e-3, atol=0,
                           model_dir=None)  # fmt: skip
    assert run_case("node", case, second=True).status == "pass"
    load = amanda.load

    def baked(model, **more):
        copy = type(model)()
        copy.CopyFrom(model)
        copy.graph.node[0].input[1] = "t"
        copy.graph.initializer.append(
            onnx.numpy_helper.from_array(np.array([2, 3]), "t")
        )
        return load(copy, **more)

    monkeypatch.setattr(amanda, "load", baked)
    assert run_case("node", case).status == "pass"
    assert run_case("node", case, second=True).status == "wrong"


def test_shape_inputs_exist():
    for type, at in SHAPE_INPUTS:
        schema = onnx.defs.get_schema(type, 9 if type == "Upsample" else 28)
        assert at < len(schema.inputs), (type, at)


def test_invalid_pattern_is_a_usage_error():
    with pytest.raises(amanda.errors.UsageError, match="invalid pattern"):
        list(cases(["node"], "*x*"))
