"""Mutations in child processes with limits of time and memory.

Children are forked from this process, with everything imported; each tries thousands of
mutations. Before each it writes the number of the mutation: where it dies, the mutation
is known, and another child goes on after it. Time is processor time, so that a loaded
machine raises no false alarm.
"""

from __future__ import annotations

import gc
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from fuzz.helper_processes import helper_seconds, largest_helper, reset_helpers
from fuzz.readers import Mutant, Reader, make_mutant

__all__ = ["BATCH", "BYTES", "SECONDS", "Batch", "Finding", "run_batches"]

SECONDS = 5
"""Most processor time of one mutation, with all stages."""
BYTES = 1_000_000_000
"""Most memory that a mutation adds."""
BATCH = 5000
_BLOCKED = 600
"""Seconds of real time after which a mutation counts as blocked."""
_MEMORY_FILES = Path("/dev/shm")


class Finding(NamedTuple):
    """A mutation that breaks a promise: its number, what happened, and the file."""

    number: int
    reader: str
    what: str
    file: Path | None


class Batch(NamedTuple):
    """A range of mutations that were tried, with the number of each outcome."""

    first: int
    end: int
    outcomes: Counter[str]
    """By `reader outcome`."""
    findings: tuple[Finding, ...]


class _Child:
    """A process that works through a range."""

    def __init__(self, first: int, end: int, work: Callable[..., None]) -> None:
        self.first, self.end = first, end
        where = _MEMORY_FILES if _MEMORY_FILES.is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="amanda-fuzz-", dir=where))
        self.process = os.fork()
        if self.process == 0:
            try:
                work(first, end, self.folder)
                os._exit(0)
            except BaseException:  # noqa: BLE001  the parent reports it
                traceback.print_exc()
            finally:
                os._exit(99)

    def result(self, status: int, keep: Path) -> Batch:
        """What it did; a death is the outcome of the mutation that it was at."""
        outcomes: Counter[str] = Counter()
        findings = []
        last, end = "", self.first
        log = self.folder / "log"
        for line in log.read_text().splitlines() if log.exists() else ():
            number, reader, *outcome = line.split(" ")
            last, end = reader, int(number) + 1
            if outcome:
                outcomes[f"{reader} {outcome[0]}"] += 1
                last = ""
            if outcome == ["finding"]:
                what = (self.folder / f"bad{number}").read_text(errors="replace")
                findings.append(
                    _keep(int(number), reader, what, self.folder, keep, f"bad{number}.")
                )
        if status:
            what = _describe_death(status)
            end = max(end, self.first + 1)
            outcomes[f"{last or '?'} finding"] += 1
            findings.append(
                _keep(end - 1, last or "?", what, self.folder, keep, "input.")
            )
        shutil.rmtree(self.folder)
        return Batch(self.first, end, outcomes, tuple(findings))


def run_batches(
    ranges: Iterator[tuple[int, int]],
    readers: Sequence[Reader],
    keep: Path,
    *,
    processes: int,
    stop_at: float = float("inf"),
) -> Iterator[Batch]:
    """Try the mutations of ranges of numbers; files that break a promise are kept.

    `stop_at` is the time, as `time.monotonic` counts, after which no batch begins.
    """

    def work(first: int, end: int, folder: Path) -> None:
        _work(first, end, readers, folder)

    for reader in readers:
        reader.close()
    gc.collect()
    gc.freeze()  # collections in children would copy all memory
    running: dict[int, _Child] = {}
    try:
        while True:
            while len(running) < processes and time.monotonic() < stop_at:
                part = next(ranges, None)
                if part is None:
                    break
                child = _Child(*part, work)
                running[child.process] = child
            if not running:
                return
            process, status = os.wait()
            child = running.pop(process)
            batch = child.result(status, keep)
            if batch.end < child.end:
                rest = _Child(batch.end, child.end, work)
                running[rest.process] = rest
            yield batch
    finally:
        for process in running:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            shutil.rmtree(running[process].folder, ignore_errors=True)
        gc.unfreeze()


def _work(first: int, end: int, readers: Sequence[Reader], folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tempfile.tempdir = str(folder)
    os.chdir(folder)
    seen: set[bytes] = set()
    with (folder / "log").open("wb", buffering=0) as log:
        for number in range(first, end):
            choose = random.Random(number)
            reader, mutant = make_mutant(readers, choose)
            log.write(f"{number} {reader.name}".encode())
            outcome = "repeated"
            digest = blake2b(mutant.data, digest_size=8, key=reader.name.encode())
            if digest.digest() not in seen:
                seen.add(digest.digest())
                outcome = _try_one(number, reader, mutant, choose, folder)
            log.write(f" {outcome}\n".encode())


def _try_one(
    number: int, reader: Reader, mutant: Mutant, choose: random.Random, folder: Path
) -> str:
    """The outcome of a mutation, within the limits."""
    path = folder / f"input.{mutant.suffix}"
    path.write_bytes(mutant.data)
    _limit_memory()
    reset_helpers()
    before = helper_seconds()
    signal.alarm(_BLOCKED)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        outcome = reader.attempt(path, folder, choose)
        helped, size = helper_seconds() - before, largest_helper()
        assert helped < SECONDS, f"{helped:.1f} s in a process that it started"
        assert size < BYTES, f"{size:,} bytes in a process that it started"
        return outcome
    except BaseException:  # noqa: BLE001  any exception is a finding
        signal.setitimer(signal.ITIMER_PROF, 0)
        text = traceback.format_exc()
        (folder / f"bad{number}").write_text(text, errors="replace")
        (folder / f"bad{number}.{mutant.suffix}").write_bytes(mutant.data)
        return "finding"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        path.unlink(missing_ok=True)


def _limit_memory() -> None:
    with open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, hard))


def _keep(
    number: int, reader: str, what: str, folder: Path, keep: Path, prefix: str
) -> Finding:
    keep.mkdir(parents=True, exist_ok=True)
    (keep / f"{number}.txt").write_text(f"{reader}: {what}\n")
    for path in folder.glob(f"{prefix}*"):
        target = keep / f"{number}{path.suffix}"
        target.write_bytes(path.read_bytes())
        return Finding(number, reader, what, target)
    return Finding(number, reader, what, None)


def _describe_death(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"exit code {os.WEXITSTATUS(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGPROF:
        return f"more than {SECONDS} s of processor time"
    if number == signal.SIGALRM:
        return f"blocked for {_BLOCKED} s"
    return f"killed by {signal.Signals(number).name}"
