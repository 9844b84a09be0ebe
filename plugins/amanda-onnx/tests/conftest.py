"""The models of onnx's backend test suite, and equality of models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx.backend.test import loader

KINDS = ("node", "simple", "real", "pytorch-converted", "pytorch-operator")
# Repeated fields whose order says nothing, and the field that they are sorted by.
UNORDERED = {
    "value_info": "name",
    "attribute": "name",
    "quantization_annotation": "tensor_name",
    "quant_parameter_tensor_names": "key",
    "metadata_props": "key",
    "external_data": "key",
    "opset_import": "domain",
}


def suite(kind: str) -> Iterator[tuple[str, bytes]]:
    """Every model of a kind that lies here or can be made here, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, while onnx makes its test data
        cases = loader.load_model_tests(kind=kind)
    for case in cases:
        model = getattr(case, "model", None)
        if model is not None:
            yield case.name, model.SerializeToString()
        elif case.model_dir and Path(case.model_dir, "model.onnx").is_file():
            yield case.name, Path(case.model_dir, "model.onnx").read_bytes()
        elif kind == "real":
            path = Path(onnx.__file__).parent / "backend/test/data/light"
            found = path / f"light_{case.name.removeprefix('test_')}.onnx"
            if found.is_file():
                yield case.name, found.read_bytes()


def canonical(message: Any) -> Any:
    """A copy in which what is unordered is sorted, and what is empty is not there."""
    fresh = type(message)()
    fresh.CopyFrom(message)
    stack = [fresh]
    while stack:
        at = stack.pop()
        for field, value in at.ListFields():
            if field.type == field.TYPE_MESSAGE and field.is_repeated:
                stack += value
                if field.name in UNORDERED:
                    value.sort(key=lambda m, by=UNORDERED[field.name]: getattr(m, by))
            elif field.type == field.TYPE_MESSAGE:
                stack.append(value)
            elif _is_bare(field, value):
                at.ClearField(field.name)
    return fresh


def _is_bare(field: Any, value: Any) -> bool:
    """An optional text that is there and empty, which says what its absence says."""
    single = field.type == field.TYPE_STRING and not field.is_repeated
    return single and not value and field.containing_oneof is None


@pytest.fixture(scope="session")
def same_model() -> Callable[[Any, Any], bool]:
    return lambda one, other: canonical(one) == canonical(other)


@pytest.fixture(scope="session")
def models() -> dict[str, bytes]:
    """All of them: 2,033 cases."""
    return {f"{kind}/{name}": raw for kind in KINDS for name, raw in suite(kind)}
