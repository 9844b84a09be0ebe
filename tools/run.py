"""The two commands of the README. Each requires only Python 3.11 or newer.

    python3 tools/run.py main    all set-up, then the main job
    python3 tools/run.py tests   all set-up, then lint, builds and every test

Set-up is stored in `.venv` and `.tox` in the root folder. Further arguments of `tests`
are passed to pytest: `python3 tools/run.py tests -- -k graph`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAIN_JOB = ROOT / "examples" / "main_job.py"


def test_environments() -> str:
    """The tox environments; the one with all tests is the last.

    Without plug-ins, `core` would repeat it.
    """
    plugins = any(ROOT.glob("plugins/[!_]*/pyproject.toml"))
    return "lint,wheels,core,py" if plugins else "lint,wheels,py"


def environment() -> Path:
    """The interpreter of `.venv`, which is created if it does not exist."""
    folder = ROOT / ".venv"
    inside = "Scripts/python.exe" if os.name == "nt" else "bin/python"
    if not (folder / inside).exists():
        venv.create(folder, with_pip=True, clear=True)
    return folder / inside


def call(*command: str | Path) -> None:
    """Run a command in the root folder; exit with its code if it fails."""
    # no background downloads of newer seed packages
    settings = {**os.environ, "VIRTUALENV_NO_PERIODIC_UPDATE": "1"}
    done = subprocess.run(
        [str(c) for c in command], cwd=ROOT, env=settings, check=False
    )
    if done.returncode:
        raise SystemExit(done.returncode)


def install(python: Path, *packages: str) -> None:
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    call(python, *pip, *packages)


def main_job() -> None:
    python = environment()
    install(python, "hatchling>=1.27", "editables>=0.5")
    call(python, "tools/dists.py", "install")
    call(python, MAIN_JOB)


def tests(arguments: Sequence[str]) -> None:
    python = environment()
    install(python, "tox>=4.29")
    call(python, "-m", "tox", "run", "-e", test_environments(), *arguments)


def main(arguments: Sequence[str]) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036  a clear message for old versions
        raise SystemExit(f"Python 3.11 or newer is needed; this is {sys.version}")
    match arguments:
        case ["main"]:
            main_job()
        case ["tests", *rest]:
            tests(rest)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
