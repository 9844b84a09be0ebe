"""Mutations in child processes with limits of time and memory.

A child is forked from this process, with everything imported, and tries many mutations.
Before each it writes the number of the mutation; so where it dies, the mutation is
known, and another child goes on after it.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import struct
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

__all__ = ["Finding", "SECONDS", "BYTES", "run_mutations"]

SECONDS = 5
"""Most seconds of one mutation, with all stages."""
BYTES = 1_000_000_000
"""Most memory that a mutation adds."""
_BATCH = 2000
_HEAD = struct.Struct("<q")

Attempt = Callable[[Path, Path, random.Random], None]


class Finding(NamedTuple):
    """A mutation that breaks a promise: its number, what happened, and the file."""

    number: int
    what: str
    file: Path | None


def run_mutations(
    first: int,
    count: int,
    make: Callable[[random.Random], tuple[str, bytes]],
    attempt: Attempt,
    keep: Path,
) -> Iterator[Finding]:
    """Try mutations by number; yields what breaks a promise. Files go to `keep`."""
    at, end = first, first + count
    while at < end:
        last, findings = _run_child(at, min(at + _BATCH, end), make, attempt, keep)
        yield from findings
        at = last + 1


def _run_child(
    first: int,
    end: int,
    make: Callable[[random.Random], tuple[str, bytes]],
    attempt: Attempt,
    keep: Path,
) -> tuple[int, list[Finding]]:
    """The number of the last mutation of a child, and its findings."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log"
        child = os.fork()
        if child == 0:
            try:
                _limit_memory()
                _work(first, end, make, attempt, folder, log)
                os._exit(0)
            finally:
                os._exit(99)
        _, status = os.waitpid(child, 0)
        last, findings = _read_log(log, keep)
        if status != 0:
            how = _describe_death(status)
            findings.append(_keep(last, how, folder, keep))
        return max(last, first), findings


def _limit_memory() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _work(
    first: int,
    end: int,
    make: Callable[[random.Random], tuple[str, bytes]],
    attempt: Attempt,
    folder: Path,
    log: Path,
) -> None:
    with log.open("wb", buffering=0) as out:
        for number in range(first, end):
            choose = random.Random(number)
            suffix, data = make(choose)
            path = folder / f"input.{suffix}"
            for old in folder.glob("input.*"):
                old.unlink()
            path.write_bytes(data)
            out.write(_HEAD.pack(number) + _HEAD.pack(0))
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            try:
                attempt(path, folder, choose)
            except BaseException:  # noqa: BLE001  any exception is a finding
                signal.setitimer(signal.ITIMER_REAL, 0)
                text = traceback.format_exc().encode("utf-8", "replace")
                copy = folder / f"bad{number}.{suffix}"
                copy.write_bytes(data)
                out.write(_HEAD.pack(number) + _HEAD.pack(len(text)) + text)
            signal.setitimer(signal.ITIMER_REAL, 0)


def _read_log(log: Path, keep: Path) -> tuple[int, list[Finding]]:
    data = log.read_bytes() if log.exists() else b""
    at, last, findings = 0, -1, []
    while at + 16 <= len(data):
        last, size = _HEAD.unpack_from(data, at)[0], _HEAD.unpack_from(data, at + 8)[0]
        text = data[at + 16 : at + 16 + size].decode("utf-8", "replace")
        at += 16 + size
        if size:
            findings.append(_keep(last, text, log.parent, keep, f"bad{last}.*"))
    return last, findings


def _keep(
    number: int, what: str, folder: Path, keep: Path, pattern: str = "input.*"
) -> Finding:
    keep.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(pattern):
        target = keep / f"{number}{path.suffix}"
        target.write_bytes(path.read_bytes())
        return Finding(number, what, target)
    return Finding(number, what, None)


def _describe_death(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGALRM:
            return f"more than {SECONDS} s"
        return f"killed by {signal.Signals(number).name}"
    return f"exit code {os.WEXITSTATUS(status)}"
