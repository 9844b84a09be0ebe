"""Bisection of models with planted faults: how many are named, in what time and memory.

    python plugins/amanda-inspect/tests/planted_faults [NUMBER ...] [--small]
        [--folder F] [--seed N] [--backend NAME] [--max-memory MB] [--memory]

Each of forty faults is planted in a file of ResNet-50, BERT-base, GPT-2 or a model
with a loop and a conditional; F keeps the models. A change that changes no result by
more than 1e-5 of its largest element is no fault: another place is drawn. The time is
that of loading and bisecting both files, relative to loading, compiling and running
each once, one after the other; the same ratio of processor times depends less on what
else runs. `--memory` measures the peak of memory in place of times. Exits with 1 if a
fault is not named, or if a ratio of times exceeds 4. Needs torch, transformers,
onnxscript and onnx.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[4] / "tests")]

LIMIT = 4
"""Maximum time of a bisection, relative to the two plain runs."""


class Row(NamedTuple):
    """What is counted of a trial."""

    is_right: bool
    ratio: float
    cpu_ratio: float
    discarded: int


def main() -> int:
    given = _arguments()
    from planted_faults.networks import make_network
    from planted_faults.table import FAULTS

    with tempfile.TemporaryDirectory() as folder:
        place = given.folder or Path(folder)
        rows = []
        for fault in FAULTS:
            if not given.numbers or fault.number in given.numbers:
                network = make_network(fault.network, place, small=given.small)
                rows.append(_row(fault, network, given))
    return _print_summary(rows)


def _print_summary(rows: list[Row]) -> int:
    right = sum(row.is_right for row in rows)
    discarded = sum(row.discarded for row in rows)
    print(f"{right} of {len(rows)} faults are named")
    print(f"{discarded} places were drawn before where a change changes no result")
    ratios = [row.ratio for row in rows if row.ratio]
    if ratios:
        cpu_ratios = [row.cpu_ratio for row in rows if row.ratio]
        print(
            "to load and bisect both files / to load, compile and run both once: "
            f"time {_spread(ratios)}; processor time {_spread(cpu_ratios)}"
        )
    return int(right < len(rows) or max(ratios, default=0) > LIMIT)


def _spread(ratios: list[float]) -> str:
    return f"median {statistics.median(ratios):.2f}, most {max(ratios):.2f}"


def _row(fault: Any, network: Any, given: argparse.Namespace) -> Row:
    from planted_faults.trial import run_trial

    options = {"seed": given.seed, "backend": given.backend}
    limit = given.max_memory << 20
    if given.memory:
        tracemalloc.start()
    try:
        trial = run_trial(fault, network, max_memory=limit, **options)
    except LookupError as error:
        print(f"-      {fault}: {error}", flush=True)
        return Row(False, 0.0, 0.0, 0)
    ratio = trial.seconds / trial.plain_seconds
    cpu_ratio = trial.cpu_seconds / trial.plain_cpu_seconds
    text = f"{ratio:5.2f} (CPU {cpu_ratio:5.2f})"
    if given.memory:
        text = f"{trial.peak_bytes / 2**20:7.0f} MB"
        tracemalloc.stop()
    named = "right" if trial.is_right else "WRONG"
    names = ", ".join(sorted(trial.names)) or "nothing"
    print(f"{named} {text} {fault}: {trial.plant.text}; named {names}", flush=True)
    if given.memory:
        ratio = cpu_ratio = 0.0
    return Row(trial.is_right, ratio, cpu_ratio, trial.discarded)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("numbers", nargs="*", type=int)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--max-memory", type=int, default=2048, metavar="MB")
    parser.add_argument("--memory", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
