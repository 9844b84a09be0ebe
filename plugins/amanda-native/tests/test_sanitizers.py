"""The reference backend under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from json_mutants import good_texts, mutants
from library_checks import LIMIT, ROUNDS, run_driver, skip_without_sanitizers
from native_libraries import (
    COMPILER,
    SANITIZED,
    SANITIZERS,
    SOURCES,
    build_folder,
    needs_compiler,
    run_compiler,
)

from amanda_native import GRAPH_SCHEMA, REFERENCE_SOURCE

pytestmark = needs_compiler


@pytest.fixture(scope="session")
def driver() -> Path:
    """The driver with the backend in it, both with sanitizers."""
    target = Path(build_folder().name) / "driver"
    sources = [str(SOURCES / "mutant_driver.c"), str(REFERENCE_SOURCE)]
    skip_without_sanitizers()
    run_compiler("-O1", *SANITIZERS, LIMIT, "-o", str(target), *sources)
    return target


def test_the_graphs_run(driver: Path) -> None:
    schema = json.loads(GRAPH_SCHEMA.read_text("utf-8"))
    for text in good_texts():
        jsonschema.validate(json.loads(text), schema)
    count = len(good_texts())
    assert count > 30
    assert run_driver(driver, good_texts()) == [count] * 3


@pytest.mark.fuzz
def test_mutated_graphs_break_nothing(driver: Path) -> None:
    tried, compiled, ran = run_driver(driver, mutants(ROUNDS))
    assert tried == ROUNDS
    assert ROUNDS // 20 < ran <= compiled < tried  # neither all good nor all bad


def test_a_fault_would_be_found(tmp_path: Path) -> None:
    """The sanitizers see a read behind the end of a tensor in such a build."""
    source = REFERENCE_SOURCE.read_text("utf-8")
    wrong = source.replace("if (at < 0) at += size;", "at += 4096;", 1)
    wrong = wrong.replace("if (at < 0 || at >= size) return", "if (at < 0) return", 1)
    (tmp_path / "wrong.c").write_text(wrong)
    target = tmp_path / "wrong"
    sources = [str(SOURCES / "mutant_driver.c"), str(tmp_path / "wrong.c")]
    run_compiler("-O0", *SANITIZERS, LIMIT, "-o", str(target), *sources)
    with pytest.raises(AssertionError, match="AddressSanitizer"):
        run_driver(target, good_texts())


@pytest.mark.scale
def test_the_suite_runs_with_sanitizers(driver: Path) -> None:
    """The inherited suite, in a Python that has the runtime of the sanitizers."""
    del driver  # there are sanitizers
    find = [str(COMPILER), "-print-file-name=libasan.so"]
    runtime = subprocess.run(find, capture_output=True, text=True, check=True).stdout
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python frees little at its end
        SANITIZED: "1",
    }
    suite = f"{Path(__file__).with_name('test_plugin.py')}::TestReference"
    command = [sys.executable, "-m", "pytest", "-q", suite, "-k", "computes or threads"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    count = re.search(r"TestReference: (\d+) checks ran", done.stdout)
    assert count is not None
    assert int(count[1]) > 300
