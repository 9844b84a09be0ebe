"""What holds for every test: nothing of the caller's settings gets in."""

from __future__ import annotations

import os

import hypothesis
import pytest

# Settings that say how to test; all other AMANDA_* would change what is tested.
TEST_SETTINGS = ("AMANDA_FUZZ_", "AMANDA_TEST_")

# Machines differ in speed, and a failure must be found again from what it prints. Where
# others wait for the answer every run draws the same examples; elsewhere new ones.
hypothesis.settings.register_profile(
    "amanda",
    deadline=None,
    print_blob=True,
    derandomize="CI" in os.environ,
    database=None,
)
hypothesis.settings.load_profile("amanda")


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("AMANDA_") and not name.startswith(TEST_SETTINGS):
            monkeypatch.delenv(name)
    # wide enough that no message wraps, and never a colour
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
