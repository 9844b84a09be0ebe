"""Small configurations of common architectures, exported by PyTorch, end to end."""

from __future__ import annotations

import pytest
from models.architectures import ARCHITECTURES, export
from models.checking import BACKENDS, ROUND_TRIP, check_model

pytestmark = pytest.mark.filterwarnings("ignore")  # by PyTorch's exporter


@pytest.mark.most_cases(2)
@pytest.mark.parametrize("shapes", ["static", "dynamic"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_small_model(name, shapes, tmp_path):
    for needed in ("torch", "transformers", "onnxscript", "onnxruntime"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    for plugin in ("amanda_onnx", "amanda_onnxruntime", "amanda_jax"):
        pytest.importorskip(plugin, reason=f"{plugin} is not installed")
    exported = export(name, tmp_path, small=True, dynamic=shapes == "dynamic")
    report = check_model(name, *exported, tmp_path)
    assert report.problems == []
    assert report.gaps == {}
    assert list(report.differences) == [*BACKENDS, ROUND_TRIP]
    assert report.largest > 0.01
