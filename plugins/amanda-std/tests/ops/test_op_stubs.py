"""The type stub of the ops matches their definitions."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[4] / "tools" / "op_stubs.py"


@pytest.mark.skipif(not TOOL.is_file(), reason="only the repository has the tool")
def test_the_stub_names_every_op():
    tool = runpy.run_path(str(TOOL))
    written = tool["STUB"].read_text(encoding="utf-8")
    assert written == tool["stub"](), "run tools/op_stubs.py"


def test_no_package_hides_an_op():
    from pkgutil import iter_modules

    from amanda_std import ops

    assert not {info.name for info in iter_modules(ops.__path__)} & set(ops.OPS)
