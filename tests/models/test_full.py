"""Full-size architectures of PyTorch, and published models.

They download and export gigabytes: only `tox run -e models` runs them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from models import published
from models.__main__ import check_in_process
from models.architectures import ARCHITECTURES
from models.checking import BACKENDS, ROUND_TRIP

pytestmark = pytest.mark.models

MEMORY = 8e9  # bytes; one model at a time


@pytest.fixture(scope="module")
def folder(request):
    """Cache of downloaded files."""
    return request.config.cache.mkdir("models")


@pytest.fixture(scope="module")
def data():
    root = os.environ.get("AMANDA_TEST_DATA")
    if not root or not Path(root, "models", "models.json").is_file():
        pytest.skip("needs models/models.json in AMANDA_TEST_DATA")
    return Path(root)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_exported_by_pytorch(name, folder):
    for needed in ("torch", "transformers", "onnxscript"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    report = check_in_process(name, folder)
    assert report["problems"] == []
    assert report["gaps"] == {}
    assert list(report["differences"]) == [*BACKENDS, ROUND_TRIP]
    assert report["largest"] > 0.01
    assert report["peak"] < MEMORY


@pytest.mark.parametrize("name", published.INPUTS)
def test_published(name, data, folder):
    report = check_in_process(name, folder)
    gaps = published.GAPS.get(name, {})
    assert report["problems"] == []
    assert report["gaps"] == gaps
    runs = ["onnxruntime"] if gaps else [*BACKENDS, ROUND_TRIP]
    assert list(report["differences"]) == runs
    assert report["largest"] > 1e-4  # zeros would hide a difference
    assert report["peak"] < MEMORY


def test_every_published_model_has_inputs(data):
    assert set(published.list_models(data)) == set(published.INPUTS)
    assert set(published.GAPS) <= set(published.INPUTS)
