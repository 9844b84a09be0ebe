"""The backend over oneDNN under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from pathlib import Path

import pytest
from json_mutants import good_texts, mutants
from native_libraries import SANITIZERS, SOURCES, build_folder, run_compiler
from onednn_library import needs_onednn, onednn_library
from test_sanitizers import LIMIT, ROUNDS, run_driver

pytestmark = needs_onednn
FLAGS = (*SANITIZERS, LIMIT, "-DLARGE_FROM=1")


@pytest.fixture(scope="module")
def driver() -> Path:
    """The driver of mutants with the library, both with sanitizers."""
    target = Path(build_folder().name) / "onednn_driver"
    probe = Path(build_folder().name) / "onednn_probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    try:
        run_compiler(*SANITIZERS, "-o", str(target), str(probe))
    except AssertionError as error:
        pytest.skip(f"the compiler has no sanitizers: {str(error)[:200]}")
    library = onednn_library(*FLAGS)
    source = str(SOURCES / "mutant_driver.c")
    run_compiler("-O1", *SANITIZERS, "-o", str(target), source, str(library))
    return target


def test_the_graphs_run(driver: Path) -> None:
    count = len(good_texts())
    assert run_driver(driver, good_texts()) == [count] * 3


@pytest.mark.fuzz
def test_mutated_graphs_break_nothing(driver: Path) -> None:
    tried, compiled, ran = run_driver(driver, mutants(ROUNDS))
    assert tried == ROUNDS
    assert ROUNDS // 20 < ran <= compiled < tried  # neither all good nor all bad
