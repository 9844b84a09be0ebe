"""Install, test, check and build the distributions of this repository.

    python tools/dists.py list                 their names
    python tools/dists.py install [NAME ...]   editable, with their local requirements
                                               and what their tests need
    python tools/dists.py run-time NAME ...    the same, without what tests need
    python tools/dists.py types                mypy over all of them, and what is beside
    python tools/dists.py wheels FOLDER        build all, install them afresh, try them

    python tools/dists.py hook BACKEND HOOK FOLDER      call a hook of a build backend
    python tools/dists.py build-requirements HOOK BACKEND PROJECT ...  as JSON

A distribution is core, namespaces, or any folder of plugins/ or examples/ that has a
pyproject.toml: nothing is listed. NAME may be `plugin-` and the name of a folder.

A distribution with a compiled library has a table `[tool.amanda.compiled]`: a marker of
the environments where it is built, and its compilers. Elsewhere it is left out.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PIP_INSTALL = (
    *(sys.executable, "-m", "pip", "install"),
    *("--quiet", "--disable-pip-version-check"),
)
THIS = (sys.executable, "-P", Path(__file__).resolve())
"""This program in a process of its own, which finds what was just installed."""


@dataclass(frozen=True)
class Dist:
    """One folder that builds a distribution."""

    folder: Path

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Its pyproject.toml."""
        return tomllib.loads((self.folder / "pyproject.toml").read_text("utf-8"))

    @property
    def project(self) -> dict[str, Any]:
        table: dict[str, Any] = self.settings["project"]
        return table

    @property
    def build_system(self) -> dict[str, Any]:
        table: dict[str, Any] = self.settings["build-system"]
        return table

    @property
    def compilation(self) -> dict[str, Any]:
        """How its library is compiled; empty if it has none."""
        tools = self.settings.get("tool", {})
        table: dict[str, Any] = tools.get("amanda", {}).get("compiled", {})
        return table

    @property
    def name(self) -> str:
        return str(self.project["name"])

    @property
    def requires(self) -> list[str]:
        """Names of required distributions, local or not."""
        return [
            _requirement_name(line) for line in self.project.get("dependencies", [])
        ]

    @property
    def for_tests(self) -> list[str]:
        """Requirements of its tests."""
        needs: list[str] = self.project.get("optional-dependencies", {}).get("test", [])
        return needs


def obstacle(dist: Dist) -> str | None:
    """Why a distribution cannot be built here; None if it can."""
    if marker := dist.compilation.get("environment"):
        from packaging.markers import Marker

        if not Marker(marker).evaluate():
            return f"it is built where {marker}"
    for variable, name in dist.compilation.get("compilers", {}).items():
        (program, *_) = shlex.split(os.environ.get(variable, "")) or [name]
        if shutil.which(program) is None:
            return f"there is no compiler {program}; {variable} may name one"
    return None


def without_obstacles(chosen: Iterable[Dist]) -> list[Dist]:
    """The distributions that can be built here; prints why others are left out."""
    found = []
    for dist in chosen:
        if why := obstacle(dist):
            print(f"{dist.name} is left out: {why}", flush=True)
        else:
            found.append(dist)
    return found


def _requirement_name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]


def dists(root: Path = ROOT) -> dict[str, Dist]:
    """Every distribution by name, without the plug-in template."""
    folders = [
        root / "core",
        root / "namespaces",
        *sorted(root.glob("plugins/[!_]*")),
        *sorted(root.glob("examples/*")),
    ]
    found = (
        Dist(folder) for folder in folders if (folder / "pyproject.toml").is_file()
    )
    return {dist.name: dist for dist in found}


def with_required(names: Iterable[str], known: dict[str, Dist]) -> list[Dist]:
    """Add the local requirements of distributions, each once.

    >>> [d.name for d in with_required(["amanda-core"], dists())]
    ['amanda-core']
    """
    waiting = [name.removeprefix("plugin-") for name in names]
    chosen: dict[str, Dist] = {}
    while waiting:
        name = waiting.pop(0)
        if name not in chosen and name in known:
            chosen[name] = known[name]
            waiting += known[name].requires
    return list(chosen.values())


def run(*command: str | Path, at: Path = ROOT) -> None:
    """Run a command; exit with its code if it fails."""
    line = [str(part) for part in command]
    print("+", *line, flush=True)
    done = subprocess.run(line, cwd=at, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def install(names: Sequence[str], *, tests: bool = True) -> None:
    """Install editable, without isolation: what builds need is installed first."""
    known = dists()
    unknown = [n for n in names if n.removeprefix("plugin-") not in known]
    if unknown:
        raise SystemExit(
            f"no distribution {', '.join(unknown)}; here: {', '.join(known)}"
        )
    chosen = with_required(names or known, known)
    needs = {need for dist in chosen for need in dist.for_tests if tests}
    local = {need for need in needs if _requirement_name(need) in known}
    names_of_local = map(_requirement_name, local)
    chosen = with_required([*(d.name for d in chosen), *names_of_local], known)
    chosen = without_obstacles(chosen)
    folders = [part for dist in chosen for part in ("--editable", dist.folder)]
    pip = [*PIP_INSTALL]
    if not tests:
        pip.append("--no-compile")  # a fifth of the size
    install_build_requirements(chosen, "editable", pip)
    run(*pip, "--no-build-isolation", *folders, *sorted(needs - local))


def install_build_requirements(
    chosen: Sequence[Dist], kind: str, pip: Sequence[str] = PIP_INSTALL
) -> None:
    """Install what builds need: what they declare, then what their backends ask for."""
    run(*pip, *sorted({n for dist in chosen for n in dist.build_system["requires"]}))
    pairs = [(d.build_system["build-backend"], str(d.folder)) for d in chosen]
    hook = f"get_requires_for_build_{kind}"
    command = (*THIS, "build-requirements", hook, *chain.from_iterable(pairs))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    if requirements := json.loads(done.stdout.splitlines()[-1]):
        run(*pip, *requirements)


def print_build_requirements(
    hook: str, backends: Sequence[str], projects: Sequence[str]
) -> None:
    """Print what backends ask for to build projects, as JSON on the last line.

    The hook may be missing, as PEP 517 allows."""
    requirements: set[str] = set()
    for backend, project in zip(backends, projects, strict=True):
        os.chdir(project)
        requirements.update(getattr(import_module(backend), hook, list)())
    print()
    print(json.dumps(sorted(requirements)))


def types() -> None:
    """Check types of everything but tests, which pass wrong types on purpose.

    The tests of examples are examples too. The framework of a plug-in may be missing.
    """
    mypy = (sys.executable, "-m", "mypy")
    run(*mypy)
    run(*mypy, "benchmarks", "tools", *sorted(ROOT.glob("examples/*.py")))
    folders = [dist.folder for dist in dists().values()]
    plugins = [each / "src" for each in folders if each.parent.name == "plugins"]
    if plugins:
        run(*mypy, "--ignore-missing-imports", *plugins)
    for folder in folders:
        if folder.parent.name == "examples":
            run(*mypy, "--ignore-missing-imports", folder)


def build_wheel(dist: Dist, out: Path) -> Path:
    """Build the wheel of a distribution from its sdist, as a package index would.

    The wheel built from the repository must have the same files. It is not built if
    that means compiling a library a second time.
    """
    stem = dist.name.replace("-", "_")
    sdist = call_hook(dist, "build_sdist", dist.folder, out / "sdists", f"{stem}-*.gz")
    with tarfile.open(sdist) as archive:
        # the argument `filter` of extractall is newer than Python 3.11.3
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(out / "unpacked")  # noqa: S202  an archive of our own
    source = out / "unpacked" / sdist.name.removesuffix(".tar.gz")
    named = f"{stem}-*.whl"
    wheel = call_hook(dist, "build_wheel", source, out / "wheels", named)
    if not dist.compilation:
        other = call_hook(dist, "build_wheel", dist.folder, out / "from-tree", named)
        if differing := wheel_files(wheel) ^ wheel_files(other):
            what = sorted(differing)
            raise SystemExit(f"{dist.name}: sdist and tree differ in {what}")
    return wheel


def call_hook(dist: Dist, hook: str, source: Path, out: Path, named: str) -> Path:
    """The file that a hook of the build backend creates in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    backend = dist.build_system["build-backend"]
    run(*THIS, "hook", backend, hook, out, at=source)
    (made,) = out.glob(named)
    return made


def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def wheels(out: Path) -> None:
    """Build everything, install it into a new environment, and run smoke tests."""
    chosen = without_obstacles(dists().values())
    install_build_requirements(chosen, "wheel")
    made = [build_wheel(dist, out) for dist in chosen]
    venv.create(out / "fresh", with_pip=True)
    folder = "Scripts" if sys.platform == "win32" else "bin"
    python = out / "fresh" / folder / "python"
    run(python, "-m", "pip", "install", "--quiet", *made, at=out)
    for script in smoke_tests(chosen):
        run(python, "-I", script, at=out)


def smoke_tests(chosen: Iterable[Dist]) -> Iterator[Path]:
    """tests/smoke.py, and those of distributions."""
    for folder in (ROOT, *(dist.folder for dist in chosen)):
        if (script := folder / "tests" / "smoke.py").is_file():
            yield script


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case ["list"]:
            print(*dists(), sep="\n")
        case ["install", *names]:
            install(names)
        case ["run-time", *names]:
            install(names, tests=False)
        case ["types"]:
            types()
        case ["build-requirements", hook, *rest]:
            print_build_requirements(hook, rest[::2], rest[1::2])
        case ["hook", backend, hook, folder]:
            getattr(import_module(backend), hook)(folder)
        case ["wheels", folder]:
            wheels(Path(folder).resolve())
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
