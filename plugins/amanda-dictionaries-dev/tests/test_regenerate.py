"""The data beside the frameworks: made again, compared, nothing differs."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from amanda.cli import run_command_line
from amanda.dictionary import (
    DictionaryFolder,
    DictionaryHeader,
    DictionaryHistory,
    OpDef,
    definition_steps,
    parse_signature,
)
from amanda.errors import NamespaceError, PluginMissingError
from amanda.host import Host, default_host
from amanda_dictionaries_dev import (
    Comparison,
    ExtractedDictionary,
    Extractor,
    InstalledOps,
    compare,
    manifest_text,
    merge_versions,
    op_histories,
    read_raw_data,
    save,
)
from amanda_dictionaries_dev.command import command

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "namespaces" / "src" / "amanda_namespaces"
RAW = ROOT / "namespaces" / "raw"
GENERATORS = [entry.name for entry in default_host().entries("extractors")]

# How many entries the installed framework has, counted by other means: the numbers that
# the issues of this project name, read from the frameworks' own libraries.
COUNTED = {
    ("tensorflow", "2.21.0"): 1799,
    ("torch", "2.13.0"): 3101,
}


@pytest.fixture(scope="session")
def shelf() -> DictionaryFolder:
    return DictionaryFolder(PACKAGE, "amanda-namespaces")


@cache
def generator(name: str) -> Extractor:
    """A generator that asks its framework once, for that takes seconds."""
    found: Extractor = default_host().get("extractors", name)
    found.installed_ops = cache(found.installed_ops)  # type: ignore[method-assign]
    return found


@cache
def compared(name: str) -> Comparison:
    """What the installed framework says, beside the data; it takes seconds."""
    made = generator(name)
    return compare(made, DictionaryFolder(PACKAGE)[made.path])


@pytest.mark.most_cases(3)
@pytest.mark.parametrize("name", GENERATORS)
def test_the_framework_says_the_same(name: str) -> None:
    try:
        check = compared(name)
    except PluginMissingError as error:
        pytest.skip(str(error))
    if check.unknown and not check.versions:
        pytest.skip(f"the data does not have {check.source}")
    assert check.faults == ()
    assert check.compared > 0


@pytest.mark.most_cases(3)
@pytest.mark.parametrize("name", GENERATORS)
def test_the_index_says_what_it_was_compared_with(
    name: str, shelf: DictionaryFolder
) -> None:
    try:
        check = compared(name)
    except PluginMissingError as error:
        pytest.skip(str(error))
    path = generator(name).path
    if not check.versions:
        pytest.skip(f"the data does not have {check.source}")
    told = shelf.index[path]["checked"]
    if not told.startswith(f"{check.source}:"):
        pytest.skip(f"the data was compared with {told}, installed is {check.source}")
    assert told == check.summary


@pytest.mark.parametrize(("name", "version"), COUNTED)
def test_as_many_as_counted(name: str, version: str) -> None:
    if name not in GENERATORS:
        pytest.skip(f"no generator of {name} is installed")
    try:
        live = generator(name).installed_ops()
    except PluginMissingError as error:
        pytest.skip(str(error))
    if version not in live.versions:
        pytest.skip(f"{live.source} is installed, counted is {version}")
    waived = generator(name).waivers
    counted = [
        entry
        for entry in live.versions[version]
        if entry.name not in waived
        and (name != "torch" or entry.name.startswith("aten."))
    ]
    assert len(counted) == COUNTED[name, version]


@pytest.mark.most_cases(3)
@pytest.mark.parametrize("name", GENERATORS)
def test_the_data_is_made_again(
    name: str, shelf: DictionaryFolder, tmp_path: Path
) -> None:
    """To the byte: from raw data where it is at hand, or with the installed version
    put into the history once more."""
    made = generator(name)
    row = shelf.index[made.path]
    if row["checked"]:
        try:
            check = compared(name)
        except PluginMissingError as error:
            pytest.skip(str(error))
        if not row["checked"].startswith(f"{check.source}:"):
            pytest.skip(f"the data is of {row['checked']}, installed is {check.source}")
    assert anew(made, shelf, tmp_path).encode() == (PACKAGE / row["file"]).read_bytes()


def anew(made: Extractor, shelf: DictionaryFolder, folder: Path) -> ExtractedDictionary:
    found = made.extract(None)
    given = Path(os.environ.get("AMANDA_TEST_DATA", ""), "namespace-data")
    # the repository has all raw data of some dictionaries
    own = (RAW / f"{made.path.removeprefix('amanda/')}.jsonl").is_file()
    if found is None and (own or given.is_dir()):
        for file in (*RAW.glob("*.jsonl"), *given.glob("*.jsonl")):
            shutil.copy(file, folder)
        found = made.extract(folder)
    return (
        merge_versions(shelf[made.path], made, made.installed_ops())
        if found is None
        else found
    )


def test_the_manifest_is_that_of_the_index(shelf: DictionaryFolder) -> None:
    text = (PACKAGE / "amanda-plugin.toml").read_text(encoding="utf-8")
    assert manifest_text(shelf.index) == text


# Dictionaries from no package: Amanda's own, and a file of the user.
OURS = {"amanda/nd4j", "amanda/std"}


def test_sources_of_all_versions(shelf: DictionaryFolder) -> None:
    """Each version with a package file that has it; `*` stands for all of them."""
    text = (PACKAGE / "sources.json").read_text(encoding="utf-8")
    sources = json.loads(text)
    assert set(sources) == set(shelf.index) - OURS
    for path, found in sources.items():
        versions = set(shelf.index[path]["versions"])
        assert set(found) in (versions, {"*"}), path
        for row in found.values():
            assert set(row) == {"file", "sha256"}
            assert re.fullmatch(r"[A-Za-z_]+-\d[^/\s]*\.whl", row["file"])
            assert re.fullmatch(r"[0-9a-f]{64}", row["sha256"])
    rows = {tuple(row.values()) for found in sources.values() for row in found.values()}
    files, digests = zip(*rows, strict=True)
    assert len(set(files)) == len(set(digests)) == len(rows) > 180


# -- the generic half, on a dictionary of two ops ----------------------------------

A1 = parse_signature("A(x: f32) -> (y: f32)")
A2 = parse_signature("A(x: f32, *, n: int = 1) -> (y: f32)")
B = parse_signature("B() -> ()")


class Small(Extractor):
    header = DictionaryHeader("acme/small", ())

    def __init__(
        self,
        versions: Mapping[str, list[OpDef]],
        waivers: Mapping[str, str] | None = None,
    ) -> None:
        self.versions = versions
        self.waivers = waivers or {}

    def installed_ops(self) -> InstalledOps:
        return InstalledOps("acme 9", self.versions)


def stored(made: ExtractedDictionary) -> DictionaryHistory:
    return DictionaryHistory("acme/small", made.encode)


def grown(*steps: Mapping[str, list[OpDef]]) -> DictionaryHistory:
    """A history that one installed version after another was put into."""
    found: DictionaryHistory | None = None
    for versions in steps:
        small = Small(versions)
        found = stored(merge_versions(found, small, small.installed_ops()))
    assert found is not None
    return found


def test_versions_are_put_in_order() -> None:
    data = grown({"2": [A2]}, {"1": [A1, B]}, {"3": [A2, B]})
    assert data.versions() == ("1", "2", "3")
    assert [list(data.at(version).values()) for version in "123"] == [
        [A1, B],
        [A2],
        [A2, B],
    ]
    assert data.record("A").block.steps == (  # type: ignore[union-attr]
        ("1", "(x: f32) -> (y: f32)"),
        ("2", "(x: f32, *, n: int = 1) -> (y: f32)"),
    )


def test_a_version_in_between_leaves_its_neighbours() -> None:
    data = grown({"1": [A1], "3": [A1]}, {"2": [A2]})
    assert [data.at(version)["A"] for version in "123"] == [A1, A2, A1]


def test_a_version_is_replaced() -> None:
    data = grown({"1": [A1, B]}, {"1": [A2]})
    assert list(data.at("1").values()) == [A2]
    assert data.names == ("A",)


def test_lines_about_ops_are_those_of_the_newest() -> None:
    about, on = replace(A1, doc="About A."), replace(A2, doc="On A.")
    assert grown({"1": [about]}, {"2": [A2]}).at("2")["A"].doc == "About A."
    assert grown({"1": [about]}, {"2": [on]}).at("1")["A"].doc == "On A."
    assert grown({"2": [on]}, {"1": [about]}).at("2")["A"].doc == "On A."


def test_documentation_of_arguments_is_that_of_the_newest() -> None:
    old = A1.with_docs({"in x": "The argument", "out y": "The result"})
    new = A2.with_docs({"in x": "The input", "attr n": "How often"})
    data = grown({"1": [old]}, {"2": [new]})
    expected = {"in x": "The input", "out y": "The result"}
    assert data.at("1")["A"].docs == expected
    assert data.at("2")["A"].docs == {**expected, "attr n": "How often"}


def test_what_is_waived_stays_as_it_is() -> None:
    data = grown({"1": [A1]})
    small = Small({"1": [A2, B], "2": [A2, B]}, {"A": "acme hides it", "B": "too"})
    again = stored(merge_versions(data, small, small.installed_ops()))
    assert list(again.at("1").values()) == [A1]
    assert list(again.at("2").values()) == [A1]


def test_what_differs_is_told() -> None:
    data = grown({"1": [A1, replace(B, doc="About B.")]})
    assert compare(Small({"1": [A1, B]}), data).is_same
    assert compare(Small({"1": [A2]}), data).faults == (
        f"1 A: the framework has {A2}, the dictionary {A1}",
        f"1 B: in the dictionary, but not in the framework: {B}",
    )
    other = Small({"1": [A1, replace(B, doc="On B.")]})
    assert compare(other, data).faults == (
        "1 B: documented in the framework as 'On B.', in the dictionary 'About B.'",
    )
    assert compare(Small({"2": [A1]}), data).unknown == ("2",)
    assert not compare(Small({"2": [A1]}), data).is_same


def test_waivers_are_told_and_needed() -> None:
    data = grown({"1": [A1, B]})
    check = compare(Small({"1": [A1]}, {"B": "acme hides it"}), data)
    assert check.is_same
    assert check.waived == (
        f"1 B: in the dictionary, but not in the framework: {B} (acme hides it)",
    )
    assert check.summary == "acme 9: 2 entries, 0 differences, 1 waived"
    check = compare(Small({"1": [A1, B]}, {"B": "acme hides it"}), data)
    assert check.faults == ("the waiver of B is not needed",)


def test_an_op_twice_is_refused() -> None:
    with pytest.raises(NamespaceError, match="acme/small 1 defines A twice"):
        grown({"1": [A1, A2]})


def test_a_definition_that_cannot_be_read_back_is_refused() -> None:
    with pytest.raises(NamespaceError, match="the definition of A"):
        definition_steps([("1", replace(A1, traits=frozenset({"Not A Trait"})))])


LINES = (
    '{"versions": ["1", "2"]}\n["A", [[0, 1], [1, 2]]]\n["B", [[0, 0], [1, null]]]\n'
)


def test_raw_data(tmp_path: Path) -> None:
    file = tmp_path / "small.jsonl"
    file.write_text(LINES)
    raw = read_raw_data(file)
    made = op_histories(raw, lambda _, found: (B, A1, A2)[found], {"A": "About A."})
    data = stored(
        ExtractedDictionary(DictionaryHeader("acme/small", raw.versions), made)
    )
    assert list(data.at("1").values()) == [A1, B]
    assert list(data.at("2").values()) == [A2]
    assert data.at("2")["A"].doc == "About A."


def test_raw_data_in_several_files(tmp_path: Path) -> None:
    """Versions of a later file replace those of an earlier one, or stand between."""
    file, other = tmp_path / "small.jsonl", tmp_path / "small.more.jsonl"
    file.write_text(LINES)
    other.write_text('{"versions": ["1", "1.5"]}\n["C", [[0, 0]]]\n["A", [[1, 3]]]\n')
    raw = read_raw_data(file, other)
    assert raw.versions == ("1", "1.5", "2")
    assert raw.tables() == {"1": {"C": 0}, "1.5": {"C": 0, "A": 3}, "2": {"A": 2}}
    assert raw.ops == {
        "A": [("1.5", 3), ("2", 2)],
        "C": [("1", 0), ("2", None)],
    }


@pytest.mark.parametrize(
    "text", ["", "{}", LINES[:-9], LINES.replace("[1, 2]", "[2, 2]"), "[1]"]
)
def test_broken_raw_data_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "small.jsonl"
    file.write_text(text)
    with pytest.raises(
        NamespaceError, match="this is not a raw data file of a dictionary"
    ):
        read_raw_data(file)


def test_what_is_saved_is_a_shelf(tmp_path: Path) -> None:
    small = Small({"1": [A1, B]})
    made = merge_versions(None, small, small.installed_ops())
    assert save(made, tmp_path, "acme 9: 2 entries, 0 differences") == "small.ops"
    shelf = DictionaryFolder(tmp_path)
    assert list(shelf) == ["acme/small"]
    assert list(shelf["acme/small"].at("1").values()) == [A1, B]
    assert shelf.index["acme/small"]["checked"] == "acme 9: 2 entries, 0 differences"
    assert shelf.index["acme/small"]["source"] == "acme 9"


# -- the command line --------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host that has data of A and B, and a framework that has another A."""
    host = Host(points=())
    host.register_namespace("acme/small", grown({"1": [A1, B]}))
    host.register_extractor("acme/small", Small({"1": [A2, B]}))
    host.register_command("namespace", command)
    monkeypatch.setattr("amanda.host.default_host", lambda: host)
    monkeypatch.setattr("amanda_dictionaries_dev.command.default_host", lambda: host)
    return host


def test_check_tells_what_differs(
    small: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["namespace", "check"]) == 1
    assert capsys.readouterr().out == (
        "dictionary  compared with  entries  differ  waived\n"
        "acme/small  acme 9               2       1       0\n"
        f"acme/small: 1 A: the framework has {A2}, the dictionary {A1}\n"
    )


def test_regenerate_writes_a_folder(
    small: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run_command_line(["namespace", "regenerate", "acme/small", "-o", str(tmp_path)])
        == 0
    )
    assert capsys.readouterr().out == (
        f"{tmp_path / 'small.ops'}: 2 ops, from acme 9\n"
        "versions: 1, 1 to 1\n"
        "compared with: acme 9: 2 entries, 0 differences\n"
    )
    assert list(DictionaryFolder(tmp_path)["acme/small"].at("1").values()) == [A2, B]


def test_regenerate_needs_to_know_where(
    small: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["namespace", "regenerate", "acme/small"]) == 1
    assert capsys.readouterr().err == (
        "amanda namespace regenerate: no dictionary of acme/small is installed\n"
        "  to do:    give the output folder with -o FOLDER\n"
    )


def test_raw_data_is_refused_where_it_is_not_used(
    small: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["namespace", "regenerate", "acme/small", "--raw", str(tmp_path)]
    assert run_command_line([*line, "-o", str(tmp_path)]) == 1
    assert "acme/small is not extracted from raw data" in capsys.readouterr().err


class Absent(Small):
    def installed_ops(self) -> InstalledOps:
        raise PluginMissingError("acme is not installed")


def test_a_framework_that_is_absent(
    small: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    small.register_extractor("acme/small", Absent({}), replace=True)
    assert run_command_line(["namespace", "check"]) == 1
    assert (
        capsys.readouterr().out == "acme/small: not compared: acme is not installed\n"
    )
    assert run_command_line(["namespace", "check", "acme/small"]) == 3
