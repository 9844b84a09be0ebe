"""Check style and types: ruff, the oldest Python, mypy. Prints which of them failed.

    python tools/lint.py

Each runs, also after another has failed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKS = (
    ("-m", "ruff", "check"),
    ("-m", "ruff", "format", "--check"),
    ("tools/python_floor.py",),
    ("tools/dists.py", "types"),
)
"""Arguments of Python, run in the root folder."""


def main() -> int:
    """Run every check; returns an exit code."""
    failed = []
    for check in CHECKS:
        print("+ python", *check, flush=True)
        if subprocess.run([sys.executable, *check], cwd=ROOT, check=False).returncode:
            failed.append(check)
    print(*(f"failed: {' '.join(check)}" for check in failed), sep="\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
