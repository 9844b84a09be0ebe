"""Looking ops up, by name and version, and what helps where nothing is found."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import amanda
from amanda.dictionary import (
    REQUIRED,
    Dictionary,
    DictionaryFolder,
    DictionaryHistory,
    Namespace,
    NamespaceProvider,
    parse_signature,
)
from amanda.errors import NamespaceError


@pytest.fixture
def host(shelf: DictionaryFolder) -> amanda.Host:
    host = amanda.Host(points=())
    for path in shelf:
        name = path.removeprefix("amanda/")
        versions = shelf.index[path]["versions"]
        manifest = {"versions": versions} if name != "onnx.ml" else {}
        host.register_namespace(name, shelf[path], manifest=manifest)
    return host


def test_through_the_host(host: amanda.Host) -> None:
    onnx = amanda.namespace("onnx@18", host=host)
    assert isinstance(onnx, Namespace)
    assert isinstance(onnx, Dictionary)
    assert onnx.name == "amanda/onnx/18"
    assert onnx["Conv"].name == "Conv"
    assert amanda.namespace("onnx", host=host).name == "amanda/onnx/28"
    assert (
        amanda.namespace("tensorflow@1.15", host=host).name
        == "amanda/tensorflow/1.15.0"
    )
    assert amanda.namespace("amanda/onnx.ml/3", host=host)["Scaler"].since == "1"


def test_the_published_name(tf1: Dictionary) -> None:
    assert tf1["MatMul"].signature == (
        "MatMul(a: T, b: T, *, transpose_a: bool = false, transpose_b: bool = false) "
        "-> (product: T)  T in {i32, i64, bf16, f16, f32, f64, c64, c128}"
    )


def test_a_version_may_be_assumed(host: amanda.Host, onnx: DictionaryHistory) -> None:
    with pytest.raises(NamespaceError) as caught:
        amanda.namespace("onnx@31", host=host)
    assert str(caught.value) == (
        "amanda/onnx has no version 31\n"
        "  expected: one of 1, 2, 3, ..., 26, 27, 28 (28 versions)\n"
        "  to do:    the nearest is onnx@28"
    )
    found = amanda.namespace("onnx@31", assume=True, host=host)
    assert isinstance(found, Dictionary)
    assert (found.name, found.version, found.assumed) == ("amanda/onnx/31", "31", "28")
    assert repr(found) == "<the dictionary amanda/onnx/31, as of 28>"
    assert found["Relu"] is onnx.at("28")["Relu"] or found["Relu"].name == "Relu"
    known = amanda.namespace("onnx@18", assume=True, host=host)
    assert isinstance(known, Dictionary)
    assert known.assumed is None
    with pytest.raises(NamespaceError, match=r"has no version 0\.5"):
        amanda.namespace("tensorflow@0.5", assume=True, host=host)


def test_the_nearest_version_is_told(
    host: amanda.Host, onnx: DictionaryHistory
) -> None:
    with pytest.raises(NamespaceError, match=r"the nearest is tensorflow@1\.13\.1"):
        amanda.namespace("tensorflow@1.13", host=host)
    with pytest.raises(NamespaceError, match=r"the nearest is tensorflow@1\.12\.3"):
        amanda.namespace("tensorflow@1.12.9", host=host)
    with pytest.raises(NamespaceError, match="the nearest is onnx@1"):
        onnx.at("0")


@pytest.mark.parametrize(
    ("version", "op", "hint"),
    [
        ("18", "conv", "did you mean 'Conv'?"),
        ("18", "Reluu", "did you mean 'Relu' or 'PRelu'?"),
        ("18", "Gelu", "it exists from onnx@20 on"),
        ("18", "Zzzzzz", None),
    ],
)
def test_an_op_that_is_not_there(
    onnx: DictionaryHistory, version: str, op: str, hint: str | None
) -> None:
    with pytest.raises(NamespaceError) as caught:
        onnx.at(version)[op]
    told = f"\n  to do:    {hint}" if hint else ""
    assert str(caught.value) == f"onnx@{version} has no op {op!r}{told}"


def test_an_op_that_is_gone(tensorflow: DictionaryHistory) -> None:
    with pytest.raises(NamespaceError) as caught:
        tensorflow.at("2.21.0")["DefaultAttrs"]
    hint = "it exists from tensorflow@1.5.0 on, until 2.12.0"
    assert caught.value.hint == hint


def test_a_mapping_of_names(onnx: DictionaryHistory) -> None:
    dictionary = onnx.at("18")
    assert len(dictionary) == len(list(dictionary)) == len(list(dictionary.values()))
    assert list(dictionary) == sorted(dictionary)
    assert "Conv" in dictionary
    assert "Gelu" not in dictionary
    assert 3 not in dictionary
    assert dictionary.get("Gelu") is None
    assert isinstance(onnx, NamespaceProvider)


@pytest.mark.parametrize(
    "name", ["", " ", "  doc", "doc", "{", "Abs\n  doc", "\n", "é"]
)
def test_odd_names_find_nothing(onnx: DictionaryHistory, name: str) -> None:
    assert name not in onnx.at("18")


def test_since_and_until(onnx: DictionaryHistory) -> None:
    entry = onnx.at("18")["Conv"]
    assert (entry.since, entry.until) == ("11", "22")
    assert onnx.at("22")["Conv"].until is None
    assert entry.doc.startswith("The convolution operator")


def test_loop_ops_feed_back(tf1: Dictionary, onnx: DictionaryHistory) -> None:
    told = [entry.name for entry in tf1.values() if entry.feedback]
    assert told == ["NextIteration", "RefNextIteration"]
    assert not any(entry.feedback for entry in onnx.at("18").values())


def test_search(tf1: Dictionary, onnx: DictionaryHistory) -> None:
    found = [entry.name for entry in tf1.search("depthwise native")]
    assert found == [
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropFilter",
        "DepthwiseConv2dNativeBackpropInput",
    ]
    assert "Relu" in [entry.name for entry in onnx.at("18").search("rectified linear")]


def test_differences(onnx: DictionaryHistory, tensorflow: DictionaryHistory) -> None:
    old, new = onnx.at("18"), onnx.at("19")
    found = old.diff(new)
    assert (
        str(found) == "amanda/onnx/18 -> amanda/onnx/19: 1 added, 0 removed, 16 changed"
    )
    assert found.added == ("DeformConv",)
    lines = {change.name: change.lines for change in found.changed}
    assert lines["AveragePool"] == [
        "attribute dilations?: int[] in 1..2147483647 is new"
    ]
    assert lines["Equal"] == ["T also allows string"]
    assert lines["Pad"] == []  # what it means has changed, not how it is written
    back = new.diff(old)
    assert back.removed == ("DeformConv",)
    assert not old.diff(old)
    test_ops = tensorflow.at("2.11.0").diff(tensorflow.at("2.12.0")).removed
    assert len(test_ops) == 108


def test_signatures_for_mappings(tf1: Dictionary, onnx: DictionaryHistory) -> None:
    conv = onnx.at("18").signature("Conv")
    assert conv is not None
    assert conv.inputs == ("X", "W", "B")
    assert conv.optional == {"B"}
    assert conv.attrs["group"] == 1
    assert conv.attrs["pads"] is None
    assert (conv.outputs, conv.since, conv.variadic) == (1, 11, None)
    loop = onnx.at("18").signature("Loop")
    assert loop is not None
    assert (loop.variadic, loop.outputs) == ("v_initial", None)
    assert loop.attrs["body"] is REQUIRED
    matmul = tf1.signature("MatMul")
    assert matmul is not None
    assert dict(matmul.attrs) == {"transpose_a": False, "transpose_b": False}
    assert matmul.hints == {"T", "_*"}
    assert tf1.signature("Placeholder").attrs["dtype"] is REQUIRED
    assert tf1.signature("NextIteration").feedback
    assert tf1.signature("Conv") is None


def test_threads_find_the_same(shelf: DictionaryFolder) -> None:
    history = DictionaryFolder(shelf._folder)["amanda/onnx"]
    names = list(shelf["amanda/onnx"].at("18"))
    found: list[list[str]] = []

    def read() -> None:
        dictionary = history.at("18")
        found.append([dictionary[name].signature for name in names])

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(each == found[0] for each in found)


class Plain:
    """A namespace of somebody else: entries made as they are asked for."""

    name = "acme/dialect/1"

    def __init__(self, entry: object) -> None:
        self.entry = entry

    def __contains__(self, op_type: object, /) -> bool:
        return op_type == "Twice"

    def __getitem__(self, op_type: str, /) -> object:
        return self.entry

    def __iter__(self) -> Iterator[str]:
        return iter(["Twice"])


def test_a_namespace_of_somebody_else() -> None:
    entry = parse_signature("Twice(x: T, *, times: int = 2) -> (y: T)  T in {f32}")
    found = Dictionary.of(Plain(entry))
    assert found is not None
    assert (found.name, found["Twice"]) == ("acme/dialect/1", entry)
    assert Dictionary.of(found) is found
    graph = amanda.Graph("acme/dialect/1")
    graph.add("Twice", [graph.parameter()], {"tims": 3}, name="t")
    assert [str(problem) for problem in found.validate(graph)] == [
        "Twice 't' has no attribute 'tims' (did you mean 'times'?)"
    ]
    assert Dictionary.of(Plain("what I know of it")) is None
