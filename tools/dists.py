"""Install, test, check and build the distributions of this repository.

    python tools/dists.py list                 their names
    python tools/dists.py install [NAME ...]   editable, with their local requirements
                                               and what their tests need
    python tools/dists.py run-time NAME ...    the same, without what tests need
    python tools/dists.py types                mypy over all of them, and what is beside
    python tools/dists.py wheels FOLDER        build all, install them afresh, try them

A distribution is core, namespaces, or any folder of plugins/ or examples/ that has a
pyproject.toml: nothing is listed. NAME may be `plugin-` and the name of a folder.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Dist:
    """One folder that builds a distribution."""

    folder: Path

    @cached_property
    def project(self) -> dict[str, Any]:
        text = (self.folder / "pyproject.toml").read_text(encoding="utf-8")
        table: dict[str, Any] = tomllib.loads(text)["project"]
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
    """Install editable, without isolation: the environment has the build backend."""
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
    folders = [part for dist in chosen for part in ("--editable", dist.folder)]
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    if not tests:
        pip.append("--no-compile")  # a fifth of the size
    run(
        *pip,
        "--disable-pip-version-check",
        "--no-build-isolation",
        *folders,
        *sorted(needs - local),
    )


def types() -> None:
    """Check types of everything but tests, which pass wrong types on purpose.

    The tests of examples are examples too. The framework of a plug-in may be missing.
    """
    mypy = (sys.executable, "-m", "mypy")
    run(*mypy)
    run(*mypy, "benchmarks", "tools", *sorted(ROOT.glob("examples/*.py")))
    for dist in dists().values():
        if dist.folder.parent.name == "examples":
            run(*mypy, "--ignore-missing-imports", dist.folder)
        elif dist.folder.parent.name == "plugins":
            run(*mypy, "--ignore-missing-imports", dist.folder / "src")


def build_wheel(dist: Dist, out: Path) -> Path:
    """Build the wheel of a distribution from its sdist, as a package index would.

    The wheel built from the repository must have the same files.
    """
    hatch = (sys.executable, "-m", "hatchling", "build", "-d")
    run(*hatch, out / "from-tree", "-t", "wheel", at=dist.folder)
    run(*hatch, out / "sdists", "-t", "sdist", at=dist.folder)
    stem = dist.name.replace("-", "_")
    (sdist,) = (out / "sdists").glob(f"{stem}-*.tar.gz")
    with tarfile.open(sdist) as archive:
        # the argument `filter` of extractall is newer than Python 3.11.3
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(out / "unpacked")  # noqa: S202  an archive of our own
    run(*hatch, out / "wheels", "-t", "wheel", at=out / "unpacked" / sdist.name[:-7])
    (wheel,) = (out / "wheels").glob(f"{stem}-*.whl")
    (other,) = (out / "from-tree").glob(f"{stem}-*.whl")
    if differing := wheel_files(wheel) ^ wheel_files(other):
        raise SystemExit(f"{dist.name}: sdist and tree differ in {sorted(differing)}")
    return wheel


def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def wheels(out: Path) -> None:
    """Build everything, install it into a new environment, and run smoke tests."""
    made = [build_wheel(dist, out) for dist in dists().values()]
    venv.create(out / "fresh", with_pip=True)
    folder = "Scripts" if sys.platform == "win32" else "bin"
    python = out / "fresh" / folder / "python"
    run(python, "-m", "pip", "install", "--quiet", *made, at=out)
    for script in smoke_tests():
        run(python, "-I", script, at=out)


def smoke_tests() -> Iterator[Path]:
    """tests/smoke.py, and those of plug-ins."""
    for folder in (ROOT, *(dist.folder for dist in dists().values())):
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
        case ["wheels", folder]:
            wheels(Path(folder).resolve())
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
