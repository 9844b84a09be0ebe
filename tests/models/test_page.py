"""docs/models.md has every model, and what is asked of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from models.architectures import ARCHITECTURES
from models.judging import BACKENDS, CLOSE
from models.page import HEAD, read
from models.published import GAPS, INPUTS

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.fixture(scope="module")
def rows():
    return read(PAGE.read_text(encoding="utf-8"))


def test_it_has_every_model(rows):
    assert PAGE.read_text(encoding="utf-8").startswith(HEAD)
    assert set(rows) == {*ARCHITECTURES, *INPUTS}


def test_gaps_are_those_that_are_known(rows):
    told = {name: row["back"] for name, row in rows.items() if "gap" in row["back"]}
    known = {
        name: "gap: "
        + ", ".join(f"{number} {op}" for op, number in sorted(ops.items()))
        for name, ops in GAPS.items()
    }
    assert told == known


def test_every_number_is_small_enough(rows):
    for name, row in rows.items():
        bound = CLOSE * max(1.0, float(row["largest"]))
        for way in (*BACKENDS, "back"):
            if name not in GAPS:
                assert float(row[way]) <= bound, (name, way)
        before, _, after = row["nodes"].partition(" to ")
        assert int(after or before) <= int(before), name
