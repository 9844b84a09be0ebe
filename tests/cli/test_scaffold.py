"""`amanda plugin new`: what it makes is whole, and passes its own tests."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from amanda.cli.scaffold import core_range, new_plugin, plugin_name
from amanda.errors import UsageError

TEMPLATE = Path(__file__).resolve().parents[2] / "plugins" / "_template"


def test_the_template_is_for_this_core():
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]
    assert core_range() in project["dependencies"]


def test_everything_is_renamed(tmp_path):
    folder = new_plugin("My.Own_thing", tmp_path / "plugins")
    assert folder == tmp_path / "plugins" / "amanda-my-own-thing"
    files = sorted(str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file())
    assert files == [
        "README.md",
        "pyproject.toml",
        "src/amanda_my_own_thing/__init__.py",
        "src/amanda_my_own_thing/amanda-plugin.toml",
        "src/amanda_my_own_thing/backend.py",
        "src/amanda_my_own_thing/format.py",
        "src/amanda_my_own_thing/py.typed",
        "tests/test_plugin.py",
    ]
    for file in files:
        assert "template" not in (folder / file).read_text()
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "amanda-my-own-thing"
    assert project["entry-points"]["amanda.backends"] == {
        "my-own-thing": "amanda_my_own_thing.backend:Backend"
    }
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("name", ["", "-", "amanda-", "a b", "../x", "é", "x;y", "x\n"])
def test_what_cannot_be_a_name_is_refused(name, tmp_path):
    with pytest.raises(UsageError, match="cannot be the name of a plug-in"):
        new_plugin(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_of_our_own_are_refused():
    with pytest.raises(UsageError, match="amanda-core is a part of Amanda"):
        plugin_name("Amanda_Core")


def test_what_is_there_is_left_alone(tmp_path):
    (tmp_path / "amanda-x").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        new_plugin("x", tmp_path)
    assert list((tmp_path / "amanda-x").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be made") as caught:
        new_plugin("x", tmp_path / "file")
    assert caught.value.got is not None


def test_its_test_file_is_short():
    lines = (TEMPLATE / "tests" / "test_plugin.py").read_text().splitlines()
    start = next(
        i for i, line in enumerate(lines) if line.startswith("class TestBackend")
    )
    assert len([line for line in lines[start:] if line.strip()]) < 20


def test_it_passes_its_own_tests_once_installed(tmp_path):
    for tool in ("pip", "hatchling"):
        if importlib.util.find_spec(tool) is None:
            pytest.skip(f"needs {tool} in this environment, to install a plug-in")
    folder = new_plugin("fresh-one", tmp_path)
    target = tmp_path / "target"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run(
        [*command, "--target", str(target), str(folder)],
        check=True,
        capture_output=True,
    )
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "52 passed" in done.stdout
