"""Run the tests in processes in which large frameworks never meet.

    python tools/test_runs.py list               the runs, with their files
    python tools/test_runs.py [PYTEST ARG ...]   all of them
    python tools/test_runs.py with-lint [...]    all of them, and lint beside them
    python tools/test_runs.py lint               ruff, mypy, and the oldest Python
    python tools/test_runs.py quick              those of the core and the hub only
    python tools/test_runs.py install-quick      what they need
    python tools/test_runs.py only NAME          those of a plug-in

A process that imports several of PyTorch, TensorFlow, OpenVINO and jaxlib may crash:
each has its own copy of LLVM, protobuf or a thread pool. Known: importing triton (which
the CUDA build of PyTorch does) after TensorFlow, OpenVINO and jaxlib ends the process
with SIGSEGV. So a test file that imports such a framework runs in a process for that
framework, and the other files of a distribution in one process together.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.dists import Dist, dists, install  # noqa: E402  the package of this file

LARGE = {
    "torch": ("torch", "torchvision", "transformers", "onnxscript", "triton"),
    "tensorflow": ("tensorflow", "keras"),  # tf.keras
    "keras": ("keras", "tensorflow"),  # its default backend
    "openvino": ("openvino",),
}
"""Frameworks that get a process of their own, with the modules that they consist of."""
CORE = ("tests", "core/src", "namespaces/src")
QUICK = ("core", "amanda-std")  # runs
QUICK_DISTS = ("amanda-core", "amanda-namespaces", "amanda-std")
QUICK_OUT = ("tests/routes", "plugins/amanda-std/tests/ops")  # what takes long
MANY = 3  # files from which on several processes share a run
FEW = 2  # processors with which a process of its own for each run is faster
NO_TESTS = 5  # exit code of pytest
_IMPORT = re.compile(
    r"(?:^\s*(?:import|from)\s+|importorskip\(\s*[\"'])(\w+)", re.MULTILINE
)
_LOOP = re.compile(r"for \w+ in \(([^()]*)\):\s+pytest\.importorskip")


class TestRun(NamedTuple):
    """A call of pytest."""

    name: str
    paths: tuple[str, ...]
    """Files and folders, relative to the root."""
    left_out: tuple[str, ...] = ()
    """Files of these folders that another run has."""
    framework: str = ""
    """The large framework that it may import; the others are blocked."""

    @property
    def workers(self) -> str:
        many = any(not path.endswith(".py") for path in self.paths)
        return "auto" if many or len(self.paths) > MANY else "0"

    @property
    def size(self) -> int:
        """Characters in its test files."""
        return sum(map(len, _texts(self.paths)))

    @property
    def distribution(self) -> str:
        """How pytest-xdist shares the tests: by group, if a file forms one.

        A fixture that takes long is then set up in one process."""
        grouped = any("mark.xdist_group" in text for text in _texts(self.paths))
        return "loadgroup" if grouped else "worksteal"


def runs(root: Path = ROOT) -> list[TestRun]:
    """Every run: by distribution, and in it by the large frameworks of its files."""
    found = _runs_of("core", CORE, False, root)
    for dist in dists(root).values():
        folder = dist.folder.relative_to(root).as_posix()
        if folder.startswith(("plugins/", "examples/")):
            found += _runs_of(dist.name, (folder,), _is_mixed(dist), root)
    return found


def _runs_of(
    name: str, paths: tuple[str, ...], mixed: bool, root: Path
) -> list[TestRun]:
    """The runs of a distribution; if `mixed`, any file may import any framework."""
    files = sorted(f for path in paths for f in (root / path).rglob("test_*.py"))
    groups: dict[str, list[str]] = {}
    for file in files:
        place = file.relative_to(root).as_posix()
        for label in [file.stem] if mixed else sorted(frameworks(file)):
            groups.setdefault(label, []).append(place)
    apart = tuple(dict.fromkeys(f for group in groups.values() for f in group))
    return [
        TestRun(name, paths, apart),  # with the doctests
        *(
            TestRun(f"{name}: {label}", tuple(group), (), "" if mixed else label)
            for label, group in groups.items()
        ),
    ]


def _texts(paths: Sequence[str]) -> Iterator[str]:
    """The sources of test files: those given, and those in folders given."""
    for path in map(ROOT.joinpath, paths):
        files: Iterable[Path] = path.rglob("test_*.py") if path.is_dir() else [path]
        for file in files:
            yield file.read_text(encoding="utf-8")


def _is_mixed(dist: Dist) -> bool:
    """Whether the tests of a distribution install several large frameworks."""
    names = {re.split(r"[^a-z]", need, maxsplit=1)[0] for need in dist.for_tests}
    return len(names & LARGE.keys()) > 1


def frameworks(file: Path) -> set[str]:
    """The large frameworks that a file imports, anywhere in it."""
    text = file.read_text(encoding="utf-8")
    imported = set(_IMPORT.findall(text))
    imported |= {
        word.strip(" \"'") for loop in _LOOP.findall(text) for word in loop.split(",")
    }
    return {name for name, parts in LARGE.items() if imported & {parts[0], *parts[2:]}}


def environment_of(run: TestRun) -> dict[str, str]:
    """The environment of a run, in which the other large frameworks are blocked."""
    if not run.framework:
        return dict(os.environ)
    every = {part for parts in LARGE.values() for part in parts}
    blocked = sorted(every - {*LARGE[run.framework]})
    return {**os.environ, "AMANDA_TEST_WITHOUT": " ".join(blocked)}


def command(run: TestRun, arguments: Sequence[str], workers: str) -> list[str]:
    """The call of pytest for a run."""
    ignored = [f"--ignore={path}" for path in run.left_out]
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", workers]
    shared = ["--dist", run.distribution]
    return [*pytest, *shared, *run.paths, *ignored, *arguments]


def _is_ignored(run: TestRun, arguments: Sequence[str]) -> bool:
    """Whether arguments leave out all that a run names, which pytest would run."""
    return {f"--ignore={path}" for path in run.paths} <= {*arguments}


class Call(NamedTuple):
    """A command with its environment."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    has_workers: bool = False
    """Whether it uses several processors."""


Results = Iterator[tuple[Call, Callable[[], tuple[int, str]]]]
LINT = Call("lint", [sys.executable, "tools/test_runs.py", "lint"], os.environ)
CHECKS = (
    ("-m", "ruff", "check"),
    ("-m", "ruff", "format", "--check"),
    ("tools/python_floor.py",),
    ("tools/dists.py", "types"),
)
"""What lint is: arguments of Python, in the root folder."""


def calls_of(runs: Sequence[TestRun], arguments: Sequence[str]) -> list[Call]:
    """The calls of pytest for runs, each in its environment.

    Where there are far more runs than processors, which are few, runs share them, the
    largest first: workers would share the tests of a run, but collect all of them."""
    processors = os.cpu_count() or 1
    apart = processors <= FEW and len(runs) > 2 * processors
    calls = []
    for run in sorted(runs, key=lambda run: -run.size) if apart else runs:
        workers = "0" if apart else run.workers
        line = command(run, arguments, workers)
        calls.append(Call(run.name, line, environment_of(run), workers != "0"))
    return calls


def make_calls(calls: Sequence[Call]) -> int:
    """Make them all; returns an exit code, and prints which of them failed.

    Those of one process share the processors, in order, and what they print is printed
    when they end; until then, how far they are. The others follow, one by one."""
    single = [call for call in calls if not call.has_workers]
    failed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = {pool.submit(_collect, call): call for call in single}
        done: Results = ((waiting[each], each.result) for each in as_completed(waiting))
        later: Results = (
            (call, partial(_show, call)) for call in calls if call.has_workers
        )
        for i, (call, result) in enumerate(chain(done, later), start=1):
            title = f"=== run {i} of {len(calls)}: {call.name} ===\n"
            if call.has_workers:
                print(title, end="", flush=True)
            code, output = result()
            if not call.has_workers:
                print(title + output, end="", flush=True)  # in one piece
            if code not in (0, NO_TESTS):
                failed.append(f"{call.name}: exit code {code}")
                failed += re.findall(r"^(?:FAILED|ERROR) .*", output, re.MULTILINE)
    print(*(f"failed: {each}" for each in failed), sep="\n")
    return int(bool(failed))


def _show(call: Call) -> tuple[int, str]:
    """Make a call in the root folder; returns its exit code, and prints its output."""
    done = subprocess.run(call.command, cwd=ROOT, env=call.environment, check=False)
    return done.returncode, ""


def _collect(call: Call) -> tuple[int, str]:
    """Make a call in the root folder; returns its exit code and its output.

    Where the output says how far it is, a line says it meanwhile."""
    lines = []
    with subprocess.Popen(
        call.command, cwd=ROOT, env=call.environment, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if share := re.search(r"\[ *(\d+%)\]$", line.rstrip()):
                print(f"--- {call.name}: {share[1]} ---\n", end="", flush=True)
    return process.returncode, "".join(lines)


def lint() -> int:
    """Make every check, also after one that failed; returns an exit code."""
    failed = []
    for check in CHECKS:
        print("+ python", *check, flush=True)
        if subprocess.run([sys.executable, *check], cwd=ROOT, check=False).returncode:
            failed.append(check)
    print(*(f"failed: {' '.join(check)}" for check in failed), sep="\n")
    return int(bool(failed))


def main(arguments: Sequence[str]) -> int:
    match arguments:
        case ["list"]:
            for run in runs():
                print(f"{run.name}: {' '.join(run.paths)}")
            return 0
        case ["install-quick"]:
            install(QUICK_DISTS)
            return 0
        case ["quick", *rest]:
            chosen = [run for run in runs() if run.name in QUICK]
            arguments = [*(f"--ignore={p}" for p in QUICK_OUT), *rest]
            chosen = [run for run in chosen if not _is_ignored(run, arguments)]
            return make_calls(calls_of(chosen, arguments))
        case ["only", name, *rest]:
            dist = name.removeprefix("plugin-")
            chosen = [run for run in runs() if run.name.split(":")[0] == dist]
            return make_calls(calls_of(chosen, rest))
        case ["lint"]:
            return lint()
        case ["with-lint", *rest]:
            return make_calls([LINT, *calls_of(runs(), rest)])
    return make_calls(calls_of(runs(), arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
