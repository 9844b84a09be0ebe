"""The pages of docs/coverage say what the installed mappings do."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "coverage"


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda p: p.stem)
def test_pages_are_up_to_date(page: Path) -> None:
    from amanda.cli import rule_mappings
    from amanda.cli.verbs import coverage

    found = {there.entry.name: there for there in rule_mappings.installed_mappings()}
    if page.stem not in found:
        pytest.skip(f"the mapping {page.stem} is not installed")
    there = found[page.stem]
    made = coverage.page_text(page.stem, coverage._both_directions(there))
    assert made == page.read_text(encoding="utf-8"), (
        "make it anew: amanda coverage --write docs/coverage"
    )


def test_there_are_pages() -> None:
    assert [page.stem for page in PAGES.glob("*.md")]
