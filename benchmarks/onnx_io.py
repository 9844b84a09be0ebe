"""Reading and writing ONNX models, compared with the onnx package and onnx_ir.

    python benchmarks/onnx_io.py [NODES] [ROUNDS] [MEGABYTES]

A model with large weights is opened by Amanda and by `onnx.load`; one with many nodes
is read and written by Amanda and by onnx_ir. Each measurement runs in its own process;
rounds alternate the order, and each figure is the best of all rounds. Times are CPU
times (user and system), which other load on the machine affects little. Memory is the
peak resident memory beyond the imports. `ratio` is Amanda's figure divided by the
other's; exits with 1 if a limit is missed. The limits per node hold for a million
nodes; the default of NODES is 100,000.
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
MAX_RESIDENT = 60  # megabytes, after opening a model of 440


def measure(library: str, operation: str, path: Path) -> dict[str, float]:
    sources = [ROOT / "core" / "src", ROOT / "plugins" / "amanda-onnx" / "src"]
    python = os.pathsep.join(map(str, sources))
    env = {**os.environ, "PYTHONPATH": python, "PYTHONHASHSEED": "0"}
    command = [
        sys.executable,
        str(HERE / "processes" / "onnx_io_one.py"),
        library,
        operation,
        str(path),
    ]
    process = subprocess.run(
        command, check=True, capture_output=True, text=True, env=env
    )
    figures: dict[str, float] = json.loads(process.stdout)
    return figures


def best_figures(
    operation: str, other: str, path: Path, rounds: int
) -> tuple[Any, Any]:
    """Return the best figures of Amanda and of another library."""
    measured: dict[str, list[dict[str, float]]] = {"amanda": [], other: []}
    for round_ in range(rounds):
        order = list(measured) if round_ % 2 else list(measured)[::-1]
        for library in order:
            measured[library].append(measure(library, operation, path))
    ours, theirs = (
        {key: min(each[key] for each in figures) for key in figures[0]}
        for figures in measured.values()
    )
    return ours, theirs


def print_row(label: str, ours: float, theirs: float, unit: str, limit: float) -> bool:
    ratio = ours / theirs
    fine = ratio <= limit
    figures = f"{ours:10.2f} {theirs:10.2f} {unit:4}"
    verdict = "" if fine else "  MISSED"
    print(f"{label:34} {figures} {ratio:8.3f}  <= {limit:.2f}{verdict}")
    return fine


def main(nodes: int, rounds: int, megabytes: int) -> int:
    print(f"{'':34} {'amanda':>10} {'other':>10}      {'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        large, many = Path(folder, "large.onnx"), Path(folder, "many.onnx")
        make = [sys.executable, str(HERE / "processes" / "onnx_io_one.py"), "make"]
        subprocess.run([*make, "large", str(large), str(megabytes)], check=True)
        subprocess.run([*make, "many", str(many), str(nodes)], check=True)
        warm = str(Path(folder, "warm.onnx"))
        subprocess.run([*make, "many", warm, "10"], check=True)
        ours, theirs = best_figures("open", "onnx", large, rounds)
        times = ours["seconds"] * 1e3, theirs["seconds"] * 1e3
        fine = [print_row(f"open {megabytes} MB", *times, "ms", LIMITS["open"])]
        resident = ours["memory"] / 2**20
        fine.append(resident < MAX_RESIDENT)
        other = f"{resident:10.2f} {theirs['memory'] / 2**20:10.2f} MB  "
        print(f"{'  resident beyond imports':34} {other} {'':9} < {MAX_RESIDENT} MB")
        for operation in ("read", "write"):
            ours, theirs = best_figures(operation, "onnx_ir", many, rounds)
            times = ours["seconds"] / nodes * 1e6, theirs["seconds"] / nodes * 1e6
            fine.append(
                print_row(
                    f"{operation} {nodes:,} nodes", *times, "us", LIMITS[operation]
                )
            )
            peaks = ours["memory"] / nodes, theirs["memory"] / nodes
            fine.append(
                print_row("  peak memory per node", *peaks, "B", LIMITS["memory"])
            )
    return 0 if all(fine) else 1


if __name__ == "__main__":
    arguments = [int(text.replace("_", "")) for text in sys.argv[1:4]]
    sys.exit(main(*arguments, *[NODES, ROUNDS, MEGABYTES][len(arguments) :]))
