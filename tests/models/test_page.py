"""docs/models.md lists every model, and its figures meet the requirements."""

from __future__ import annotations

from pathlib import Path

import pytest
from models.architectures import ARCHITECTURES
from models.checking import BACKENDS, TOLERANCE
from models.page import HEAD, parse_page
from models.published import GAPS, INPUTS

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.fixture(scope="module")
def rows():
    return parse_page(PAGE.read_text(encoding="utf-8"))


def test_page_has_every_model(rows):
    assert PAGE.read_text(encoding="utf-8").startswith(HEAD)
    assert set(rows) == {*ARCHITECTURES, *INPUTS}


def test_gaps_are_the_known_ones(rows):
    listed = {name: row["back"] for name, row in rows.items() if "gap" in row["back"]}
    known = {
        name: "gap: "
        + ", ".join(f"{number} {op}" for op, number in sorted(ops.items()))
        for name, ops in GAPS.items()
    }
    assert listed == known


def test_every_difference_is_within_tolerance(rows):
    for name, row in rows.items():
        bound = TOLERANCE * max(1.0, float(row["largest"]))
        for column in (*BACKENDS, "back"):
            if name not in GAPS:
                assert float(row[column]) <= bound, (name, column)
        before, _, after = row["nodes"].partition(" to ")
        assert int(after or before) <= int(before), name
