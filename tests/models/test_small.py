"""Small networks of the kinds that people have, from PyTorch through everything."""

from __future__ import annotations

import pytest
from models.architectures import ARCHITECTURES, exported
from models.judging import BACKENDS, RETURNED, judged

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch, while it exports


@pytest.mark.parametrize("shapes", ["fixed", "open"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_small_one(name, shapes, tmp_path):
    for needed in ("torch", "transformers", "onnxscript", "onnxruntime"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    for plugin in ("amanda_onnx", "amanda_onnxruntime", "amanda_jax"):
        pytest.importorskip(plugin, reason=f"{plugin} is not installed")
    made = exported(name, tmp_path, small=True, dynamic=shapes == "open")
    seen = judged(name, *made, tmp_path)
    assert seen.problems == []
    assert seen.gaps == {}
    assert list(seen.differences) == [*BACKENDS, RETURNED]
    assert seen.largest > 0.01
