"""`validate`: every fault with its place; no fault, no complaint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import amanda
from amanda.dictionary import DictionaryFolder

if TYPE_CHECKING:
    from tests.cli.conftest import Call

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "tests" / "dictionary" / "published"


@pytest.fixture(autouse=True)
def _ready(host: amanda.Host) -> None:
    from amanda.files.text.formats import YamlFormat

    shelf = DictionaryFolder(ROOT / "namespaces" / "src" / "amanda_namespaces")
    for path in ("amanda/onnx", "amanda/tensorflow"):
        versions = shelf.index[path]["versions"]
        name = path.removeprefix("amanda/")
        host.register_namespace(name, shelf[path], manifest={"versions": versions})
    host.register_format("yaml", YamlFormat, manifest={"suffixes": [".yaml"]})


def test_the_published_example(call: Call) -> None:
    ended = call("validate", PUBLISHED / "example.yaml")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "no faults in 4 ops, by amanda/tensorflow/1.13.1\n"


def test_faults(call: Call) -> None:
    ended = call("validate", PUBLISHED / "wrong_ops.yaml")
    assert (ended.code, ended.err) == (1, "")
    assert ended.out == (
        "BatchMatMulV3 'dense/MatMul' is not in tensorflow@1.13.1 "
        "(it exists from tensorflow@2.6.0 on)\n"
        "Rleu 'dense/Relu' is not in tensorflow@1.13.1 (did you mean 'Relu'?)\n"
        "\n"
        "2 faults in 4 ops, by amanda/tensorflow/1.13.1\n"
    )


def test_as_json(call: Call) -> None:
    file = PUBLISHED / "wrong_ops.yaml"
    ended = call("validate", file, "--json")
    assert ended.code == 1
    answer = ended.json
    assert answer["problems"][1] == {
        "kind": "unknown op",
        "op": "Rleu 'dense/Relu'",
        "place": None,
        "message": "is not in tensorflow@1.13.1",
        "hint": "did you mean 'Relu'?",
    }
    del answer["problems"]
    assert answer == {
        "schema": 1,
        "verb": "validate",
        "exit_code": 1,
        "file": str(file),
        "format": "yaml",
        "namespace": "amanda/tensorflow/1.13.1",
        "ops": 4,
        "unchecked": {},
    }


def test_against_another_version(call: Call) -> None:
    file = PUBLISHED / "example.yaml"
    assert call("validate", file, "--against", "tensorflow@2.21").code == 0
    ended = call("validate", file, "--against", "onnx@18")
    assert ended.code == 1
    assert "Placeholder 'Placeholder' is not in onnx@18" in ended.out


def test_what_has_no_dictionary_is_told(
    call: Call, model: Path, tmp_path: Path
) -> None:
    graph = amanda.Graph("amanda/onnx/18")
    graph.add("Foo", namespace="onnx/com.acme/1")
    file = tmp_path / "custom.yaml"
    amanda.save(graph, file)
    ended = call("validate", file)
    assert ended.code == 0
    assert ended.out == (
        "1 op not checked: no dictionary of onnx/com.acme/1 is installed\n"
        "no faults in 1 op, by amanda/onnx/18\n"
    )


def test_a_graph_of_no_namespace(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "plain.yaml"
    amanda.save(amanda.Graph(), file)
    ended = call("validate", file)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "amanda validate: the graph does not say which namespace its ops are of\n"
        f"  who:      {file}\n"
        "  to do:    name one: --against onnx@18\n"
    )


def test_a_namespace_that_is_not_installed(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    amanda.save(amanda.Graph("amanda/torch/2.4"), file)
    ended = call("validate", file)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(
        "amanda validate: no dictionary of 'torch@2.4' is installed"
    )
