"""Broken files of every form through all stages of a user's way, in child processes.

AMANDA_FUZZ_MUTATIONS is the number of mutations, AMANDA_FUZZ_FIRST the first of them;
each is determined by its number.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("amanda_onnx")
pytest.importorskip("amanda_std")

from fuzz.seeds import mutate, prepare_seeds
from fuzz.stages import try_stages
from fuzz.workers import run_mutations

MUTATIONS = int(os.environ.get("AMANDA_FUZZ_MUTATIONS", "2000"))
FIRST = int(os.environ.get("AMANDA_FUZZ_FIRST", "0"))


@pytest.mark.fuzz
@pytest.mark.skipif(sys.platform != "linux", reason="forks, and limits memory")
def test_every_stage_answers_or_raises_an_amanda_error(tmp_path: Path) -> None:
    """No foreign exception, no death, no time or memory beyond the limits, and nothing
    written that cannot be read."""
    prepare_seeds()
    for number in range(20):  # so that children find everything imported
        mutant = mutate(random.Random(number))
        path = tmp_path / f"warm.{mutant.suffix}"
        path.write_bytes(mutant.data)
        try_stages(path, tmp_path, random.Random(number))
    keep = Path(os.environ.get("AMANDA_FUZZ_KEEP", str(tmp_path / "found")))
    found = list(run_mutations(FIRST, MUTATIONS, mutate, try_stages, keep))
    shown = [f"{one.number} {one.file}: {one.what[-1500:]}" for one in found[:5]]
    assert not found, f"{len(found)} of {MUTATIONS}:\n" + "\n".join(shown)
