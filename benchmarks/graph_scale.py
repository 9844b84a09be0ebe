"""Cost per op of a graph of a million ops, compared with a tenth of them and onnx_ir.

    python benchmarks/graph_scale.py [OPS] [ROUNDS]

Each measurement runs in its own process; rounds alternate the order, and each figure is
the best of all rounds. Times are CPU times, which other load on the machine affects
little. Both libraries run with the cyclic garbage collector paused, as `amanda.bulk()`
pauses it while loaders and passes build a graph; with the collector on, onnx_ir builds
and copies more slowly and the ratios are larger. Exits with 1 if a limit is missed:
`growth` is the time per op at OPS divided by that at OPS / 10, `ratio` is onnx_ir's
figure divided by Amanda's.
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
RATIOS = {"build": 2.5, "copy": 2.5, "memory": 2.0, "iterate": 1.0, "neighbours": 1.0}
SHAPES = ("chain", "wide", "nested")


def measure(library: str, shape: str, n: int) -> dict[str, float]:
    source = str(HERE.parent / "core" / "src")
    env = {**os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": "0"}
    command = [
        sys.executable,
        str(HERE / "processes" / f"scale_{library}.py"),
        shape,
        str(n),
    ]
    process = subprocess.run(
        command, check=True, capture_output=True, text=True, env=env
    )
    figures: dict[str, Any] = json.loads(process.stdout)
    return {"memory": figures["memory"], **figures["times"]}


def best_of_rounds(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {stage: min(r[stage] for r in rounds) for stage in rounds[0]}


def compare_shape(shape: str, n: int, rounds: int) -> list[str]:
    """Print the table of one graph shape; return the missed limits."""
    figures: dict[str, list[dict[str, float]]] = {"few": [], "many": [], "peer": []}
    for i in range(rounds):
        calls = {"few": ("amanda", n // 10), "many": ("amanda", n),
                 "peer": ("onnx_ir", n)}  # fmt: skip
        for key in reversed(calls) if i % 2 else calls:
            library, size = calls[key]
            figures[key].append(measure(library, shape, size))
    few, many, peer = (best_of_rounds(figures[key]) for key in ("few", "many", "peer"))
    print(
        f"\n{shape}: {n:,} ops, collector paused (microseconds, bytes of memory per op)"
    )
    print(f"{'':14} {'amanda':>8} {'growth':>7} {'onnx_ir':>8} {'ratio':>6}")
    missed = []
    for stage, cost in many.items():
        growth = cost / few[stage] if stage != "memory" else 1.0
        ratio = peer[stage] / cost if stage in peer else None
        comparison = f"{peer[stage]:8.2f} {ratio:6.2f}" if ratio is not None else ""
        print(f"{stage:14} {cost:8.2f} {growth:7.2f} {comparison}")
        if growth > GROWTH:
            missed.append(
                f"{shape}: {stage} grows {growth:.2f} times, at most {GROWTH}"
            )
        if ratio is not None and ratio < RATIOS.get(stage, 0.0):
            missed.append(
                f"{shape}: {stage} ratio {ratio:.2f}, at least {RATIOS[stage]}"
            )
    return missed


def main(n: int = OPS, rounds: int = ROUNDS) -> int:
    missed = [line for shape in SHAPES for line in compare_shape(shape, n, rounds)]
    print("\n" + ("\n".join(missed) or "all limits met"))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
