"""The backend over oneDNN, compiled for the tests once in a process."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest
from native_libraries import build_folder

sys.path.insert(0, str(Path(__file__).parent.parent / "onednn"))

from build_onednn import build, missing

MISSING = missing()

needs_onednn = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@cache
def onednn_library(*flags: str) -> Path:
    """The backend as a library, compiled with flags."""
    folder = Path(build_folder().name) / "-".join(["onednn", *flags])
    folder.mkdir()
    build(folder / "libonednn.so", *flags)
    return folder / "libonednn.so"
