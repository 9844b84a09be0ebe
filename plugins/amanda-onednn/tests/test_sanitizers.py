"""The backend over oneDNN under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from pathlib import Path

import pytest
from json_mutants import good_texts, mutants
from library_checks import LIMIT, ROUNDS, run_driver, skip_without_sanitizers
from native_libraries import SANITIZERS, SOURCES, build_folder, run_compiler
from onednn_variants import compile_variant, needs_build

pytestmark = [
    needs_build,
    pytest.mark.xdist_group("sanitizers of oneDNN"),
    pytest.mark.scale,  # the library is compiled with sanitizers
]


@pytest.fixture(scope="module")
def driver() -> Path:
    """The driver of mutants with the library, both with sanitizers."""
    skip_without_sanitizers()
    flags = ("-O0", *SANITIZERS, "-g1", LIMIT, "-DPRIMITIVES_FROM=1")
    library = compile_variant("sanitized", *flags)
    target = Path(build_folder().name) / "onednn_driver"
    source = str(SOURCES / "mutant_driver.c")
    run_compiler("-O1", *SANITIZERS, "-o", str(target), source, str(library))
    return target


def test_the_graphs_run(driver: Path) -> None:
    count = len(good_texts())
    assert run_driver(driver, good_texts()) == [count] * 3


@pytest.mark.parametrize("rounds", [500, pytest.param(ROUNDS, marks=pytest.mark.fuzz)])
def test_mutated_graphs_break_nothing(driver: Path, rounds: int) -> None:
    tried, compiled, ran = run_driver(driver, mutants(rounds))
    assert tried == rounds
    assert rounds // 20 < ran <= compiled < tried  # neither all good nor all bad
