"""The op table of the documentation matches the definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from amanda.types import parse_type
from amanda_std import ops, trace
from amanda_std.hub.op_table import render_op_table

PAGE = Path(__file__).resolve().parents[4] / "docs" / "std.md"
MARK = "<!-- made by amanda_std.hub.op_table -->\n"


@pytest.mark.skipif(not PAGE.is_file(), reason="only the repository has the page")
def test_the_page_lists_the_ops():
    _, mark, listed = PAGE.read_text(encoding="utf-8").partition(MARK)
    assert mark
    assert listed.strip() == render_op_table().strip(), f"write {PAGE} again"


def test_one_axis_is_a_tuple_in_graphs():
    """Mappings expect a list of axes, as ONNX does."""
    graph = trace(
        lambda x: ops.sum(ops.squeeze(x, 0), 1), [parse_type("float32[1,2,3]")]
    )
    assert [op.attrs["axes"] for op in graph] == [(0,), (1,)]
