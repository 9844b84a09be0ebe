"""Overhead of a call of a native library, compared with the backend `numpy`.

    python benchmarks/native/call_overhead.py [ROUNDS]

A graph of one op, `exp` of four numbers, runs on the reference backend of
amanda-native, compiled here with `cc -O2`, and on numpy; blocks of calls alternate, so
that other load on the machine affects both equally. Shown are the median of the ratios,
and the best times: of the call, of the executable without the core around it, and of
the library's `run` alone. Exits with 1 if the call takes more than `LIMIT` times as
long as numpy's.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import amanda
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_native import REFERENCE_SOURCE

LIMIT = 1.5
ROUNDS = 60
CALLS = 1000


def one_op() -> Graph:
    graph = Graph("amanda/std/1")
    x = graph.parameter(parse_type("float32[4]"), "x")
    graph.result(graph.add("exp", [x]).output, "y")
    return graph


def microseconds(call: Callable[[], object]) -> float:
    """The time of a call, over a block of calls."""
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - begin) / CALLS * 1e6


def library_call(executable: Any, feed: Any) -> Callable[[], object]:
    """The call of the library's `run`, with structs that are filled already."""
    (frames,) = executable._frames.values()
    frames[0].fill([feed], {})
    return partial(frames[0].run, executable._address)


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    feed = np.zeros(4, "float32")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libreference.so"
        flags = ["-std=c99", "-O2", "-fPIC", "-shared", "-o", str(library)]
        subprocess.run(["cc", *flags, str(REFERENCE_SOURCE), "-lm"], check=True)
        native = amanda.compile(one_op(), backend=f"native:{library}")
        numpy = amanda.compile(one_op(), backend="numpy")
        native([feed]), numpy([feed])
        calls: dict[str, Callable[[], object]] = {
            "numpy": partial(numpy, [feed]),
            "native": partial(native, [feed]),
            "  without the core": partial(native.executable.call_again, [feed]),  # type: ignore[attr-defined]
            "  the library alone": library_call(native.executable, feed),
        }
        blocks = [
            {k: microseconds(call) for k, call in calls.items()} for _ in range(rounds)
        ]
    for name in calls:
        ratio = statistics.median(block[name] / block["numpy"] for block in blocks)
        best = min(block[name] for block in blocks)
        print(f"{name:20} {best:7.2f} us  {ratio:5.2f}x")
    ratio = statistics.median(block["native"] / block["numpy"] for block in blocks)
    print(f"native to numpy: {ratio:.2f}x, limit {LIMIT:g}x")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
