"""The processes of the fuzz tests notice what they look for, and go on after it."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz import workers
from fuzz.progress import Progress
from fuzz.readers import Mutant, Reader
from fuzz.workers import Batch, run_batches

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="forks, and limits memory"
)


def busy() -> None:
    while True:
        pass


def fail() -> None:
    raise ValueError("foreign")


FAULTS: dict[int, tuple[Callable[[], object], str]] = {
    3: (fail, "ValueError: foreign"),
    5: (os.abort, "killed by SIGABRT"),
    8: (busy, "of processor time"),
    9: (lambda: bytearray(2 * workers.BYTES), "MemoryError"),
    12: (lambda: os._exit(7), "exit code 7"),
}


def reader() -> Reader:
    """A reader of numbers, some of which it does not survive."""

    def attempt(path: Path, folder: Path, choose: random.Random) -> str:
        number = int(path.read_bytes())
        if number in FAULTS:
            FAULTS[number][0]()
        return "read"

    numbers = iter(range(100))
    return Reader(
        "numbers",
        1,
        lambda: [Mutant("txt", b"0")],
        lambda data, good, choose: b"%d" % next(numbers),
        attempt,
    )


def run(folder: Path, first: int, end: int) -> list[Batch]:
    ranges = iter([(first, end)])
    return list(run_batches(ranges, [reader()], folder, processes=1))


def test_faults_are_found_and_the_others_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "SECONDS", 0.3)
    batches = run(tmp_path, 0, 4)
    assert [(b.first, b.end) for b in batches] == [(0, 4)]
    assert batches[0].outcomes == {"numbers read": 3, "numbers finding": 1}
    [found] = batches[0].findings
    assert (found.number, found.reader) == (3, "numbers")
    assert FAULTS[3][1] in found.what
    assert found.file is not None
    assert found.file.read_bytes() == b"3"


@pytest.mark.parametrize("number", [n for n in FAULTS if n != 3])
def test_a_process_that_ends_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(workers, "SECONDS", 0.3)
    monkeypatch.setitem(FAULTS, 0, (FAULTS[number][0], ""))
    batches = run(tmp_path, 0, 2)
    found = [finding for batch in batches for finding in batch.findings]
    assert FAULTS[number][1] in found[0].what
    assert found[0].file is not None
    assert batches[-1].end == 2


def test_a_run_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    file = tmp_path / "progress.jsonl"
    first = Progress(file)
    for start, end in ((0, 10), (20, 25)):
        [batch] = run(tmp_path, start, start + 1)
        first.add(batch._replace(end=end))
    second = Progress(file)
    assert second.outcomes == first.outcomes
    assert list(second.missing(0, 30)) == [(10, 20), (25, 30)]
    assert "numbers" in second.table()
    assert list(Progress().missing(5, 5001)) == [(5, 5005), (5005, 5006)]
