"""Opening and saving models of ONNX, beside the onnx package and onnx_ir.

    python benchmarks/onnx_io.py [NODES] [ROUNDS] [MEGABYTES]

A model with large weights is opened by us and by `onnx.load`; one with many nodes is
read and written by us and by onnx_ir. Each measurement is a process of its own; rounds
alternate who goes first, and of each figure the best round counts, since the machine
can only add. Times are those of the processor, in the program and in the system for it:
other work on the machine does not count. Memory is the peak of what is resident beyond
the imports. `ratio` is our figure over theirs; exits with 1 where a limit is missed.
The limits on nodes are for a million of them: NODES is 100,000 where nothing is said.
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
ROOT = HERE.parent
NODES, ROUNDS, MEGABYTES = 100_000, 3, 440
LIMITS = {"open": 0.3, "read": 1 / 4, "write": 1 / 4, "memory": 0.6}
MOST_RESIDENT = 60  # megabytes, for a model of 440 that was opened


def measure(who: str, what: str, path: Path) -> dict[str, float]:
    sources = [ROOT / "core" / "src", ROOT / "plugins" / "amanda-onnx" / "src"]
    python = os.pathsep.join(map(str, sources))
    env = {**os.environ, "PYTHONPATH": python, "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(HERE / "_onnx_io_one.py"), who, what, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    told: dict[str, float] = json.loads(done.stdout)
    return told


def best(what: str, others: str, path: Path, rounds: int) -> tuple[Any, Any]:
    """The best figures of us and of others."""
    found: dict[str, list[dict[str, float]]] = {"amanda": [], others: []}
    for round_ in range(rounds):
        order = list(found) if round_ % 2 else list(found)[::-1]
        for who in order:
            found[who].append(measure(who, what, path))
    ours, theirs = (
        {key: min(each[key] for each in all_of) for key in all_of[0]}
        for all_of in found.values()
    )
    return ours, theirs


def row(what: str, mine: float, theirs: float, unit: str, limit: float) -> bool:
    ratio = mine / theirs
    fine = ratio <= limit
    figures = f"{mine:10.2f} {theirs:10.2f} {unit:4}"
    verdict = "" if fine else "  MISSED"
    print(f"{what:34} {figures} {ratio:8.3f}  <= {limit:.2f}{verdict}")
    return fine


def main(nodes: int, rounds: int, megabytes: int) -> int:
    print(f"{'':34} {'amanda':>10} {'other':>10}      {'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        large, many = Path(folder, "large.onnx"), Path(folder, "many.onnx")
        make = [sys.executable, str(HERE / "_onnx_io_one.py"), "make"]
        subprocess.run([*make, "large", str(large), str(megabytes)], check=True)
        subprocess.run([*make, "many", str(many), str(nodes)], check=True)
        warm = str(Path(folder, "warm.onnx"))
        subprocess.run([*make, "many", warm, "10"], check=True)
        ours, theirs = best("open", "onnx", large, rounds)
        times = ours["seconds"] * 1e3, theirs["seconds"] * 1e3
        fine = [row(f"open {megabytes} MB", *times, "ms", LIMITS["open"])]
        resident = ours["memory"] / 2**20
        fine.append(resident < MOST_RESIDENT)
        others = f"{resident:10.2f} {theirs['memory'] / 2**20:10.2f} MB  "
        print(f"{'  resident beyond imports':34} {others} {'':9} < {MOST_RESIDENT} MB")
        for what in ("read", "write"):
            ours, theirs = best(what, "onnx_ir", many, rounds)
            times = ours["seconds"] / nodes * 1e6, theirs["seconds"] / nodes * 1e6
            fine.append(row(f"{what} {nodes:,} nodes", *times, "us", LIMITS[what]))
            peaks = ours["memory"] / nodes, theirs["memory"] / nodes
            fine.append(row("  peak memory per node", *peaks, "B", LIMITS["memory"]))
    return 0 if all(fine) else 1


if __name__ == "__main__":
    given = [int(text.replace("_", "")) for text in sys.argv[1:4]]
    sys.exit(main(*given, *[NODES, ROUNDS, MEGABYTES][len(given) :]))
