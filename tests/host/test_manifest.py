"""Manifests: where they are found, and what is wrong with one, all at once."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from amanda.host._manifest import parse, parse_magic

POINTS = {("formats", "f"), ("mappings", "m"), ("backends", "b")}


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("manifest = 1", []),
        ("", ["does not begin with its version: manifest = 1"]),
        ("manifest = true", ["does not begin with its version: manifest = 1"]),
        ("manifest = 7", ["version 7; this core reads versions up to 1"]),
        ("= 3", ["not TOML: Invalid"]),
        ("\udcff", ["not TOML: "]),
        ("a=" + "[" * 100_000, ["not TOML: "]),
        (
            "manifest = 1\n[formatz.f]",
            ["[formatz] is not a kind of plug-in; did you"],
        ),
        ("manifest = 1\nformats = 3", ["[formats]: must hold a table for each entry"]),
        ("manifest = 1\n[formats]\nf = 3", ["[formats.f]: must be a table"]),
        (
            "manifest = 1\n[formats.f]\n"
            "suffixes = ['/x']\nmagic = ['xyz']\nobjects = [1]",
            [
                "[formats.f]: suffixes: '/x' is not a suffix such as '.onnx'",
                "[formats.f]: magic: 'xyz' is not hexadecimal bytes@offset",
                "[formats.f]: objects: must be a list of strings",
            ],
        ),
        (
            "manifest = 1\n[mappings.m]\nfrom = 'a b'\nboth = 1",
            [
                "[mappings.m]: has no 'to'",
                "[mappings.m]: from: 'a b' is not the name of a namespace",
                "[mappings.m]: both: must be true or false",
            ],
        ),
        (
            "manifest = 1\n[backends.b]\ndoc = ' '",
            ["[backends.b]: doc: must be a string"],
        ),
        ("manifest = 1\nsettings = 3", ["[settings]: must be a table"]),
        (
            "manifest = 1\n[settings]\nPATH = 'folders'\nAMANDA_X = 1",
            [
                "[settings]: 'PATH' is not a name such as 'AMANDA_PATH'",
                "[settings]: AMANDA_X: must be a string",
            ],
        ),
    ],
)
def test_faults(text, faults):
    rows, found, settings = parse(text.encode(errors="surrogateescape"), POINTS)
    assert settings == {}
    assert len(found) == len(faults)
    for got, start in zip(found, faults, strict=True):
        assert got.startswith(start)
    assert rows == {}


def test_a_huge_manifest_is_not_read():
    assert parse(b"#" * (1 << 21), POINTS).faults == ("larger than 1,048,576 bytes",)


def test_good_rows_are_kept_beside_bad_ones():
    text = b"manifest = 1\n[formats.f]\nsuffixes = ['.f']\n[backends.b]\nbad = 1"
    rows, faults, _ = parse(text, POINTS)
    assert rows == {("formats", "f"): {"suffixes": [".f"]}}
    assert len(faults) == 1


def test_settings_are_environment_variables_with_their_meaning():
    text = b"manifest = 1\n[settings]\nAMANDA_X = 'folders, as in PATH'"
    assert parse(text, POINTS) == ({}, (), {"AMANDA_X": "folders, as in PATH"})


def test_magic_may_be_anywhere():
    parts = parse_magic("00ff@7 + 2a")
    assert [(part.offset, part.content) for part in parts] == [
        (7, b"\0\xff"),
        (0, b"*"),
    ]
    with pytest.raises(ValueError, match="not hexadecimal"):
        parse_magic("00@99999")


MANIFEST = "manifest = 1\n[passes.p]\ndoc = 'Does it'\n"
POINT = "[amanda.passes]\np = amanda_x:f\n"


def test_found_in_the_files_of_a_wheel(site):
    site.add("amanda-x", POINT, "1/0", manifest=MANIFEST)
    host = site.host()
    assert host.find("passes", "p").manifest == {"doc": "Does it"}
    assert "amanda_x" not in sys.modules


def test_found_in_the_sources_of_an_editable_install(site, tmp_path, monkeypatch):
    sources = tmp_path / "src" / "amanda_x" / "deep"
    sources.mkdir(parents=True)
    (sources.parent / "__init__.py").write_text("1/0")
    (sources / "amanda-plugin.toml").write_text(MANIFEST)
    info = site.add("amanda-x", "[amanda.passes]\np = amanda_x.deep.er:f\n")
    (info / "RECORD").write_text("__editable__.amanda_x.pth,,\n")
    _delete(site.folder / "amanda_x")
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    assert site.host().find("passes", "p").manifest == {"doc": "Does it"}
    assert "amanda_x" not in sys.modules


def test_found_through_a_finder_of_an_editable_install(site, tmp_path, monkeypatch):
    sources = tmp_path / "elsewhere"
    sources.mkdir()
    (sources / "amanda-plugin.toml").write_text(MANIFEST)
    info = site.add("amanda-x", POINT)
    (info / "RECORD").write_text("")
    _delete(site.folder / "amanda_x")

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "amanda_x":
                spec = ModuleSpec(name, None, is_package=True)
                spec.submodule_search_locations = [str(sources)]
                return spec
            return None

        @staticmethod
        def find_distributions(context):
            return ()

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    assert site.host().find("passes", "p").manifest == {"doc": "Does it"}


def test_one_that_is_far_from_every_entry_is_data(site):
    info = site.add("amanda-x", POINT, manifest=MANIFEST)
    with (info / "RECORD").open("a") as record:
        record.write("amanda_x/_template/src/other/amanda-plugin.toml,,\n")
    assert site.host().find("passes", "p").manifest == {"doc": "Does it"}


def test_one_anywhere_will_do_for_a_module_without_a_package(site):
    info = site.add("amanda-x", POINT)
    (info / "amanda-plugin.toml").write_text(MANIFEST)
    with (info / "RECORD").open("a") as record:
        record.write(f"{info.name}/amanda-plugin.toml,,\n")
    assert site.host().find("passes", "p").manifest == {"doc": "Does it"}


def test_two_manifests_are_one_too_many(site):
    point = "[amanda.passes]\np = amanda_x.deep:f\n"
    info = site.add("amanda-x", point, manifest=MANIFEST)
    (site.folder / "amanda_x" / "deep").mkdir()
    (site.folder / "amanda_x" / "deep" / "amanda-plugin.toml").write_text(MANIFEST)
    with (info / "RECORD").open("a") as record:
        record.write("amanda_x/deep/amanda-plugin.toml,,\n")
    entry = site.host().find("passes", "p")
    assert entry.fault.startswith("its amanda-plugin.toml is faulty: has 2 of them: ")


def test_one_that_is_listed_and_not_there_is_told(site):
    site.add("amanda-x", POINT, manifest=MANIFEST)
    (site.folder / "amanda_x" / "amanda-plugin.toml").unlink()
    entry = site.host().find("passes", "p")
    assert "its amanda-plugin.toml is faulty: cannot be read" in entry.fault
    assert entry.state == "broken"


def test_none_is_fine(site):
    site.add("amanda-x", POINT, "f = len")
    assert site.host().find("passes", "p").manifest == {}


def test_a_real_editable_install_is_read(tmp_path):
    """As hatchling makes it, with a path file that only the start of Python reads."""
    for tool in ("pip", "hatchling", "editables"):
        pytest.importorskip(tool, reason=f"needs {tool} to install a sample plug-in")
    sample = Path(__file__).parent / "samples" / "amanda-sample-good"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command += ["--ignore-installed", "--prefix", str(tmp_path), "-e", str(sample)]
    subprocess.run(command, check=True, capture_output=True)
    (packages,) = tmp_path.glob("**/site-packages")
    code = (
        f"import site; site.addsitedir({str(packages)!r})\n"
        "from amanda.host import Host\n"
        "import sys\n"
        "print(Host().find('backends', 'sample-good').manifest['doc'])\n"
        "print('amanda_sample_good' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "Negates\nFalse\n"


def _delete(package: Path) -> None:
    for file in package.iterdir():
        file.unlink()
    package.rmdir()
