"""`plugins` and `doctor`: every plug-in and the installation, with causes."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import amanda
from amanda.cli.plugin_verbs import PluginVerb, list_plugin_verbs

if TYPE_CHECKING:
    from tests.cli.conftest import Call


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path where distributions can be put."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("amanda.host._default", None)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("amanda_"):
            del sys.modules[name]


def put(
    folder: Path, name: str, points: str, core: str = ">=0.1", code: str = ""
) -> None:
    """A distribution as an installer leaves it."""
    module = name.replace("-", "_")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    (info / "METADATA").write_text(f"{head}Requires-Dist: amanda-core{core}\n")
    (info / "entry_points.txt").write_text(points)
    (folder / f"{module}.py").write_text(code)
    importlib.invalidate_caches()


COUNT = """
import click
from amanda.cli import Answer, verb

@verb("count", "count")
@click.argument("file")
def count(file):
    return Answer({"file": file}, ["counted " + file])
"""


def test_the_core_is_listed(call: Call) -> None:
    ended = call("plugins")
    assert ended.code == 0
    headings = ended.out.splitlines()[0].split()
    assert headings == ["plug-in", "version", "state", "offers"]
    assert "formats amanda, json" in ended.out


def test_none(call: Call, host: amanda.Host) -> None:
    assert call("plugins") == (0, "no plug-in is installed\n", "")
    assert call("plugins", "--json").json["plugins"] == []


def test_causes_are_told(call: Call, installed: Path) -> None:
    put(installed, "amanda-new", "[amanda.passes]\nneat = amanda_new:f\n", core=">=99")
    put(installed, "amanda-one", "[amanda.passes]\nsame = amanda_one:f\n")
    put(installed, "amanda-two", "[amanda.passes]\nsame = amanda_two:f\n")
    ended = call("plugins", "--json")
    assert ended.code == 1
    plugins = {plugin["dist"]: plugin for plugin in ended.json["plugins"]}
    assert plugins["amanda-core"]["state"] in {"found", "loaded"}
    assert plugins["amanda-core"]["why"] is None
    assert plugins["amanda-new"]["state"] == "incompatible"
    assert plugins["amanda-one"]["state"] == "clash"
    assert plugins["amanda-one"]["why"] == "pass 'same' is also in amanda-two"
    text = call("plugins").out
    assert "\namanda-one: pass 'same' is also in amanda-two\n" in text


def test_probe_finds_what_a_look_cannot(
    call: Call, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = amanda.Host.plugins
    names = ("amanda-core", "amanda-ends")  # others may be many, and slow
    monkeypatch.setattr(
        amanda.Host,
        "plugins",
        lambda host: tuple(p for p in listed(host) if p.dist in names),
    )
    code = "import os\nos._exit(3)\n"
    put(installed, "amanda-ends", "[amanda.passes]\nx = amanda_ends:f\n", code=code)
    assert call("plugins").code == 0
    ended = call("plugins", "--probe", "--json")
    assert ended.code == 1
    plugins = {plugin["dist"]: plugin for plugin in ended.json["plugins"]}
    assert plugins["amanda-ends"]["state"] == "crashes"
    assert "exit code 3" in plugins["amanda-ends"]["why"]
    assert plugins["amanda-core"]["state"] == "usable"


def test_one_left_out_is_not_ill(
    call: Call, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(installed, "amanda-one", "[amanda.passes]\nsame = amanda_one:f\n")
    monkeypatch.setenv("AMANDA_PLUGINS", "none")
    ended = call("plugins")
    assert ended.code == 0
    assert "left out by AMANDA_PLUGINS" in ended.out


def test_a_verb_of_an_installed_plugin(call: Call, installed: Path) -> None:
    points = "[amanda.commands]\ncount = amanda_counts:count\ngone = amanda_counts:no\n"
    put(installed, "amanda-counts", points, code=COUNT)
    listed = re.findall(r"^  (\w+) +from (.+)$", call("--help").out, re.MULTILINE)
    assert ("count", "amanda-counts 1.0") in listed
    assert call("count", "x.onnx") == (0, "counted x.onnx\n", "")
    ended = call("gone")
    assert ended.code == 3
    assert "command 'gone' of amanda-counts 1.0 cannot be used" in ended.err


def test_listing_without_the_host_says_what_the_host_says(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = (
        "[amanda.commands]\ncount = amanda_my_own:count\n# no = x:y\nodd\n[x]\nz = y\n"
    )
    put(installed, "amanda-my-own", points)
    put(installed, "amanda-none", "[amanda.passes]\nx = amanda_none:f\n")
    asked = list_plugin_verbs()
    ours = [offer for offer in asked if offer.source.startswith("amanda-my-own")]
    assert ours == [PluginVerb("count", "amanda-my-own 1.0")]
    with monkeypatch.context() as patch:
        for name in [name for name in sys.modules if name.startswith("amanda.host")]:
            patch.delitem(sys.modules, name)
        assert list_plugin_verbs() == asked
        assert "amanda.host" not in sys.modules


def test_a_verb_that_is_no_command(call: Call, installed: Path) -> None:
    points = "[amanda.commands]\ncount = amanda_counts:count\n"
    put(installed, "amanda-counts", points, code="def count(): ...\n")
    ended = call("count")
    assert ended.code == 3
    assert ended.err.splitlines()[:3] == [
        "amanda: command 'count' of amanda-counts 1.0 cannot be used",
        "  expected: a click.Command, such as amanda.cli.verb makes",
        "  got:      function",
    ]


def test_a_clash_is_resolved_by_the_full_name(call: Call, installed: Path) -> None:
    for name in ("amanda-one", "amanda-two"):
        module = name.replace("-", "_")
        points = f"[amanda.commands]\nsame = {module}:same\n"
        put(installed, name, points, code=COUNT.replace("count", "same"))
    ended = call("same")
    assert ended.code == 3
    assert "to do:    choose amanda-one:same or amanda-two:same" in ended.err
    advice = "or choose by the full name: amanda-two:same"
    assert advice in call("doctor").out
    assert call("amanda-two:same", "x").code == 0


def test_doctor_is_content(call: Call) -> None:
    ended = call("doctor")
    assert ended.code == 0, ended.out
    assert ended.out.endswith("\nall is well\n")
    names = [check["name"] for check in call("doctor", "--json").json["checks"]]
    assert names[:2] == ["python", "amanda-core"]
    assert {"numpy", "protobuf", "plug-in amanda-core", "memory"} <= set(names)


def test_doctor_tells_what_to_do(
    call: Call, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(installed, "amanda-new", "[amanda.passes]\nneat = amanda_new:f\n", core=">=99")
    monkeypatch.setenv("AMANDA_PLUGIN", "none")
    ended = call("doctor")
    assert ended.code == 1
    assert (
        "to do, AMANDA_PLUGIN: nothing reads this variable; did you mean "
        "AMANDA_PLUGINS?\n"
    ) in ended.out
    repair = "pip install --upgrade amanda-new amanda-core, or uninstall it"
    assert f"to do, plug-in amanda-new: {repair}\n" in ended.out


def test_doctor_sees_a_library_that_is_too_old(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(
        "importlib.metadata.version",
        lambda name: "5.0" if name == "click" else real(name),
    )
    ended = call("doctor")
    assert ended.code == 1
    assert "to do, click: pip install 'click>=" in ended.out


@pytest.mark.skipif(os.name == "nt", reason="folders are made read-only POSIX's way")
def test_doctor_sees_a_temporary_folder_that_is_gone(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    ended = call("doctor")
    assert ended.code == 1
    assert "to do, temporary files: set TMPDIR to a writable folder\n" in ended.out


def test_the_guide_lists_the_settings_of_the_core() -> None:
    """Its manifest has them, which the doctor reads."""
    source = Path(amanda.__file__).parent
    manifest = tomllib.loads(
        (source / "amanda-plugin.toml").read_text(encoding="utf-8")
    )
    guide = (source.parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(AMANDA_[A-Z_]+)`", guide, re.MULTILINE)
    assert set(listed) == set(manifest["settings"])


def test_doctor_knows_the_settings_of_plugins(
    call: Call, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = "manifest = 1\n[settings]\nAMANDA_NEW_PATH = 'folders, as in PATH'\n"
    put(installed, "amanda-new", "[amanda.passes]\nneat = amanda_new.neat:f\n")
    (installed / "amanda_new").mkdir()
    (installed / "amanda_new" / "amanda-plugin.toml").write_text(manifest)
    record = installed / "amanda_new-1.0.dist-info" / "RECORD"
    record.write_text("amanda_new/amanda-plugin.toml,,\n")
    monkeypatch.setenv("AMANDA_NEW_PATH", "/opt/new")
    monkeypatch.setenv("AMANDA_FUZZ_SECONDS", "3")
    checks = call("doctor", "--json").json["checks"]
    assert {"AMANDA_NEW_PATH", "AMANDA_FUZZ_SECONDS"} <= {
        check["name"] for check in checks if check["well"]
    }
    monkeypatch.setenv("AMANDA_NEW_PATHS", "/opt/new")
    assert "did you mean AMANDA_NEW_PATH?" in call("doctor").out


def test_plugin_new(call: Call, tmp_path: Path) -> None:
    ended = call("plugin", "new", "fresh", "--dir", tmp_path)
    assert ended.code == 0, ended.err
    made = tmp_path / "amanda-fresh"
    assert ended.out.startswith(f"created {made}\n")
    assert (made / "pyproject.toml").is_file()
    again = call("plugin", "new", "fresh", "--dir", tmp_path)
    assert again.code != 0
    assert "amanda-fresh" in again.err
    asked = call("plugin", "new", "other", "--dir", tmp_path, "--json").json
    assert asked["verb"] == "plugin new"
    assert "pyproject.toml" in asked["files"]
