"""The two commands of the README. Each requires only Python 3.11 or newer.

    python3 tools/run.py main            set-up, then the main job: under a minute
    python3 tools/run.py tests           set-up, builds and tests
    python3 tools/run.py tests --quick   the tests of the core and the hub: five minutes
    python3 tools/run.py tests --all     with lint, types and --quick, as in CI

Set-up is stored in `.venv` and `.tox` in the root folder, with the output of each step.
Arguments after `--` are passed to pytest: `python3 tools/run.py tests -- -k graph`.
Of a test with many cases, 5 are run, evenly spaced; `tox run -e py` runs them all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
RUNTIME = ("amanda-onnx", "amanda-onnxruntime", "amanda-jax")
NEXT = """
Try next, with {bin} in your PATH:

    amanda info examples/digits/digits.onnx
    amanda show examples/digits/digits.onnx
    amanda compare examples/digits/digits.onnx --backend jax --backend numpy --random 1
    amanda ops onnx@18 Conv

README.md has an example in Python; docs/guide.md describes every part."""
STEPS = {
    "wheels": "build every package, install it afresh, try it",
    "core": "tests of the core, without plug-ins",
    "py": "every test, in a process for each framework; with --all, ruff and mypy",
    "quick": "tests of the core and the hub",
}
TAIL = 60  # lines of the output of a step that failed
LEFT_OUT = "not (install_independent or scale or models)"
OF_CORE = ("tests", "core/src", "namespaces/src")
INDEPENDENT = ("tests/core", "tests/fuzz", "tests/proto", "tests/text")
"""Folders of tests of the core that have the same result whatever is installed."""
AGAIN = {
    "core": ("-m", LEFT_OUT, *(f"--ignore={path}" for path in INDEPENDENT)),
    "quick": ("-m", LEFT_OUT, *(f"--ignore={path}" for path in OF_CORE)),
}
"""What steps leave out that "py", and "core" before it, run with the same result."""
CASES = ("--most-cases", "4")
"""How many cases of a test are run; `tox run -e py` runs all."""
CASES_AGAIN = ("--most-cases", "2")
"""How many of them are run again where other packages are installed."""
ALONE = ("-n", "0") if (os.cpu_count() or 1) <= 2 else ()
"""Where two lanes occupy the processors: workers collect all tests once each."""
ROUNDS = ("AMANDA_FUZZ_ROUNDS", "AMANDA_FUZZ_MUTATIONS")
"""Settings of the fuzz tests, of which `tox run -e fuzz` has a million rounds."""
PATIENCE = 60.0  # seconds between lines about progress where there is no terminal


class Progress:
    """One line about a running step: rewritten on a terminal, else now and then.

    Where steps run side by side (`is_alone` is false), no line is rewritten."""

    def __init__(self, title: str, *, is_alone: bool = True) -> None:
        self._title = title
        self._began = time.monotonic()
        self.run = ""
        """Which of several runs of tests it is."""
        self.share = ""
        """How much of it is done."""
        self._lines = sys.stdout.isatty() and is_alone
        self._shown = self._began
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._print(self._title, end="" if self._lines else "\n")
        self._thread.start()

    def end(self, outcome: str) -> None:
        self._over.set()
        self._thread.join()
        seconds = time.monotonic() - self._began
        self._print(f"{self._title}: {outcome}, {seconds:.0f} s", end="\n")

    def _run(self) -> None:
        while not self._over.wait(0.5):
            now = time.monotonic()
            if self._lines or now - self._shown > PATIENCE:
                self._shown = now
                parts = [self.run, self.share, f"{now - self._began:.0f} s"]
                line = f"{self._title}: {', '.join(filter(None, parts))}"
                self._print(line, end="" if self._lines else "\n")

    def _print(self, line: str, end: str) -> None:
        beginning = "\r\x1b[K" if self._lines else ""
        print(f"{beginning}{line}{end}", end="", flush=True)  # in one piece


def step(title: str, log: Path, *command: str | Path, is_alone: bool = True) -> int:
    """Run a command in the root folder; its output goes to a file.

    If it fails, the end of the output is printed. Returns its exit code.
    """
    # no background downloads of newer seed packages
    settings = {**os.environ, "VIRTUALENV_NO_PERIODIC_UPDATE": "1"}
    settings["PYTHONUNBUFFERED"] = "1"
    for name in ROUNDS:
        settings.setdefault(name, "100")
    progress = Progress(title, is_alone=is_alone)
    progress.start()
    log.parent.mkdir(exist_ok=True)
    summary: dict[str, int] = {}
    with (
        log.open("w", encoding="utf-8") as output,
        subprocess.Popen(
            [str(c) for c in command],
            cwd=ROOT,
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            output.write(line)
            _watch(line, progress, summary)
    code = process.returncode
    counts = ", ".join(f"{number} {what}" for what, number in summary.items())
    progress.end(counts or ("done" if code == 0 else "failed"))
    if code:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        report = [*lines[-TAIL:], f"failed: {log} has all of its output\n"]
        print("\n".join(report), end="", flush=True)
    return code


def set_up(title: str, log: Path, *command: str | Path) -> None:
    """Run a step that the others need; the process ends if it fails."""
    if code := step(title, log, *command):
        raise SystemExit(code)


def _watch(line: str, progress: Progress, summary: dict[str, int]) -> None:
    """Follow the output of pytest, and of `tools/test_runs.py`."""
    if run := re.match(r"=+ (run \d+ of \d+: .*?) =*$", line):
        progress.run, progress.share = run[1], ""
    if part := re.match(r"-+ (.*: \d+%) -+$", line):  # of one that shares processors
        progress.run, progress.share = part[1], ""
    elif done := re.search(r"\[ *(\d+)%\]$", line.rstrip()):
        progress.share = f"{done[1]}%"
    if re.search(r"\d (passed|failed|skipped|error).* in [\d.]+", line):
        for number, what in re.findall(r"(\d+) (passed|failed|skipped|errors?)", line):
            summary[what] = summary.get(what, 0) + int(number)


def environment(count: int) -> Path:
    """The interpreter of `.venv`, which is created if it does not exist."""
    inside = "Scripts/python.exe" if os.name == "nt" else "bin/python"
    python = ENVIRONMENT / inside
    if not python.exists():
        progress = Progress(f"[1/{count}] virtual environment .venv")
        progress.start()
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        progress.end("done")
    return python


def main_job() -> None:
    python = environment(4)
    pip = (python, "-m", "pip", "install", "--disable-pip-version-check")
    log = ENVIRONMENT / "install.log"
    set_up("[2/4] build tools", log, *pip, "hatchling>=1.27", "editables>=0.5")
    title = "[3/4] Amanda, numpy, jax and onnxruntime"
    set_up(title, log, python, "tools/dists.py", "run-time", *RUNTIME)
    print("[4/4] the main job: a model of ONNX on three backends\n", flush=True)
    done = subprocess.run([python, "examples/main_job.py"], cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    print(NEXT.format(bin=python.parent.relative_to(ROOT)))


def lanes_of(arguments: Sequence[str]) -> list[list[str]]:
    """The tox environments: those of a lane one after the other, lanes side by side.

    Builds and installations use one processor; what is beside them uses the others."""
    if "--quick" in arguments:
        return [["quick"]]
    if "--all" in arguments:
        return [["wheels", "quick"], ["core", "py"]]
    has_plugins = any(ROOT.glob("plugins/[!_]*/pyproject.toml"))
    # without plug-ins, "core" repeats "py"
    return [["wheels"], ["core", "py"] if has_plugins else ["py"]]


def arguments_of(name: str, arguments: Sequence[str]) -> list[str]:
    """What a tox environment gets after `--`."""
    if name == "wheels":
        return []
    rest = [word for word in arguments if word not in ("--quick", "--all", "--")]
    if name in AGAIN and "--quick" not in arguments:
        return [*AGAIN[name], *ALONE, *CASES_AGAIN, *rest]
    lint = ["with-lint"] if name == "py" and "--all" in arguments else []
    return [*lint, *CASES, *rest]


def tests(arguments: Sequence[str]) -> None:
    """Run tox environments, in two lanes."""
    lanes = lanes_of(arguments)
    names = [name for lane in lanes for name in lane]
    count = len(names) + 2
    python = environment(count)
    log = ENVIRONMENT / "tox.log"
    pip = (python, "-m", "pip", "install", "--disable-pip-version-check")
    set_up(f"[2/{count}] test runner tox", log, *pip, "tox>=4.29")

    def failed_of(lane: Sequence[str]) -> list[str]:
        return [name for name in lane if run_environment(name)]

    def run_environment(name: str) -> int:
        title = f"[{names.index(name) + 3}/{count}] {name}: {STEPS[name]}"
        tox = (python, "-m", "tox", "run", "-e", name, "--colored", "no", "--")
        rest, log = arguments_of(name, arguments), ROOT / ".tox" / f"{name}.log"
        return step(title, log, *tox, *rest, is_alone=len(lanes) == 1)

    with ThreadPoolExecutor(len(lanes)) as pool:
        failed = [name for found in pool.map(failed_of, lanes) for name in found]
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")
    print("all is well")


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
