"""Cost per op of graphs with a million ops: beside ten times fewer, and onnx_ir.

    python benchmarks/graph_scale.py [OPS] [ROUNDS]

Each measurement is a process of its own; rounds alternate who goes first, and of each
figure the best round counts, since the machine can only add. Times are those of the
processor, so that other programs count little. Exits with 1 where a limit is missed:
`growth` is the time per op at OPS over that at OPS / 10, `ratio` is onnx_ir's figure
over ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OPS, ROUNDS = 1_000_000, 3
GROWTH = 1.5
RATIOS = {"build": 4.0, "memory": 2.0, "iterate": 1.0, "neighbours": 1.0}
SHAPES = ("chain", "wide", "nested")


def measure(who: str, shape: str, n: int) -> dict[str, float]:
    source = str(HERE.parent / "core" / "src")
    env = {**os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(HERE / f"_scale_{who}.py"), shape, str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    told: dict[str, Any] = json.loads(done.stdout)
    return {"memory": told["memory"], **told["times"]}


def best(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {stage: min(r[stage] for r in rounds) for stage in rounds[0]}


def compare(shape: str, n: int, rounds: int) -> list[str]:
    """Prints the table of one shape; the limits that were missed."""
    found: dict[str, list[dict[str, float]]] = {"few": [], "many": [], "peer": []}
    for i in range(rounds):
        calls = {"few": ("amanda", n // 10), "many": ("amanda", n),
                 "peer": ("onnx_ir", n)}  # fmt: skip
        for key in reversed(calls) if i % 2 else calls:
            who, size = calls[key]
            found[key].append(measure(who, shape, size))
    few, many, peer = (best(found[key]) for key in ("few", "many", "peer"))
    print(f"\n{shape}: {n:,} ops  (microseconds per op; memory in bytes per op)")
    print(f"{'':14} {'ours':>8} {'growth':>7} {'onnx_ir':>8} {'ratio':>6}")
    missed = []
    for stage, cost in many.items():
        growth = cost / few[stage] if stage != "memory" else 1.0
        ratio = peer[stage] / cost if stage in peer else None
        theirs = f"{peer[stage]:8.2f} {ratio:6.2f}" if ratio is not None else ""
        print(f"{stage:14} {cost:8.2f} {growth:7.2f} {theirs}")
        if growth > GROWTH:
            missed.append(f"{shape}: {stage} grows {growth:.2f}-fold, at most {GROWTH}")
        if ratio is not None and ratio < RATIOS.get(stage, 0.0):
            missed.append(
                f"{shape}: {stage} ratio {ratio:.2f}, at least {RATIOS[stage]}"
            )
    return missed


def main(n: int = OPS, rounds: int = ROUNDS) -> int:
    missed = [line for shape in SHAPES for line in compare(shape, n, rounds)]
    print("\n" + ("\n".join(missed) or "all limits met"))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
