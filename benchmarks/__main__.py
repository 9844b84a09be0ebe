"""Run the benchmarks beside this file, all or those named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(names: Sequence[str]) -> int:
    found = {file.stem: file for file in sorted(HERE.glob("[!_]*.py"))}
    unknown = [name for name in names if name not in found]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; here: {', '.join(found)}")
        return 2
    codes = []
    for name in names or found:
        print(f"== {name}", flush=True)
        codes.append(
            subprocess.run([sys.executable, found[name]], check=False).returncode
        )
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
