"""The data files: exact counts, made again from their sources, refused when changed."""

from __future__ import annotations

import re
import shutil
import tomllib
import zipfile
from pathlib import Path

import pytest

from amanda.dictionary import (
    DictionaryFolder,
    DictionaryHeader,
    DictionaryHistory,
    OpHistory,
    encode_data_file,
)
from amanda.errors import NamespaceError
from amanda.graph import Graph
from amanda.types import parse_type

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "namespaces" / "src" / "amanda_namespaces"


TENSORFLOW = {
    "1.13.1": 1167,
    "1.15.0": 1392,
    "2.4.0": 1552,
    "2.12.0": 1729,
    "2.21.0": 1799,
}


@pytest.mark.parametrize(("version", "count"), TENSORFLOW.items())
def test_counts_of_tensorflow(
    tensorflow: DictionaryHistory, version: str, count: int
) -> None:
    dictionary = tensorflow.at(version)
    assert len(dictionary) == len(list(dictionary)) == count


DOCUMENTED = {"amanda/onnx": 0.99, "amanda/onnx.ml": 0.99, "amanda/tensorflow": 0.3}
"""The share of inputs and outputs of the newest version that have documentation.

TensorFlow documents more inputs than outputs, and few of simple ops."""


@pytest.mark.parametrize(("path", "share"), DOCUMENTED.items())
def test_inputs_and_outputs_are_documented(
    shelf: DictionaryFolder, path: str, share: float
) -> None:
    history = shelf[path]
    entries = list(history.at(history.versions()[-1]).values())
    ports = [port for e in entries for port in (*e.inputs, *e.outputs)]
    documented = [port.doc for port in ports if port.doc]
    assert len(documented) >= share * len(ports)
    assert all("\n" not in doc and len(doc) <= 200 for doc in documented)


# How many ops the generated files of contrib have, of those that the main library does
# not: as many as the issues of this project name, for the least and for the most.
CONTRIB = {"1.3.0": 130, "1.5.0": 130, "1.13.1": 184}
# Ops of contrib's libraries for which these releases generate no file.
UNGENERATED = {
    "1.3.0": {"SingleImageRandomDotStereograms"},
    "1.5.0": {"HyperplaneLSHProbes"},
    "1.13.1": {"HyperplaneLSHProbes"},
}


@pytest.mark.parametrize(("version", "count"), CONTRIB.items())
def test_counts_of_contrib(shelf: DictionaryFolder, version: str, count: int) -> None:
    dictionary = shelf["amanda/tensorflow.contrib"].at(version)
    public = {name for name in dictionary if not name.startswith("_")}
    assert public >= UNGENERATED[version]
    assert len(public - UNGENERATED[version]) == count


def test_contrib_is_beside_the_main_library(
    shelf: DictionaryFolder, tensorflow: DictionaryHistory
) -> None:
    """A version of both is of one release, and no op is in both."""
    contrib = shelf["amanda/tensorflow.contrib"]
    ones = [v for v in tensorflow.versions() if v.startswith(("0.", "1."))]
    assert list(contrib.versions()) == ones
    for version in ones:
        assert set(contrib.at(version)).isdisjoint(tensorflow.at(version))
    for version, home in (("1.4.0", contrib), ("1.5.0", tensorflow)):
        assert "BlockLSTM" in home.at(version)  # it moved to the main library


# Lines of schemas in the list of operators that the packages of these releases have.
DECLARED = {"1.2.0": 1174, "1.3.0": 1192, "1.5.0": 1338, "1.6.0": 1397, "1.7.0": 1665}


@pytest.mark.parametrize(("version", "count"), DECLARED.items())
def test_counts_of_torch(shelf: DictionaryFolder, version: str, count: int) -> None:
    assert len(shelf["amanda/torch"].at(version)) == count


def test_nothing_of_torchscript_alone(shelf: DictionaryFolder) -> None:
    """Lists and words are no operators of aten, in no version."""
    history = shelf["amanda/torch"]
    for version in history.versions():
        dictionary = history.at(version)
        for base in ("append", "len", "__getitem__", "__contains__", "keys"):
            assert not dictionary.overloads(f"aten.{base}"), version
    old = [v for v in history.versions() if v < "1.7"]
    texts = [str(entry) for v in old for entry in history.at(v).values()]
    assert not [text for text in texts if "any<t" in text or "Dict(" in text]


def test_patches_of_torch_change_no_operator(shelf: DictionaryFolder) -> None:
    torch = shelf["amanda/torch"]
    for first, second in (("1.3.0", "1.3.1"), ("1.5.0", "1.5.1"), ("1.7.0", "1.7.1")):
        assert list(torch.at(first).values()) == list(torch.at(second).values())


# -- opsets as they were released --------------------------------------------------

# What onnx changed afterwards in schemas that have a number since 1.5.
CHANGED = {
    "Attention": ("25", "26", "27"),
    "Erf": tuple(map(str, range(13, 25))),
    "GlobalLpPool": ("22",),
    "GridSample": ("16", "17"),
    "GroupNormalization": ("18", "19", "20"),
    "Scan": tuple(map(str, range(10, 17))),
}
EXPERIMENTAL = {"ATen", "Affine", "Crop", "GRUUnit", "GivenTensorFill",
                "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh",
                "ThresholdedRelu"}  # fmt: skip


def test_opsets_as_they_were_released(
    shelf: DictionaryFolder, onnx: DictionaryHistory
) -> None:
    released = shelf["amanda/onnx.released"]
    assert released.versions() == onnx.versions()
    differing: dict[str, list[str]] = {}
    for version in map(str, range(10, 29)):
        then, now = released.at(version), onnx.at(version)
        assert set(then) == set(now)
        for name in then:
            if then[name] != now[name]:
                differing.setdefault(name, []).append(version)
    assert {name: tuple(found) for name, found in differing.items()} == CHANGED
    assert released.at("18")["GroupNormalization"].deprecated is None
    assert onnx.at("18")["GroupNormalization"].deprecated is not None
    assert "left_window_size" not in released.at("27")["Attention"].attrs_by_name


def test_experimental_ops(shelf: DictionaryFolder, onnx: DictionaryHistory) -> None:
    released = shelf["amanda/onnx.released"]
    for version in map(str, range(1, 10)):
        then = released.at(version)
        assert {n for n in EXPERIMENTAL if "experimental" in then[n].traits}
        assert EXPERIMENTAL.isdisjoint(onnx.at(version))
        assert set(then) >= EXPERIMENTAL | set(onnx.at(version))
    # ThresholdedRelu became an op of opset 10
    assert EXPERIMENTAL & set(released.at("10")) == {"ThresholdedRelu"}
    assert "experimental" not in released.at("10")["ThresholdedRelu"].traits


def test_an_old_model_was_right_when_it_was_made(
    shelf: DictionaryFolder, onnx: DictionaryHistory
) -> None:
    graph = Graph("amanda/onnx/7")
    graph.imports[""] = 7
    x = graph.parameter(parse_type("float32[2]"), name="x")
    op = graph.add("Affine", [x], {"alpha": 2.0, "beta": 1.0}, name="a")
    graph.result(op.output, name="y")
    assert [p.kind for p in onnx.at("7").validate(graph)] == ["unknown op"]
    assert shelf["amanda/onnx.released"].at("7").validate(graph) == []


def test_versions(onnx: DictionaryHistory, tensorflow: DictionaryHistory) -> None:
    assert onnx.versions() == tuple(str(i) for i in range(1, 29))
    assert len(tensorflow.versions()) == 102
    assert tensorflow.versions()[0] == "0.12.0"
    assert tensorflow.versions()[-1] == "2.21.0"


def test_onnx_has_what_onnx_has(shelf: DictionaryFolder) -> None:
    """Every op of every opset and domain, and since when it is so."""
    defs = pytest.importorskip("onnx.defs", reason="needs onnx, to compare with")
    checked = 0
    for history in map(shelf.__getitem__, shelf):
        domains = history.header.domains
        if not domains or not history.header.source.startswith("onnx "):
            continue
        schemas: dict[str, dict[int, object]] = {}
        for schema in defs.get_all_schemas_with_history():
            if schema.domain == domains[0]:
                schemas.setdefault(schema.name, {})[schema.since_version] = schema
        for version in history.versions():
            dictionary = history.at(version)
            expected = {}
            for name, found in schemas.items():
                since = [number for number in found if number <= int(version)]
                if since:
                    expected[name] = str(max(since))
            assert {
                entry.name: entry.since for entry in dictionary.values()
            } == expected
            checked += len(expected)
    assert checked > 3500


def test_the_index_says_what_is_there(shelf: DictionaryFolder) -> None:
    names = {path.removeprefix("amanda/") for path in shelf}
    files = {row["file"] for row in shelf.index.values()}
    assert {file.name for file in PACKAGE.glob("*.ops")} == files
    for path, row in shelf.index.items():
        history = shelf[path]
        assert history.header.namespace == path
        assert list(history.versions()) == row["versions"]
        assert len(history.names) == row["ops"]
        assert len(history.at(history.versions()[-1])) == row["newest"]
    project = tomllib.loads((ROOT / "namespaces" / "pyproject.toml").read_text())
    points = project["project"]["entry-points"]["amanda.namespaces"]
    assert set(points) == names


def test_small_as_a_wheel(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in PACKAGE.iterdir():
            if file.is_file():
                wheel.write(file, file.name)
    assert (tmp_path / "x.whl").stat().st_size < 8_000_000


def test_files_read_line_by_line() -> None:
    """A change of one op is a change of its lines: sorted, nothing by number."""
    for file in PACKAGE.glob("*.ops"):
        lines = file.read_text(encoding="utf-8").split("\n")
        assert lines[1] == lines[-1] == ""
        names = [line for line in lines[2:-1] if not line.startswith("  ")]
        assert names == sorted(set(names))
        indented = [line for line in lines[2:-1] if line.startswith(" ")]
        part = re.compile(r"  (doc|(in|attr|out) \S+|\d\S*) \S")
        assert all(map(part.match, indented))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for name in ("index.json", "onnx.ml.ops"):
        shutil.copy(PACKAGE / name, tmp_path)
    return tmp_path


def told(folder: Path) -> str:
    with pytest.raises(NamespaceError) as caught:
        DictionaryFolder(folder, "amanda-namespaces")["amanda/onnx.ml"].at("3")[
            "Scaler"
        ]
    return re.sub(r"[0-9a-f]{64}", "DIGEST", str(caught.value))


def test_an_edited_file_is_refused(copied: Path) -> None:
    file = copied / "onnx.ml.ops"
    file.write_bytes(file.read_bytes().replace(b"offset", b"offest"))
    assert told(copied) == (
        "the dictionary file onnx.ml.ops does not match its index\n"
        f"  who:      {file}\n"
        "  expected: sha256 DIGEST\n"
        "  got:      sha256 DIGEST\n"
        "  to do:    reinstall amanda-namespaces; data files are generated, never "
        "edited"
    )


def test_a_truncated_file_is_refused(copied: Path) -> None:
    file = copied / "onnx.ml.ops"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-100])
    assert told(copied) == (
        "the dictionary file onnx.ml.ops does not match its index\n"
        f"  who:      {file}\n"
        f"  expected: {size:,} bytes\n"
        f"  got:      {size - 100:,} bytes\n"
        "  to do:    reinstall amanda-namespaces; data files are generated, never "
        "edited"
    )


def test_a_missing_file_is_refused(copied: Path) -> None:
    (copied / "onnx.ml.ops").unlink()
    assert "got:      No such file or directory" in told(copied)


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 2}', "[1]", '{"schema": 1}'])
def test_a_broken_index_is_refused(copied: Path, text: str) -> None:
    (copied / "index.json").write_text(text, encoding="utf-8")
    assert told(copied).startswith(
        "the dictionary file index.json does not match its index\n"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the data file of the dictionary has no valid header"),
        (b"{}\n\n", "the data file of the dictionary has no valid header"),
        (
            b'{"format": 9}\n\n',
            "the data file of the dictionary has an unsupported format",
        ),
        (
            b'{"format": 1, "odd": 2}\n\n',
            "the data file of the dictionary has no valid header",
        ),
    ],
)
def test_a_header_that_cannot_be(content: bytes, message: str) -> None:
    with pytest.raises(NamespaceError, match=message):
        DictionaryHistory("amanda/x", lambda: content).versions()


def test_what_is_written_is_read() -> None:
    head = DictionaryHeader("acme/x", ("1", "2", "3"), hints=("_",), recorded=True)
    ops = [
        OpHistory(
            "B", "About B.", (("1", "() -> ()"), ("2", "gone"), ("3", "() -> ()"))
        ),
        OpHistory("A", "", (("2", "(x: f32) -> ()"),)),
    ]
    history = DictionaryHistory("acme/x", lambda: encode_data_file(head, ops))
    assert history.header == head
    assert [list(history.at(version)) for version in "123"] == [
        ["B"],
        ["A"],
        ["A", "B"],
    ]
    entry = history.at("1")["B"]
    assert (entry.since, entry.until, entry.doc) == ("1", "2", "About B.")
    assert history.at("3")["B"].until is None
