"""Makes `native_libraries` importable, and compiles the reference backend."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from native_libraries import COMPILER, reference_library


@pytest.fixture(scope="session")
def reference() -> Path:
    """The reference backend as a library."""
    if COMPILER is None:
        pytest.skip("there is no C compiler: neither CC nor cc is found")
    return reference_library()
