"""The published example is valid; each variant has its listed faults and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from amanda.dictionary import Dictionary
from amanda.dictionary.validation import cast_attributes
from amanda.files.text import yaml_form
from amanda.graph import Graph
from amanda.types import DType, Shape

HERE = Path(__file__).parent / "published"

FAULTS = {
    "example": [],
    "wrong_ops": [
        "BatchMatMulV3 'dense/MatMul' is not in tensorflow@1.13.1 "
        "(it exists from tensorflow@2.6.0 on)",
        "Rleu 'dense/Relu' is not in tensorflow@1.13.1 (did you mean 'Relu'?)",
    ],
    "wrong_attributes": [
        "Placeholder 'Placeholder': attribute dtype is 'complex65', "
        "not an element type",
        "VariableV2 'dense/kernel': attribute 'shape' is missing",
        "MatMul 'dense/MatMul' has no attribute 'transpose_x' "
        "(did you mean 'transpose_a'?)",
        "MatMul 'dense/MatMul': attribute transpose_b is 1, not a bool",
        "Relu 'dense/Relu': attribute T is string, but allows i8, i16, i32, i64, u8, "
        "u16, u32, u64, bf16, f16, f32, f64, qint8",
    ],
    "wrong_inputs": [
        "MatMul 'dense/MatMul': input b is missing",
        "Relu 'dense/Relu': inputs: expected 1 (features), got 2",
        "Relu 'dense/Relu': outputs: expected 1 (activations), got 2",
    ],
    "wrong_types": [
        "Placeholder 'Placeholder': output output has type_attr 'T', expected 'dtype'",
        "VariableV2 'dense/kernel': output ref has is_ref False, expected True",
        "MatMul 'dense/MatMul': input a is f32, but T is i32 by its attribute",
        "Relu 'dense/Relu' has no attribute 'T2' (its attributes are T)",
    ],
}


def read(name: str) -> Graph:
    graph = yaml_form.loads((HERE / f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(graph, Graph)
    return graph


def test_every_variant_is_listed() -> None:
    assert {file.stem for file in HERE.iterdir()} == set(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_exactly_these_faults(name: str, tf1: Dictionary) -> None:
    assert [str(problem) for problem in tf1.validate(read(name))] == FAULTS[name]


def test_untagged_values_get_their_kinds(tf1: Dictionary) -> None:
    graph = read("example")
    assert graph["Placeholder"].attrs["dtype"] == "float32"
    assert cast_attributes(graph, tf1) == 6
    assert graph["Placeholder"].attrs == {
        "shape": Shape([1, 784]),
        "dtype": DType("float32"),
    }
    assert graph["dense/kernel"].attrs["_class"] == ["loc:@dense/kernel"]
    assert cast_attributes(graph, tf1) == 0
    assert tf1.validate(graph) == []
