"""The published files, where AMANDA_TEST_DATA has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from routes.nd4j.account import ND4J, settings

import amanda
from amanda_nd4j.mapping import ONNX, TENSORFLOW


@pytest.fixture(scope="session")
def data() -> Path:
    """Has the files; what the process keeps of them is read from there."""
    root = Path(os.environ.get("AMANDA_TEST_DATA", ""))
    if "AMANDA_TEST_DATA" not in os.environ or not (root / "dl4j").is_dir():
        pytest.skip("needs dl4j in AMANDA_TEST_DATA")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings(root).items():
            patch.setenv(name, value)
        amanda.namespace(ND4J)
        assert TENSORFLOW.translation.rows
        assert ONNX.translation.rows
    return root


@pytest.fixture(scope="session")
def frozen_data(data: Path) -> Path:
    if not (data / "tf_graphs" / "tf_graphs_dev.tar.gz").is_file():
        pytest.skip("needs tf_graphs in AMANDA_TEST_DATA")
    return data
