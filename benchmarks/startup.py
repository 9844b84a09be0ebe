"""Startup time of the command, as a ratio to a bare interpreter.

    python benchmarks/startup.py [ROUNDS]

Every round starts each command once, so that other load on the machine affects all
equally; medians are compared. Exits with 1 if `amanda --help` takes more than `LIMIT`
times as long as the bare interpreter.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

LIMIT = 8.0
ROUNDS = 40
CALLS = {
    "python -c pass": "pass",
    "import amanda": "import amanda",
    "import amanda.errors": "import amanda.errors",
    "import click": "import click",
    "amanda --version": "from amanda.cli import main; main(['--version'])",
    "amanda --help": "from amanda.cli import main; main(['--help'])",
}


def run_seconds(code: str) -> float:
    begin = time.perf_counter()
    command = [sys.executable, "-c", code]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def median_times(rounds: int) -> dict[str, float]:
    """Return the median seconds of each call, without a warm-up round."""
    times: dict[str, list[float]] = {name: [] for name in CALLS}
    for _ in range(rounds + 1):
        for name, code in CALLS.items():
            times[name].append(run_seconds(code))
    return {name: statistics.median(seconds[1:]) for name, seconds in times.items()}


def main(rounds: int = ROUNDS) -> int:
    medians = median_times(rounds)
    bare = medians["python -c pass"]
    print(f"{'':22} {'ms':>7}  {'ratio':>5}")
    for name, seconds in medians.items():
        print(f"{name:22} {seconds * 1e3:7.1f}  {seconds / bare:5.2f}")
    ratio = medians["amanda --help"] / bare
    print(f"amanda --help: {ratio:.2f} times a bare interpreter, limit {LIMIT:g}")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
