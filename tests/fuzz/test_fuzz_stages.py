"""Broken files of every reader through all stages of a user's way, in child processes.

Each mutation is determined by its number. Settings in the environment:

    AMANDA_FUZZ_MUTATIONS   the number of mutations
    AMANDA_FUZZ_FIRST       the number of the first one
    AMANDA_FUZZ_PROCESSES   how many at once; default: one for each processor
    AMANDA_FUZZ_READERS     only these, separated by commas
    AMANDA_FUZZ_SECONDS     after which no more are begun
    AMANDA_FUZZ_PROGRESS    a file of what was tried; the next run goes on there
    AMANDA_FUZZ_KEEP        a folder for files that break a promise
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import pytest
from fuzz.progress import Progress
from fuzz.readers import installed_readers
from fuzz.workers import run_batches

MUTATIONS = int(os.environ.get("AMANDA_FUZZ_MUTATIONS", "500"))
FIRST = int(os.environ.get("AMANDA_FUZZ_FIRST", "0"))
PROCESSES = int(
    os.environ.get("AMANDA_FUZZ_PROCESSES") or len(os.sched_getaffinity(0))
    if hasattr(os, "sched_getaffinity")
    else 1
)
READERS = os.environ.get("AMANDA_FUZZ_READERS", "")
SECONDS = float(os.environ.get("AMANDA_FUZZ_SECONDS") or "inf")
PROGRESS = os.environ.get("AMANDA_FUZZ_PROGRESS")
KEEP = os.environ.get("AMANDA_FUZZ_KEEP")
WARM = min(100, max(MUTATIONS // 20, 4))
"""How many files of each reader are read before the first mutation."""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="forks, and limits memory"
)


@pytest.mark.fuzz
def test_every_stage_answers_or_raises_an_amanda_error(tmp_path: Path) -> None:
    """No foreign exception, no death, no time or memory beyond the limits, and nothing
    written that cannot be read."""
    start = time.monotonic()
    readers = installed_readers(READERS)
    if not readers:
        pytest.skip("no reader of graphs is installed")
    for reader in readers:
        reader.seeds()  # before a process starts threads
    for reader in readers:  # so that children find everything imported
        for number, seed in enumerate(reader.seeds()[: WARM if reader.warm else 0]):
            path = tmp_path / f"good.{seed.suffix}"
            path.write_bytes(seed.data)
            reader.attempt(path, tmp_path, random.Random(number))
    progress = Progress(Path(PROGRESS) if PROGRESS else None)
    findings = []
    for batch in run_batches(
        progress.missing(FIRST, MUTATIONS),
        readers,
        Path(KEEP) if KEEP else tmp_path / "found",
        processes=PROCESSES,
        stop_at=start + SECONDS,
    ):
        progress.add(batch)
        findings += batch.findings
    print(f"\n{progress.table()}")
    shown = [f"{f.number} {f.reader} {f.file}: {f.what[-1500:]}" for f in findings[:5]]
    assert not findings, f"{len(findings)} of {MUTATIONS}:\n" + "\n".join(shown)
