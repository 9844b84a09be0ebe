"""The README's table of dictionaries matches the data files."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from amanda.dictionary import DictionaryFolder

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "dictionary_table.py"))


def test_the_readme_has_the_table_of_the_index(shelf: DictionaryFolder) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    made = TOOL["replace_table"](text, TOOL["table"](shelf.index))
    assert made == text, "run tools/dictionary_table.py"


def test_every_dictionary_has_a_row_with_its_numbers(shelf: DictionaryFolder) -> None:
    rows = TOOL["table"](shelf.index).splitlines()[2:]
    assert len(rows) == len(shelf)
    for path, row in zip(sorted(shelf), rows, strict=True):
        history = shelf[path]
        newest = history.at(history.versions()[-1])
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[0] == f"`{path.removeprefix('amanda/')}`"
        assert cells[2:4] == [f"{len(history.names):,}", f"{len(newest):,}"]
        assert cells[1].endswith(history.versions()[-1])
        assert cells[4]


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(SystemExit, match="lacks the marks"):
        TOOL["replace_table"]("# A page", "| a |")
