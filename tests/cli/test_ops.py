"""`ops`: what there is, lists, searches, one op, differences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import amanda
from amanda.backend import Implementation
from amanda.dictionary import (
    DictionaryFolder,
    DictionaryHeader,
    DictionaryHistory,
    OpDef,
    OpHistory,
    encode_data_file,
    format_definition,
    parse_signature,
)

if TYPE_CHECKING:
    from tests.cli.conftest import Call

PACKAGE = Path(__file__).parents[2] / "namespaces" / "src" / "amanda_namespaces"


@pytest.fixture(autouse=True)
def _dictionaries(host: amanda.Host) -> None:
    shelf = DictionaryFolder(PACKAGE)
    for path in ("amanda/onnx", "amanda/onnx.ml", "amanda/tensorflow"):
        versions = shelf.index[path]["versions"]
        name = path.removeprefix("amanda/")
        host.register_namespace(name, shelf[path], manifest={"versions": versions})


def test_what_there_is(call: Call) -> None:
    ended = call("ops")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "namespace          versions  first   newest\n"
        "amanda/onnx              28  1       28\n"
        "amanda/onnx.ml            5  1       5\n"
        "amanda/tensorflow       102  0.12.0  2.21.0\n"
    )
    (first, *_) = call("ops", "--json").json["namespaces"]
    assert first == {
        "namespace": "amanda/onnx",
        "versions": [str(version) for version in range(1, 29)],
    }


def test_no_dictionary(call: Call, host: amanda.Host) -> None:
    for name in ("onnx", "onnx.ml", "tensorflow"):
        host.unregister("namespaces", name)
    assert call("ops").out == "no dictionary is installed\n"


def test_one_op(call: Call) -> None:
    ended = call("ops", "tensorflow@1.13.1", "MatMul")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == (
        "MatMul(a: T, b: T, *, transpose_a: bool = false, transpose_b: bool = false) "
        "-> (product: T)  T in {i32, i64, bf16, f16, f32, f64, c64, c128}"
    )
    assert lines[-1] == "amanda/tensorflow: since 1.13.1, until 2.12.0"
    out = call("ops", "onnx@18", "Upsample").out
    assert out.splitlines()[2:] == [
        "Upsample the input tensor.",
        "",
        "      name    what",
        "in    X       N-D tensor",
        "in    scales  The scale array along each dimension.",
        "attr  mode    Two interpolation modes: nearest (default), and linear "
        "(including bilinear, trilinear, etc)",
        "out   Y       N-D tensor after resizing",
        "",
        "amanda/onnx: since 10",
        "deprecated since 10",
    ]


def test_one_op_as_json(call: Call) -> None:
    answer = call("ops", "tensorflow@1.13.1", "Conv2D", "--json").json
    assert answer["namespace"] == "amanda/tensorflow/1.13.1"
    assert answer["assumed"] is None
    op = answer["op"]
    assert list(op) == [
        "name",
        "signature",
        "doc",
        "since",
        "until",
        "inputs",
        "outputs",
        "attributes",
        "variables",
        "traits",
        "deprecated",
        "tags",
        "open",
    ]
    assert op["inputs"][0] == {
        "name": "input",
        "type": "T",
        "form": "one",
        "least": 0,
        "number": None,
        "ref": False,
        "nullable": False,
        "alias": None,
        "axes": [],
        "keyword": False,
        "doc": "A 4-D tensor.",
    }
    attrs = {attr["name"]: attr for attr in op["attributes"]}
    assert attrs["data_format"] == {
        "name": "data_format",
        "kind": "string",
        "required": False,
        "default": "NHWC",
        "allowed": ["NHWC", "NCHW"],
        "minimum": None,
        "bounds": None,
        "place": None,
        "doc": "Specify the data format of the input and output data.",
    }
    (variable,) = op["variables"]
    assert variable["allowed"] == ["bf16", "f16", "f32", "f64"]


def test_a_list(call: Call) -> None:
    ended = call("ops", "onnx.ml@1")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["op", "since", "what"]
    assert lines[1].split()[:2] == ["ArrayFeatureExtractor", "1"]
    assert lines[-1] == "18 of 18 ops of amanda/onnx.ml/1"
    assert max(map(len, lines)) <= 110
    answer = call("ops", "tensorflow@1.13.1", "--json").json
    assert answer["count"] == len(answer["ops"]) == 1167


def test_primitives_are_marked(call: Call, host: amanda.Host) -> None:
    text = "one(x: f32) -> (y: f32)  #primitive\ntwo(x: f32) -> (y: f32)  #composite"
    history = DictionaryHistory.parse("acme/hub", {"1": text})
    host.register_namespace("acme/hub", history, manifest={"versions": ["1"]})
    lines = call("ops", "acme/hub").out.splitlines()
    assert lines[0].split() == ["op", "kind", "what"]
    kinds = [line.split()[:2] for line in lines[1:3]]
    assert kinds == [["one", "primitive"], ["two", "composite"]]
    found = call("ops", "acme/hub", "--tag", "primitive", "--json").json["ops"]
    assert [(op["name"], op["tags"]) for op in found] == [("one", ["primitive"])]


class Runtime:
    """A backend that has one kernel for integers and one for all other dtypes."""

    name = "runtime"
    namespace = "amanda/onnx/7..18"

    def devices(self) -> list[str]:
        return ["cpu"]

    def takes(self, op: object) -> str:
        return "nothing runs"

    def compile(self, *args: object) -> None:
        return None

    def implementations(self, definition: OpDef) -> Iterator[Implementation]:
        yield Implementation("", definition.name, ("int8",), "gemm_s8")
        yield Implementation("", definition.name, (), "gemm")


def test_how_a_backend_implements_an_op(call: Call, host: amanda.Host) -> None:
    host.register_backend("runtime", Runtime)
    ended = call("ops", "onnx@18", "MatMul", "--backend", "runtime")
    assert [line.split() for line in ended.out.splitlines()[-3:]] == [
        ["dtype", "on", "runtime"],
        ["int8", "gemm_s8"],
        ["any", "gemm"],
    ]
    answer = call("ops", "onnx@18", "MatMul", "--backend", "runtime", "--json").json
    assert answer["implementations"] == [
        {"dtypes": ["int8"], "name": "gemm_s8"},
        {"dtypes": [], "name": "gemm"},
    ]
    refused = call("ops", "onnx@19", "MatMul", "--backend", "runtime")
    assert refused.code == 2
    assert "does not run ops of amanda/onnx/19" in refused.err
    assert call("ops", "onnx@18", "--backend", "runtime").code == 2
    assert call("ops", "onnx@18", "MatMul", "--backend", "other").code == 3


def test_searching(call: Call) -> None:
    ended = call("ops", "tensorflow@1.13.1", "--search", "depthwise native")
    assert ended.code == 0
    names = [line.split()[0] for line in ended.out.splitlines()[1:4]]
    assert names == [
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropFilter",
        "DepthwiseConv2dNativeBackpropInput",
    ]
    told = "3 of 1167 ops of amanda/tensorflow/1.13.1 matching 'depthwise native'"
    assert ended.out.splitlines()[-1] == told
    nothing = call("ops", "onnx@18", "--search", "zzz")
    assert nothing.code == 1
    assert nothing.out == "0 of 186 ops of amanda/onnx/18 matching 'zzz'\n"


def test_differences(call: Call) -> None:
    ended = call("ops", "onnx@18", "--diff", "onnx@19")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[:2] == [
        "+ DeformConv",
        "~ AveragePool: attribute dilations?: int[] in 1..2147483647 is new",
    ]
    assert "~ Pad: has a new definition with the same signature" in lines
    total = "amanda/onnx/18 -> amanda/onnx/19: 1 added, 0 removed, 16 changed"
    assert lines[-1] == total
    answer = call("ops", "onnx@18", "--diff", "onnx@19", "--json").json
    assert answer["added"] == ["DeformConv"]
    assert answer["changed"][0]["lines"] == [
        "attribute dilations?: int[] in 1..2147483647 is new"
    ]
    same = call("ops", "onnx@18", "--diff", "onnx@18")
    assert same.out == (
        "amanda/onnx/18 -> amanda/onnx/18: 0 added, 0 removed, 0 changed\n"
    )


def test_a_version_that_is_assumed(call: Call) -> None:
    ended = call("ops", "onnx@31", "Relu", "--assume")
    assert ended.code == 0
    assert ended.out.startswith(
        "amanda/onnx/31 is unknown; amanda/onnx/28 is used\n\nRelu(X: T)"
    )
    assert call("ops", "onnx@31", "Relu", "--assume", "--json").json["assumed"] == "28"


def test_what_is_not_there(call: Call) -> None:
    ended = call("ops", "onnx@18", "conv")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        "amanda ops: onnx@18 has no op 'conv'\n  to do:    did you mean 'Conv'?\n"
    )
    assert call("ops", "onnx@31").code == 1
    assert "the nearest is onnx@28" in call("ops", "onnx@31").err


def test_what_cannot_be_meant(call: Call) -> None:
    ended = call("ops", "onnx@18", "--search", "x", "--diff", "onnx@19")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "amanda ops: --diff cannot be combined with --search, --tag or --since\n"
    )
    assert call("ops", "onnx@18", "Relu", "--search", "x").code == 2
    assert call("ops", "--since", "18").code == 2
    ended = call("ops", "onnx@18", "relu", "--diff", "19")
    assert (ended.code, ended.out) == (1, "")
    assert "neither amanda/onnx/18 nor amanda/onnx/19 has an op 'relu'" in ended.err
    assert "did you mean 'Relu'?" in ended.err


def test_versions_of_one_dictionary(call: Call) -> None:
    long = call("ops", "onnx@18", "--diff", "onnx@19", "--json").json
    short = call("ops", "onnx", "--diff", "18", "19", "--json").json
    assert short == long
    one = call("ops", "onnx@18", "AveragePool", "--diff", "19")
    assert (one.code, one.err) == (0, "")
    assert one.out == (
        "~ AveragePool: attribute dilations?: int[] in 1..2147483647 is new\n\n"
        "amanda/onnx/18 -> amanda/onnx/19: 0 added, 0 removed, 1 changed\n"
    )


def test_since(call: Call) -> None:
    answer = call("ops", "onnx", "--since", "18", "--json").json
    assert answer["namespace"] == "amanda/onnx/28"
    assert {op["name"] for op in answer["ops"]} > {"Gelu", "Pad"}
    assert all(int(op["since"]) >= 18 for op in answer["ops"])
    older = call("ops", "onnx", "--json").json
    kept = [op for op in older["ops"] if int(op["since"]) >= 18]
    assert answer["ops"] == kept
    told = call("ops", "onnx@19", "--since", "19", "--search", "Deform").out
    assert told.splitlines()[-1] == (
        "1 of 187 ops of amanda/onnx/19 matching 'Deform' defined in 19 or later"
    )


def test_searching_everywhere(call: Call) -> None:
    answer = call("ops", "--search", "depthwise", "--json").json
    found = {(op["namespace"], op["name"]) for op in answer["ops"]}
    assert ("amanda/tensorflow/2.21.0", "DepthwiseConv2dNative") in found
    lines = call("ops", "--search", "depthwise").out.splitlines()
    assert lines[0].split() == ["namespace", "op", "what"]
    assert lines[-1] == f"{len(found)} ops of 3 dictionaries match 'depthwise'"
    assert call("ops", "--search", "zzzz").code == 1


def test_overloads_and_tags(call: Call, host: amanda.Host) -> None:
    lines = (
        "add.Tensor(self: tensor, *, alpha: number = 1) -> (tensor)  #core",
        "add.out(self: tensor, *, port out: tensor(a!)) -> (tensor(a!))",
    )
    entries = map(parse_signature, lines)
    blocks = [
        OpHistory(entry.name, "", (("1", format_definition(entry)),))
        for entry in entries
    ]
    head = DictionaryHeader("acme/torch", ("1",), overload=".")
    history = DictionaryHistory("acme/torch", lambda: encode_data_file(head, blocks))
    host.register_namespace("acme/torch", history)
    ended = call("ops", "acme/torch@1", "add")
    assert ended.out.splitlines()[-1] == "2 of 2 ops of acme/torch/1 named 'add'"
    core = call("ops", "acme/torch@1", "--tag", "core", "--json").json
    assert [op["name"] for op in core["ops"]] == ["add.Tensor"]
    one = call("ops", "acme/torch@1", "add.out", "--json").json["op"]
    assert one["inputs"][1]["alias"] == "a!"
    assert one["inputs"][1]["keyword"] is True
    missing = call("ops", "acme/torch@1", "sub")
    assert (missing.code, missing.out) == (1, "")


@pytest.mark.parametrize(
    ("words", "begun", "expected"),
    [
        ((), "onnx.", {"onnx.ml"}),
        ((), "onnx@2", {f"onnx@{i}" for i in (2, *range(20, 29))}),
        (("onnx@18",), "Conv", {"Conv", "ConvInteger", "ConvTranspose"}),
        (("onnx@99",), "Conv", set()),
    ],
)
@pytest.mark.usefixtures("host")
def test_completion(words: tuple[str, ...], begun: str, expected: set[str]) -> None:
    from click.shell_completion import ShellComplete

    from amanda.cli.group import cli

    found = ShellComplete(cli, {}, "amanda", "X").get_completions(
        ["ops", *words], begun
    )
    assert {item.value for item in found} == expected


class Definitions:
    """A namespace that defines its ops, one of them not in full."""

    name = "acme/own/1"

    def __init__(self, lacking: dict[str, list[str]]) -> None:
        self.lacking = lacking

    def __contains__(self, op_type: object) -> bool:
        return op_type in ("add", "half")

    def __iter__(self) -> Iterator[str]:
        return iter(("add", "half"))

    def __getitem__(self, op_type: str) -> str:
        return op_type

    def missing(self) -> dict[str, list[str]]:
        return self.lacking

    def versions(self) -> list[str]:
        return ["1"]

    def at(self, version: str) -> Definitions:
        assert version == "1"
        return self


def test_what_definitions_lack(call: Call, host: amanda.Host) -> None:
    lacking = {"half": ["samples", "inference"]}
    host.register_namespace("acme/own", Definitions(lacking))
    ended = call("ops", "acme/own", "--missing")
    assert ended.code == 1
    assert ended.out == (
        "op    missing\n"
        "half  samples, inference\n"
        "\n"
        "1 of 2 ops of acme/own/1 lack something\n"
    )
    assert call("ops", "acme/own", "--missing", "--json").json["missing"] == lacking


def test_definitions_that_lack_nothing(call: Call, host: amanda.Host) -> None:
    host.register_namespace("acme/own", Definitions({}))
    ended = call("ops", "acme/own", "--missing")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "none of 2 ops of acme/own/1 lacks anything\n"


def test_a_dictionary_does_not_tell_what_definitions_lack(call: Call) -> None:
    ended = call("ops", "onnx@18", "--missing")
    assert (ended.code, ended.out) == (1, "")
    assert "amanda/onnx/18 does not list what its ops lack" in ended.err
    assert call("ops", "--missing").code == 2
    assert call("ops", "onnx@18", "Conv", "--missing").code == 2
