"""A process that runs models which may crash or never end: `python -m` this module.

It answers with `ready` and its number when it has imported what it needs. Then it reads
a line with a folder, runs the model there with its feeds, and answers with one line:
how it fails, as JSON. Its own output goes to standard error.

Where that is safe, because nothing has started threads, it runs models in a child,
which has all imports. If a model ends the child, it answers with `ended` and the exit
code, and goes on with another child.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np

import amanda
from amanda_inspect.reduction.failures import Failure
from amanda_inspect.reduction.running import ConversionTest, RunTest
from amanda_inspect.windows import Backend

__all__ = [
    "ENDED",
    "FEEDS",
    "MODEL",
    "READY",
    "Spec",
    "failure_data",
    "failure_of_data",
]

MODEL: Final = "model.amanda"
FEEDS: Final = "feeds.amanda"
READY: Final = "ready"
ENDED: Final = "ended"
Spec = dict[str, Any]
"""A test as JSON: `target` of a conversion, or `backend` and `reference`, each with a
name and options; and `preload`, Python files that are run first."""


def failure_data(found: Failure | None) -> dict[str, Any] | None:
    """A failure as JSON."""
    if found is None:
        return None
    parts = sorted(found.parts)
    return {"kind": found.kind, "what": found.what, "text": found.text,
            "parts": parts, "result": found.result}  # fmt: skip


def failure_of_data(data: dict[str, Any] | None) -> Failure | None:
    """A failure of JSON."""
    if data is None:
        return None
    return Failure(**{**data, "parts": frozenset(data["parts"])})


def test_of_spec(spec: Spec) -> RunTest | ConversionTest:
    """The test that JSON describes."""
    if spec.get("target"):
        return ConversionTest(spec["target"])
    backend, reference = (
        None if spec[key] is None else Backend(*spec[key])
        for key in ("backend", "reference")
    )
    assert backend is not None
    return RunTest(backend, reference)


def main() -> None:
    """Answer each line of standard input."""
    threads = _count_threads()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what frameworks print is no answer
    spec = json.loads(sys.argv[1])
    for file in spec["preload"]:
        runpy.run_path(file)
    test = test_of_spec(spec)
    _warm_up(test)
    if threads and _has_threads(threads):
        _run_in_children(test, answers)
    else:
        _answer_lines(test, answers)


def _count_threads() -> int:
    """The threads of this process, those of libraries too; 0 where it is not known.

    Those of numpy have started, and end before a process is copied."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else 0


def _has_threads(count: int) -> bool:
    """Whether this process has so many threads, after half a second at most: one that
    was joined is counted until the system has ended it."""
    for _ in range(50):
        if _count_threads() == count:
            return True
        time.sleep(0.01)
    return False


def _run_in_children(test: RunTest | ConversionTest, answers: TextIO) -> None:
    """Let a copy of this process answer, and another one when that has ended."""
    supervisor = os.getpid()
    while True:
        child = os.fork()
        if not child:
            try:
                _answer_lines(test, answers)
                if os.getppid() == supervisor:  # there is no more input
                    os.kill(supervisor, signal.SIGTERM)
            finally:
                os._exit(1)  # an exception of this module
        _, status = os.waitpid(child, 0)
        _answer(answers, f"{ENDED} {os.waitstatus_to_exitcode(status)}")


def _answer_lines(test: RunTest | ConversionTest, answers: TextIO) -> None:
    _answer(answers, f"{READY} {os.getpid()}")
    for line in sys.stdin:
        folder = Path(line.rstrip("\n"))
        graph = amanda.load(folder / MODEL)
        feeds = {str(op.name): op.attrs["value"].numpy()
                 for op in amanda.load(folder / FEEDS)}  # fmt: skip
        _answer(answers, json.dumps(failure_data(test(graph, feeds))))


def _answer(stream: TextIO, text: str) -> None:
    stream.write(text + "\n")
    stream.flush()


def _warm_up(test: RunTest | ConversionTest) -> None:
    """Import what a backend needs, which is not to count as time of a model."""
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter("float32[1]", "x")
    graph.result(x, "y")
    with suppress(Exception):
        test(graph, {"x": np.zeros(1, "float32")})


if __name__ == "__main__":
    main()
