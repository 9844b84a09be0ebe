"""Times of a model on several backends, measured side by side.

Rounds are interleaved: each calls every backend once, so that what else the machine
does in the meantime meets all of them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import amanda
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda_inspect.windows import Backend

__all__ = ["Measurement", "peak_memory", "time_backends"]

WARM_UP: Final = 3
_MIB: Final = 1 << 20


@dataclass
class Measurement:
    """Times of one backend, in seconds."""

    backend: Backend
    compiling: float = 0.0
    first: float = 0.0
    """The first call, in which some backends compile for the shapes of the feeds."""
    calls: list[float] = field(default_factory=list)
    memory: int | None = None
    """Bytes by which the peak of a process grows that loads, compiles and calls."""

    @property
    def median(self) -> float:
        """The median of the calls after the warm-up."""
        return statistics.median(self.calls)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper quartile of the calls."""
        if len(self.calls) < 2:
            return self.calls[0], self.calls[0]
        low, _, high = statistics.quantiles(self.calls, n=4, method="inclusive")
        return low, high

    @property
    def throughput(self) -> float:
        """Calls in a second."""
        return 1 / self.median if self.median else 0.0


def time_backends(
    graph: Graph,
    feeds: Mapping[Any, Any],
    backends: Sequence[Backend],
    *,
    rounds: int = 30,
    warm_up: int = WARM_UP,
    seconds: float = 10.0,
) -> list[Measurement]:
    """Compile a graph on each backend and call it in interleaved rounds.

    Stops after `rounds`, or `seconds` for each backend, but not before three rounds.
    """
    if rounds < 1:
        raise UsageError(
            "a measurement has at least one round", where="rounds", got=rounds
        )
    found, compiled = [], []
    for backend in backends:
        start = time.perf_counter()
        made = amanda.compile(
            graph, backend.name, keep_executable=False, **backend.options
        )
        middle = time.perf_counter()
        made(feeds)
        end = time.perf_counter()
        compiled.append(made)
        found.append(Measurement(backend, middle - start, end - middle))
    limit = time.perf_counter() + seconds * len(backends)
    for number in range(rounds + warm_up):
        for each, call in zip(found, compiled, strict=True):
            start = time.perf_counter()
            call(feeds)
            if number >= warm_up:
                each.calls.append(time.perf_counter() - start)
        if time.perf_counter() > limit and number >= warm_up + 2:
            break
    return found


CHILD: Final = """
import json, sys

def peak():
    try:
        with open("/proc/self/status") as file:  # of this program alone
            (line,) = [line for line in file if line.startswith("VmHWM")]
        return int(line.split()[1]) * 1024
    except OSError:
        import resource

        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale

import numpy as np
import amanda

file, form, load_options, feeds, backend, options = json.loads(sys.argv[1])
arrays = dict(np.load(feeds))
before = peak()
graph = amanda.load(file, format=form, **load_options)
compiled = amanda.compile(graph, backend, **options)
for _ in range(2):
    compiled(arrays)
print(peak() - before)
"""


def peak_memory(
    file: str,
    form: str | None,
    load_options: Mapping[str, str],
    feeds: Mapping[str, Any],
    backend: Backend,
) -> int | None:
    """Bytes by which a process grows at its peak that loads, compiles and calls.

    None where the process does not succeed, or the system does not tell.
    """
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "feeds.npz"
        np.savez(path, **feeds)
        job = [
            file, form, dict(load_options), str(path), backend.name,
            dict(backend.options),
        ]  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", CHILD, json.dumps(job)],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
    lines = done.stdout.split()
    return int(lines[-1]) if done.returncode == 0 and lines else None


def mebibytes(size: int | None) -> str:
    """A size for a table."""
    return "" if size is None else f"{size / _MIB:.0f}"
