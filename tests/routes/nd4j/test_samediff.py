"""The SameDiff files of libnd4j's tests run, with the numbers of those tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from routes.nd4j.account import settings

import amanda

_TESTS = Path(__file__).parents[3] / "plugins/amanda-nd4j/tests/test_samediff.py"


def _published() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("nd4j_samediff_files", _TESTS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Any] = {**module.PUBLISHED, **dict.fromkeys(module.OTHERS)}
    return found


PUBLISHED = _published()


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files_run(
    data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for variable, value in settings(data).items():
        monkeypatch.setenv(variable, value)
    file = data / "dl4j" / "samediff" / f"{name}.fb"
    if not file.is_file():
        pytest.skip("needs dl4j/samediff in AMANDA_TEST_DATA")
    run = amanda.compile(amanda.convert(amanda.load(file), "std"), backend="numpy")
    *_, value = run({}).values()
    assert np.isfinite(value).all()
    if PUBLISHED[name] is not None:
        wanted = np.reshape(PUBLISHED[name], np.shape(value))
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


def test_a_network_of_another_framework_becomes_a_file(
    data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the hub; the version is that of the descriptors that are installed."""
    for variable, value in settings(data).items():
        monkeypatch.setenv(variable, value)
    pytest.importorskip("amanda_onnx")
    digits = amanda.load(Path(__file__).parents[3] / "examples/digits/digits.onnx")
    hub = amanda.convert(digits, "std")
    graph = amanda.convert(hub, "nd4j", passes=["optimize_for_inference"])
    assert graph.namespace == "amanda/nd4j/1"
    amanda.save(graph, tmp_path / "digits.sdz")
    read = amanda.load(tmp_path / "digits.sdz")
    shape = [n if isinstance(n, int) else 1 for n in digits.parameters[0].type.shape]
    feed = np.random.default_rng(0).random(shape).astype("float32")
    found, wanted = (
        amanda.compile(each, backend="numpy")({each.parameters[0].name: feed})
        for each in (read, digits)
    )
    np.testing.assert_allclose(
        *(next(iter(each.values())) for each in (found, wanted)), rtol=1e-5, atol=1e-6
    )
