"""A process that runs models which may crash or never end: `python -m` this module.

It reads a line with a folder, runs the model there with its feeds, and answers with one
line: how it fails, as JSON. Its own output goes to standard error.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

import amanda
from amanda_inspect.reduction.failures import Failure
from amanda_inspect.reduction.running import ConversionTest, RunTest
from amanda_inspect.windows import Backend

__all__ = ["FEEDS", "MODEL", "READY", "Spec", "failure_data", "failure_of_data"]

MODEL: Final = "model.amanda"
FEEDS: Final = "feeds.amanda"
READY: Final = "ready"
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
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what frameworks print is no answer
    spec = json.loads(sys.argv[1])
    for file in spec["preload"]:
        runpy.run_path(file)
    test = test_of_spec(spec)
    _warm_up(test)
    _answer(answers, READY)
    for line in sys.stdin:
        folder = Path(line.rstrip("\n"))
        graph = amanda.load(folder / MODEL)
        feeds = {str(op.name): op.attrs["value"].numpy()
                 for op in amanda.load(folder / FEEDS)}  # fmt: skip
        _answer(answers, json.dumps(failure_data(test(graph, feeds))))


def _answer(stream: Any, text: str) -> None:
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
