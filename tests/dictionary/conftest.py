"""The dictionaries of this repository, whether they are installed or not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amanda.dictionary import Dictionary, DictionaryFolder, DictionaryHistory

PACKAGE = Path(__file__).parents[2] / "namespaces" / "src" / "amanda_namespaces"


@pytest.fixture(scope="session")
def shelf() -> DictionaryFolder:
    return DictionaryFolder(PACKAGE, "amanda-namespaces")


@pytest.fixture(scope="session")
def onnx(shelf: DictionaryFolder) -> DictionaryHistory:
    return shelf["amanda/onnx"]


@pytest.fixture(scope="session")
def tensorflow(shelf: DictionaryFolder) -> DictionaryHistory:
    return shelf["amanda/tensorflow"]


@pytest.fixture(scope="session")
def tf1(tensorflow: DictionaryHistory) -> Dictionary:
    """The version that the published example is of."""
    return tensorflow.at("1.13.1")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of AMANDA_TEST_DATA."""
    root = os.environ.get("AMANDA_TEST_DATA")
    if root is None or not Path(root).is_dir():
        pytest.skip("needs AMANDA_TEST_DATA, the folder of test data")
    return Path(root)
