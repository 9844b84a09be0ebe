"""`amanda plugin new`: each template is complete, and passes its own tests."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from amanda.cli.scaffold import TEMPLATES, core_range, new_plugin, plugin_name
from amanda.errors import UsageError

TEMPLATES_FOLDER = Path(__file__).resolve().parents[2] / "plugins" / "_template"


def test_every_template_is_known():
    folders = [path.name for path in TEMPLATES_FOLDER.iterdir() if path.is_dir()]
    assert sorted(folders) == sorted(TEMPLATES)


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_template_is_for_this_core(kind):
    text = (TEMPLATES_FOLDER / kind / "pyproject.toml").read_text()
    assert core_range() in tomllib.loads(text)["project"]["dependencies"]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_everything_is_renamed(tmp_path, kind):
    folder = new_plugin("My.Own_thing", tmp_path / "plugins", kind)
    assert folder == tmp_path / "plugins" / "amanda-my-own-thing"
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert {
        "README.md",
        "pyproject.toml",
        "src/amanda_my_own_thing/__init__.py",
        "src/amanda_my_own_thing/amanda-plugin.toml",
        "src/amanda_my_own_thing/py.typed",
        "tests/test_plugin.py",
    } < {str(file.relative_to(folder)) for file in files}
    for file in files:
        assert "template" not in file.name
        assert "template" not in file.read_text()
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == "amanda-my-own-thing"
    for group in project["entry-points"].values():
        for key, value in group.items():
            assert "my-own-thing" in key
            assert value.startswith("amanda_my_own_thing.")
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_kind_without_a_template(tmp_path):
    with pytest.raises(UsageError, match="there is no template of a hook") as caught:
        new_plugin("x", tmp_path, "hook")
    assert str(caught.value.expected).startswith("one of format, mapping")


@pytest.mark.parametrize(
    "name", ["", "-", "amanda-", "a b", "../x", "é", "x;y", "x\n", "9x"]
)
def test_what_cannot_be_a_name_is_refused(name, tmp_path):
    with pytest.raises(UsageError, match="cannot be the name of a plug-in"):
        new_plugin(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["Amanda_Core", "namespaces"])
def test_names_of_what_is_installed_are_refused(name):
    with pytest.raises(UsageError, match="the name of an installed plug-in"):
        plugin_name(name)


def test_what_is_there_is_left_alone(tmp_path):
    (tmp_path / "amanda-x").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        new_plugin("x", tmp_path)
    assert list((tmp_path / "amanda-x").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be created") as caught:
        new_plugin("x", tmp_path / "file")
    assert caught.value.got is not None


def test_the_test_file_of_a_backend_is_short():
    path = TEMPLATES_FOLDER / "backend" / "tests" / "test_plugin.py"
    lines = path.read_text().splitlines()
    start = lines.index("class TestBackend(BackendSuite):")
    assert len([line for line in lines[start:] if line.strip()]) < 20


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A plug-in of each kind, installed in one folder."""
    for tool in ("pip", "hatchling"):
        if importlib.util.find_spec(tool) is None:
            pytest.skip(f"needs {tool} in this environment, to install a plug-in")
    folder = tmp_path_factory.mktemp("plugins")
    folders = [new_plugin(f"fresh-{kind}", folder, kind) for kind in TEMPLATES]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run(
        [*command, "--target", str(folder / "target"), *map(str, folders)],
        check=True,
        capture_output=True,
    )
    return folder


COUNTS = {
    "format": 19,
    "mapping": 23,
    "backend": 151,
    "namespace": 9,
    "pass": 10,
    "tool": 15,
}


@pytest.mark.most_cases(2)
@pytest.mark.parametrize("kind", TEMPLATES)
def test_it_passes_its_own_tests_once_installed(installed, kind):
    if kind in ("backend", "mapping", "tool"):
        pytest.importorskip("amanda_std")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=installed / f"amanda-fresh-{kind}",
        env={**os.environ, "PYTHONPATH": str(installed / "target")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert f"{COUNTS[kind]} passed" in done.stdout
