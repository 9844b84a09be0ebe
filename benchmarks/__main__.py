"""Run all benchmarks in this folder, or those named on the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(names: Sequence[str]) -> int:
    scripts = {file.stem: file for file in sorted(HERE.glob("[!_]*.py"))}
    unknown = [name for name in names if name not in scripts]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; available: {', '.join(scripts)}")
        return 2
    exit_codes = []
    for name in names or scripts:
        print(f"== {name}", flush=True)
        exit_codes.append(
            subprocess.run([sys.executable, scripts[name]], check=False).returncode
        )
    return max(exit_codes, default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
