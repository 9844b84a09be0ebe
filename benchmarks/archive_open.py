"""Opening `.amanda` files: 4 GB of weights compared with 4 MB, for the same graph.

    python benchmarks/archive_open.py [MEGABYTES] [ROUNDS]

Both files are streamed to a temporary folder and opened alternately in fresh processes;
each figure is the best of all rounds. Exits with 1 if a limit is missed: opening the
large file takes at most twice as long as the small one and under 100 MB of resident
memory, including Python; saving stays within the same memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MEGABYTES, ROUNDS = 4096, 7
RATIO, RESIDENT = 2.0, 100.0
SMALL, TENSORS = 4, 64

SAVE = """
import json, sys, time
from pathlib import Path
import numpy as np
from amanda.graph import Graph
from amanda.files.binary import archive
from amanda.tensors import Tensor

path, megabytes, tensors = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
columns = 1024
rows = (megabytes << 20) // tensors // columns // 4

class Rows:
    def __init__(self, i):
        self.i = i
    def __call__(self):
        row = np.arange(columns, dtype="float32") + self.i
        return np.broadcast_to(row, (rows, columns))

graph = Graph("amanda/std/1")
value = graph.parameter(name="x")
for i in range(tensors):
    weight = Tensor.lazy(Rows(i), "float32", (rows, columns))
    constant = graph.constant(weight, f"layer{i}.weight")
    value = graph.add("matmul", [value, constant.output], name=f"layer{i}").output
graph.result(value)
start = time.perf_counter()
archive.save(graph, path)
seconds = time.perf_counter() - start
"""

OPEN = """
import json, sys, time
from amanda.files.binary import archive

start = time.perf_counter()
graph = archive.load(sys.argv[1])
seconds = time.perf_counter() - start
"""

MEASURE_MEMORY = """
def memory(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(l.split()[1]) / 1024 for l in lines if l.startswith(field))
figures = {"seconds": seconds, "resident": memory("VmRSS"), "peak": memory("VmHWM")}
"""

READ_WEIGHTS = """
tensors = int(sys.argv[2])
for i in (0, tensors // 2, tensors - 1):
    array = graph[f"layer{i}.weight"].attrs["value"].numpy()
    assert array[-1, 17] == 17 + i, array[-1, 17]
    assert array.ctypes.data % 64 == 0
figures["touched"] = memory("VmRSS")
"""


def run_process(code: str, *args: object) -> dict[str, Any]:
    """Run code in a new process and return the figures that it prints."""
    source = str(HERE.parent / "core" / "src")
    command = [
        sys.executable,
        "-c",
        "from pathlib import Path\n" + code,
        *map(str, args),
    ]
    env = {**os.environ, "PYTHONPATH": source}
    process = subprocess.run(
        command, check=True, capture_output=True, text=True, env=env
    )
    figures: dict[str, Any] = json.loads(process.stdout)
    return figures


Figures = dict[int, dict[str, float]]


def measure(
    sizes: tuple[int, ...], rounds: int, folder: str
) -> tuple[Figures, Figures]:
    """Return the figures of saving and of opening, by size."""
    finish = "print(json.dumps(figures))"
    saving, opening = (
        SAVE + MEASURE_MEMORY + finish,
        OPEN + MEASURE_MEMORY + READ_WEIGHTS + finish,
    )
    paths = {size: Path(folder, f"{size}.amanda") for size in sizes}
    saved = {size: run_process(saving, paths[size], size, TENSORS) for size in sizes}
    best: Figures = {}
    for i in range(rounds):
        for size in sizes if i % 2 else reversed(sizes):
            figures = run_process(opening, paths[size], TENSORS)
            previous = best.get(size, figures)
            best[size] = {key: min(figures[key], previous[key]) for key in figures}
    return saved, best


def main(megabytes: int = MEGABYTES, rounds: int = ROUNDS) -> int:
    sizes = (SMALL, megabytes)
    with tempfile.TemporaryDirectory() as folder:
        saved, opened = measure(sizes, rounds, folder)
    print("             save         peak     open   resident   after reads")
    for size in sizes:
        figures = opened[size]
        print(
            f"{size:5} MB "
            f"{saved[size]['seconds']:7.2f} s {saved[size]['peak']:9.1f} MB "
            f"{figures['seconds'] * 1e3:6.2f} ms {figures['resident']:6.1f} MB "
            f"{figures['touched']:11.1f} MB"
        )
    ratio = opened[megabytes]["seconds"] / opened[SMALL]["seconds"]
    print(f"ratio {ratio:.2f}, at most {RATIO}")
    missed = [f"the ratio is {ratio:.2f}"] if ratio > RATIO else []
    for stage, memory in {
        "opened": opened[megabytes]["resident"],
        "saved": saved[megabytes]["peak"],
    }.items():
        if memory > RESIDENT:
            missed.append(f"{stage} with {memory:.1f} MB resident, at most {RESIDENT}")
    print("\n".join(missed) or "all limits met")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
