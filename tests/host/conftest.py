"""Plug-ins to test with: made by hand in a folder, or really built and installed."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amanda.host import Host

collect_ignore = ["samples"]  # distributions of their own, some broken on purpose

SAMPLES = Path(__file__).parent / "samples"


class Site:
    """A folder on the import path, with distributions as an installer leaves them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []

    def add(
        self,
        name: str,
        points: str = "",
        code: str = "",
        *,
        needs: str = "amanda-core>=0.1",
        manifest: str | None = None,
        metadata: str | None = None,
        extra: str = "",
    ) -> Path:
        """A distribution with one module; returns its dist-info folder."""
        module = name.replace("-", "_")
        info = self.folder / f"{module}-1.0.dist-info"
        info.mkdir()
        if metadata is None:
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            metadata += f"Requires-Dist: {needs}\n" if needs else ""
            metadata += extra
        (info / "METADATA").write_text(metadata)
        (info / "entry_points.txt").write_text(textwrap.dedent(points))
        files = [f"{module}/__init__.py"]
        (self.folder / module).mkdir()
        (self.folder / module / "__init__.py").write_text(textwrap.dedent(code))
        if manifest is not None:
            files.append(f"{module}/amanda-plugin.toml")
            (self.folder / files[-1]).write_text(textwrap.dedent(manifest))
        (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
        self.names.append(name)
        importlib.invalidate_caches()
        return info

    def host(self) -> Host:
        """A host that sees these distributions and the core, and no other."""
        return Host(only=",".join(["none", *self.names]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield Site(folder)
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


Ask = Callable[..., str]


def install(target: Path, *projects: Path) -> None:
    """Builds and installs, with what this environment has."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command += ["--target", str(target), *map(str, projects)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample plug-ins, built and installed into a folder of their own."""
    for tool in ("pip", "hatchling"):
        if importlib.util.find_spec(tool) is None:
            pytest.skip(f"needs {tool} in this environment, to install sample plug-ins")
    target = tmp_path_factory.mktemp("installed")
    install(target, *sorted(SAMPLES.iterdir()))
    return target


@pytest.fixture
def ask(installed: Path) -> Ask:
    """Runs code in a process that has the samples installed; returns what it prints."""

    def asked(code: str, **environment: str) -> str:
        given = {**os.environ, "PYTHONPATH": str(installed), **environment}
        names = [path.name for path in sorted(SAMPLES.iterdir())]
        given.setdefault("AMANDA_PLUGINS", ",".join(names))
        command = [sys.executable, "-c", textwrap.dedent(code)]
        done = subprocess.run(
            command, env=given, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return asked


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advice as where no plug-in is installed."""
    monkeypatch.setattr("amanda.addons._is_installed", lambda dist: False)
