"""Full-size networks of PyTorch, and those that others published.

They take gigabytes to fetch and make: `tox run -e models` asks for them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from models import published
from models.__main__ import apart
from models.architectures import ARCHITECTURES
from models.judging import BACKENDS, RETURNED

pytestmark = pytest.mark.models

MEMORY = 8e9  # bytes; one model at a time


@pytest.fixture(scope="module")
def folder(request):
    """Where fetched files are kept for the next time."""
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
    seen = apart(name, folder)
    assert seen["problems"] == []
    assert seen["gaps"] == {}
    assert list(seen["differences"]) == [*BACKENDS, RETURNED]
    assert seen["largest"] > 0.01
    assert seen["peak"] < MEMORY


@pytest.mark.parametrize("name", published.INPUTS)
def test_published(name, data, folder):
    seen = apart(name, folder)
    gaps = published.GAPS.get(name, {})
    assert seen["problems"] == []
    assert seen["gaps"] == gaps
    ways = ["onnxruntime"] if gaps else [*BACKENDS, RETURNED]
    assert list(seen["differences"]) == ways
    assert seen["largest"] > 1e-4  # what is all zeros would hide a difference
    assert seen["peak"] < MEMORY


def test_every_published_model_is_here(data):
    assert set(published.listed(data)) == set(published.INPUTS)
    assert set(published.GAPS) <= set(published.INPUTS)
