"""Test processes: every test file has one, and large frameworks never share one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
try:
    from tools import python_floor, run, test_runs
finally:
    sys.path.remove(str(ROOT))

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTEST = SETTINGS["tool"]["pytest"]["ini_options"]
RUNS = test_runs.runs()


def collected_files() -> set[Path]:
    """The test files below the paths of pytest's settings."""
    folders = [folder for path in PYTEST["testpaths"] for folder in ROOT.glob(path)]
    files = {file for folder in folders for file in folder.rglob("test_*.py")}
    skipped = {"_template", "build", "dist"}
    return {f for f in files if not skipped & {*f.relative_to(ROOT).parts}}


def files_of(run: test_runs.TestRun) -> set[Path]:
    found: set[Path] = set()
    for path in run.paths:
        place = ROOT / path
        found |= {place} if place.is_file() else set(place.rglob("test_*.py"))
    found -= {ROOT / path for path in run.left_out}
    return {f for f in found if "_template" not in f.parts}


def test_every_test_file_is_in_a_run() -> None:
    assert set().union(*map(files_of, RUNS)) == collected_files()
    folders = {path for run in RUNS for path in run.paths}
    for source in ROOT.glob("plugins/[!_]*/src"):  # doctests
        assert source.parent.relative_to(ROOT).as_posix() in folders


def test_large_frameworks_do_not_meet() -> None:
    for run in RUNS:
        for file in files_of(run):
            frameworks = test_runs.frameworks(file)
            alone = len(files_of(run)) == 1 and not run.framework
            assert alone or frameworks <= {run.framework} or len(frameworks) > 1, file
        if run.framework:
            blocked = test_runs.environment_of(run)["AMANDA_TEST_WITHOUT"].split()
            others = test_runs.LARGE.keys() - {*test_runs.LARGE[run.framework]}
            assert others <= {*blocked}


def test_files_of_several_frameworks_run_once_for_each(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "amanda-x"
    folder.mkdir(parents=True)
    project = '[project]\nname = "amanda-x"\n'
    (folder / "pyproject.toml").write_text(project)
    (folder / "test_plain.py").write_text("import math\n")
    both = 'torch = pytest.importorskip("torch")\nimport tensorflow as tf\n'
    (folder / "test_both.py").write_text(both)
    _core, plain, *rest = test_runs.runs(tmp_path)
    assert plain == ("amanda-x", ("plugins/amanda-x",), (rest[0].paths), "")
    assert [(run.name, run.framework) for run in rest] == [
        ("amanda-x: tensorflow", "tensorflow"),
        ("amanda-x: torch", "torch"),
    ]


def test_a_file_that_forms_a_group_sets_its_fixtures_up_once() -> None:
    distributions = {run.name: run.distribution for run in RUNS}
    assert distributions["core"] == "worksteal"
    assert distributions["amanda-torch-conformance"] == "loadgroup"


def test_a_blocked_framework_is_not_imported(tmp_path: Path) -> None:
    code = 'import runpy; runpy.run_path("conftest.py"); import this_is_blocked'
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "AMANDA_TEST_WITHOUT": "other this_is_blocked"},
        capture_output=True,
        text=True,
    )
    assert "ModuleNotFoundError: import of this_is_blocked halted" in done.stderr


def test_the_cases_of_a_test_are_limited_and_evenly_spaced(tmp_path: Path) -> None:
    code = """
import pytest

@pytest.mark.parametrize("n", range(10))
def test_many(n): ...

@pytest.mark.most_cases(2)
@pytest.mark.parametrize("n", "abc")
def test_few(n): ...

def test_one(): ...
"""
    (tmp_path / "test_x.py").write_text(code)
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    pytest_call = [sys.executable, "-m", "pytest", "-q", "--collect-only"]
    rows = {"4": "0 2 5 7", "20": "0 1 2 3 4 5 6 7 8 9"}
    for most, cases in rows.items():
        done = subprocess.run(
            [*pytest_call, "-p", "no:xdist", *run.CASES[:1], most],
            cwd=tmp_path, env={**os.environ, "AMANDA_TEST_WITHOUT": ""},
            capture_output=True, text=True,
        )  # fmt: skip
        many = [f"test_many[{case}]" for case in cases.split()]
        expected = [*many, "test_few[a]", "test_few[b]", "test_one"]
        found = re.findall(r"test_x.py::(\S+)", done.stdout)
        assert found == expected, done.stdout + done.stderr


def test_a_run_of_ignored_folders_only_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def note(calls: list[test_runs.Call]) -> int:
        made.extend(call.name for call in calls)
        return 0

    monkeypatch.setattr(test_runs, "make_calls", note)
    test_runs.main(["quick", *run.AGAIN["quick"]])
    assert made == ["amanda-std"]
    test_runs.main(["quick", "--ignore=tests"])
    assert made[1:] == ["core", "amanda-std"]


def call_that_exits(name: str, code: int, *, has_workers: bool) -> test_runs.Call:
    report = "FAILED a.py::test" if code == 3 else ""
    source = f"print('in {name}'); print({report!r}); raise SystemExit({code})"
    line = [sys.executable, "-c", source]
    return test_runs.Call(name, line, os.environ, has_workers)


def test_every_call_is_made_and_those_that_failed_are_named(
    capfd: pytest.CaptureFixture[str],
) -> None:
    codes = {"a": 0, "b": 3, "c": 0, "d": 4, "e": test_runs.NO_TESTS}
    calls = [call_that_exits(n, codes[n], has_workers=n > "b") for n in codes]
    assert test_runs.make_calls(calls) == 1
    lines = capfd.readouterr().out.splitlines()
    for call in calls:
        title, said = (f"run \\d of 5: {call.name}", f"in {call.name}")
        at = next(i for i, line in enumerate(lines) if re.search(title, line))
        assert lines[at + 1] == said  # what it printed follows its title
    assert lines[-3:] == [
        "failed: b: exit code 3",
        "failed: FAILED a.py::test",
        "failed: d: exit code 4",
    ]
    assert test_runs.make_calls(calls[2:3]) == 0


def test_how_far_it_is_is_printed_before_a_call_ends(
    capfd: pytest.CaptureFixture[str],
) -> None:
    code = "print('.....  [ 40%]'); print('5 passed  [100%]')"
    call = test_runs.Call("one", [sys.executable, "-c", code], os.environ)
    assert test_runs.make_calls([call]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "--- one: 40% ---", "--- one: 100% ---", "=== run 1 of 1: one ===",
        ".....  [ 40%]", "5 passed  [100%]", "",
    ]  # fmt: skip


def test_runs_share_few_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    for processors, has_workers in ((2, {False}), (8, {False, True})):
        monkeypatch.setattr(test_runs.os, "cpu_count", lambda n=processors: n)
        calls = test_runs.calls_of(RUNS, ["-x"])
        assert len(calls) == len(RUNS)
        assert {call.has_workers for call in calls} == has_workers
        for call in calls:
            workers = call.command[call.command.index("-n") + 1]
            assert workers == ("auto" if call.has_workers else "0")
            assert call.command[-1] == "-x"
    monkeypatch.setattr(test_runs.os, "cpu_count", lambda: 2)
    assert test_runs.calls_of(RUNS, [])[0].name == "core"  # the largest
    assert test_runs.calls_of(RUNS[:1], [])[0].has_workers


def test_checks_of_style_and_types_run_after_one_that_failed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    checks = (("-c", "raise SystemExit(2)"), ("-c", "print('the second')"))
    monkeypatch.setattr(test_runs, "CHECKS", checks)
    assert test_runs.lint() == 1
    lines = capfd.readouterr().out.splitlines()
    assert "the second" in lines
    assert lines[-1] == "failed: -c raise SystemExit(2)"
    monkeypatch.setattr(test_runs, "CHECKS", checks[1:])
    assert test_runs.lint() == 0


def test_everything_includes_style_and_types(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: dict[str, tuple[object, ...]] = {}

    def note(title: str, log: Path, *command: object, is_alone: bool = True) -> int:
        steps[log.stem] = command
        return 0

    monkeypatch.setattr(run, "step", note)
    monkeypatch.setattr(run, "environment", lambda count: Path(sys.executable))
    run.tests(["--all"])
    assert steps.keys() == {"tox", "wheels", "core", "py", "quick"}
    assert list(steps).index("core") < list(steps).index("py")
    assert steps["py"][-4:] == ("--", "with-lint", *run.CASES)
    assert steps["core"][-2:] == run.CASES_AGAIN
    assert {f"--ignore={path}" for path in run.INDEPENDENT} <= {*steps["core"]}
    assert f"--ignore={run.OF_CORE[0]}" in steps["quick"]


def test_every_lane_runs_and_names_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(title: str, log: Path, *command: object, is_alone: bool = True) -> int:
        return int(log.stem in ("wheels", "core"))

    monkeypatch.setattr(run, "step", end)
    monkeypatch.setattr(run, "environment", lambda count: Path(sys.executable))
    with pytest.raises(SystemExit, match=r"failed: wheels, core$"):
        run.tests([])
    run.tests(["--quick"])
    assert capsys.readouterr().out == "all is well\n"


# -- what a user sees ----------------------------------------------------------------


OUTPUT = """
import sys, time
print("=== run 2 of 3: core ===")
print("." * 72, "[ 40%]")
time.sleep(1.2)
print("--- one: 30% ---")
time.sleep(1.2)
print("===== 7 passed, 2 skipped in 1.2s =====")
print("=== run 3 of 3: other ===")
print("1 failed, 3 passed in 0.5s")
sys.exit(1)
"""


def test_a_step_shows_progress_counts_and_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "PATIENCE", 0.1)
    log = tmp_path / "logs" / "step.log"
    assert run.step("[1/1] tests", log, sys.executable, "-c", OUTPUT) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[1/1] tests"
    assert "[1/1] tests: run 2 of 3: core, 40%, 1 s" in lines
    assert "[1/1] tests: one: 30%, 2 s" in lines
    last = next(line for line in lines if "passed" in line)
    assert re.fullmatch(r"\[1/1\] tests: 10 passed, 2 skipped, 1 failed, \d+ s", last)
    assert lines[-1] == f"failed: {log} has all of its output"
    assert "run 3 of 3: other" in log.read_text(encoding="utf-8")


def test_the_commands_are_documented() -> None:
    assert run.main.__module__ == "tools.run"
    with pytest.raises(SystemExit, match="tests --quick"):
        run.main(["test"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "`tools/run.py tests --quick`" in readme


NUMERICAL = (
    "jaxlib",
    "jax",
    "onnxruntime",
    "scipy",
    "numpy",
    "ml_dtypes",
    "opt_einsum",
)


def size_of(name: str) -> int:
    """Bytes of the files that a distribution installs, without compiled ones."""
    files = metadata.files(name) or []
    found = [Path(str(f.locate())) for f in files if f.suffix != ".pyc"]
    return sum(f.stat().st_size for f in found if f.is_file())


def required_by(*names: str) -> set[str]:
    """Distributions of an environment that installs these, as they are named here."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().replace("_", "-").lower()
        if name in found:
            continue
        found.add(name)
        needs = [need.partition(";") for need in metadata.requires(name) or ()]
        waiting += [
            re.split(r"[^\w.-]", need)[0] for need, _, rest in needs if not rest
        ]
    return found


def test_the_main_job_installs_little_beside_numerical_libraries() -> None:
    """The libraries take 600 MB, jaxlib alone more than half: README.md states it."""
    for name in NUMERICAL:
        pytest.importorskip(name, reason=f"{name} is not installed")
    found = required_by(*run.RUNTIME)
    numerical = {name.replace("_", "-") for name in NUMERICAL}
    assert found >= numerical
    assert not found & {"torch", "tensorflow", "keras", "openvino", "onnx", "pytest"}
    assert sum(map(size_of, found - numerical)) < 40e6
    assert 300e6 < size_of("jaxlib") < 450e6
    assert 500e6 < sum(map(size_of, numerical)) < 720e6


# -- the oldest Python ---------------------------------------------------------------


def test_names_that_the_oldest_python_lacks_are_found(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="its stubs of the library are read")
    file = tmp_path / "new.py"
    file.write_text(
        "import itertools, shutil, tarfile\n"
        "from typing import Self, override\n"
        "tarfile.open('x').extractall('y', filter='data')\n"
        "itertools.batched([], 2), itertools.chain(), shutil.rmtree('z')\n"
    )
    assert list(python_floor.faults(file)) == [
        "2: typing.override is new in Python 3.12",
        "3: extractall(filter=) is new in Python 3.11.4",
        "4: itertools.batched is new in Python 3.12",
    ]
