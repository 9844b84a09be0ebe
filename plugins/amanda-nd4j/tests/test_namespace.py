"""The dictionary of nd4j: from the published file where it is, and from small texts."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

import amanda
from amanda.errors import AmandaError, FormatError, NamespaceError
from amanda.graph import Graph
from amanda.testing import PluginSuite
from amanda.types import DType
from amanda_nd4j.namespace import (
    VARIABLE,
    InstalledHistory,
    descriptors,
    from_file,
    from_files,
    parse_files,
)
from amanda_nd4j.textproto import EnumWord, parse_text


class TestPlugin(PluginSuite):
    dist = "amanda-nd4j"


def published(state: str) -> Path:
    root = os.environ.get("AMANDA_TEST_DATA")
    file = Path(root or "", "dl4j", state, "nd4j-op-def.pbtxt")
    if root is None or not file.is_file():
        pytest.skip("needs dl4j in AMANDA_TEST_DATA")
    return file


TEXT = """
# two ops
opList {
  name: "conv"
  argDescriptor { name: "outputs" argType: OUTPUT_TENSOR }
  argDescriptor { name: "weights" argType: INPUT_TENSOR argIndex: 1 }
  argDescriptor { name: "input" argType: INPUT_TENSOR }
  argDescriptor { name: "kW" argType: INT64 argIndex: 1 }
  argDescriptor { name: "kH" argType: INT64 }
  argDescriptor { name: "rate" argType: DOUBLE }
  argDescriptor { name: "same" argType: BOOL }
  argDescriptor { name: "dtype" argType: DATA_TYPE }
  opDeclarationType: CONFIGURABLE_OP_IMPL
}
opList {
  name: "sum"
  argDescriptor { name: "*output" argType: OUTPUT_TENSOR }
  argDescriptor { name: "(block.numI()" argType: INT64 }
  argDescriptor { name: "exclusive" argType: BOOL }
  argDescriptor { name: "exclusive" argType: INT64 argIndex: 1 }
  argDescriptor { name: "dimensions" argType: INPUT_TENSOR }
  argDescriptor { name: "dimensions" argType: INT64 argIndex: 2 }
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "ops.pbtxt"
    written.write_text(TEXT)
    return written


# -- the published file ----------------------------------------------------------------


@pytest.mark.parametrize(("state", "count"), [("2021", 707), ("2025", 718)])
def test_published_ops(state: str, count: int) -> None:
    dictionary = from_file(published(state)).at("1")
    assert len(dictionary) == len(list(dictionary)) == count


def test_every_argument_is_in_an_entry() -> None:
    """Counted in the text by kind, 4,342 in all."""
    file = published("2025")
    told = Counter(re.findall(r"argType: (\w+)", file.read_text(encoding="utf-8")))
    assert told.total() == 4342
    kinds = {"INT64": "int", "DOUBLE": "double", "BOOL": "bool", "STRING": "string"}
    kinds["DATA_TYPE"] = "dtype"
    held: Counter[str] = Counter()
    for entry in from_file(file).at("1").values():
        held["INPUT_TENSOR"] += len(entry.inputs)
        held["OUTPUT_TENSOR"] += len(entry.outputs)
        held.update(attr.kind for attr in entry.attrs)
    assert held == {kinds.get(kind, kind): number for kind, number in told.items()}


def test_places_of_arguments_are_kept() -> None:
    """Their order is that of the indices, which have no gaps in any op."""
    for op in descriptors(published("2025")):
        for kind in {argument.kind for argument in op.arguments}:
            places = [argument.place for argument in op.of(kind)]
            assert places == list(range(len(places))), (op.name, kind)


def test_two_states_are_versions() -> None:
    both = from_files({"2025": published("2025"), "2021": published("2021")})
    assert both.versions() == ("2021", "2025")
    difference = both.at("2021").diff(both.at("2025"))
    assert len(difference.added) - len(difference.removed) == 718 - 707
    assert from_file(published("2025")).at("1")["conv2d"] == both.at("2025")["conv2d"]


# -- what a text becomes ---------------------------------------------------------------


def test_an_entry(file: Path) -> None:
    dictionary = from_file(file).at("1")
    assert str(dictionary["conv"]) == (
        "conv(input?: tensor, weights?: tensor, *, same?: bool, dtype?: dtype,"
        " rate?: double, kH?: int, kW?: int) -> (outputs?: tensor)"
        "  #declared=CONFIGURABLE_OP_IMPL"
    )
    assert str(dictionary["sum"]) == (
        "sum(dimensions?: tensor, *, exclusive?: bool, block.numI?: int,"
        " exclusive.int64?: int, dimensions?: int) -> (output?: tensor)"
    )
    called = {(a.kind, a.place): a.called for a in descriptors(file)[1].arguments}
    assert called["INT64", 1] == "exclusive.int64"
    assert called["BOOL", 0] == "exclusive"


def test_a_graph_and_its_faults(file: Path) -> None:
    dictionary = from_file(file).at("1")
    graph = Graph("amanda/nd4j/1")
    x, w = graph.parameter(), graph.parameter()
    attrs = {"kH": 3, "kW": 3, "dtype": DType("float32")}
    conv = graph.add("conv", [x, w], attrs)
    graph.add("sum", [conv.output], {"exclusive": True, "exclusive.int64": 1})
    assert dictionary.validate(graph) == []
    conv.attrs["kH"] = 1.5
    conv.attrs["kD"] = 1
    graph.add("sum", [x, w])
    found = [problem.kind for problem in dictionary.validate(graph)]
    assert found == ["attribute kind", "unknown attribute", "inputs"]


def test_the_file_is_named_by_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(file))
    assert set(InstalledHistory().at("1")) == {"conv", "sum"}
    monkeypatch.setenv(VARIABLE, f"2021={file}{os.pathsep}2025={file}")
    assert InstalledHistory().versions() == ("2021", "2025")
    assert list(parse_files(f"2021=a{os.pathsep}b")) == [("2021", "a"), ("1", "b")]


def test_no_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(NamespaceError) as caught:
        InstalledHistory().versions()
    assert str(caught.value) == (
        "the ops of nd4j are read from a file of yours, and none is named\n"
        f"  to do:    set {VARIABLE} to the nd4j-op-def.pbtxt of Deeplearning4j"
    )
    assert "nd4j" in {
        entry.name for entry in amanda.default_host().entries("namespaces")
    }


# -- texts that are none ---------------------------------------------------------------


def test_texts_of_all_forms() -> None:
    found = parse_text(
        """a: -1 b: 2.5f c: 'it''s' d: "x\\n\\303\\251" e: [1, 2] f < g: RED > h: true
        i { } ; j: 0x10, k: 1e-3  # done"""
    )
    assert found == {
        "a": [-1], "b": [2.5], "c": ["its"], "d": ["x\né"], "e": [1, 2],
        "f": [{"g": ["RED"]}], "h": [True], "i": [{}], "j": [16], "k": [0.001],
    }  # fmt: skip
    assert isinstance(found["f"][0]["g"][0], EnumWord)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("opList {\n name: 'a'", "line 2"),
        ("opList }", "line 1"),
        ("name 'a'", "line 1"),
        ("a: }", "line 1"),
        ("\n\n= 3", "line 3"),
        ('a: "open', "line 1"),
        ("a: 1.2.3", "line 1"),
        ("a { " * 40, "line 1"),
        ('a: "\\x"', "line 1"),
        ("a: [1, 2", "line 1"),
    ],
)
def test_no_such_text(text: str, where: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_text(text, "ops.pbtxt")
    assert caught.value.where == where
    assert caught.value.who == "ops.pbtxt"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "opList: 3",
        "opList { name: 3 }",
        'opList { name: "a" argDescriptor { argType: COLOUR } }',
        'opList { name: "a" argDescriptor { name: "b" argType: BOOL argIndex: "c" } }',
        'opList { name: "a b" }',
        'opList { name: "a" } opList { name: "a" }',
    ],
)
def test_no_such_descriptors(tmp_path: Path, text: str) -> None:
    file = tmp_path / "ops.pbtxt"
    file.write_text(text)
    with pytest.raises(AmandaError) as caught:
        from_file(file)
    assert "ops.pbtxt" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NamespaceError, match="cannot be read"):
        from_file(tmp_path / "none.pbtxt")
