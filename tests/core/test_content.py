"""Contents that no file can hold: refused when written, located when read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import amanda
from amanda.errors import AmandaError, FormatError, NamespaceError
from amanda.files.binary import codec
from amanda.graph import CONSTANT, CORE, Graph
from amanda.tensors import Tensor
from amanda.types import DType

FORMS = ("yaml", "json", "amtxt", "ampb", "amanda")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("version", [10**40, 1 << 63, -(1 << 63) - 1, 1.0, True, "1"])
def test_versions_of_imports_are_int64(form: str, version: Any, tmp_path: Path) -> None:
    graph = Graph(name="g")
    graph.imports["x"] = version
    path = tmp_path / f"m.{form}"
    with pytest.raises(FormatError, match="invalid content"):
        amanda.save(graph, path)
    assert not path.exists()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("version", [0, -1, (1 << 63) - 1, -(1 << 63)])
def test_every_int64_is_kept(form: str, version: int, tmp_path: Path) -> None:
    graph = Graph(name="g")
    graph.imports["x"] = version
    amanda.save(graph, tmp_path / f"m.{form}")
    assert amanda.load(tmp_path / f"m.{form}").imports == {"x": version}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [5, None, [1], "t"])
def test_constants_have_a_tensor(form: str, value: Any, tmp_path: Path) -> None:
    graph = Graph(name="g")
    op = graph.constant(Tensor.of([1.0]))
    op.attrs["value"] = value
    with pytest.raises(FormatError, match="invalid content"):
        amanda.save(graph, tmp_path / f"m.{form}")


def test_a_file_whose_constant_has_no_tensor(tmp_path: Path) -> None:
    ops = {"c": {"type": CONSTANT, "namespace": CORE, "attrs": {"value": 5}}}
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"amanda": 1, "graph": {"name": "g", "ops": ops}}))
    with pytest.raises(FormatError, match="not a tensor") as caught:
        amanda.load(path)
    assert "line 1" in str(caught.value)
    path.write_text(json.dumps({"amanda": 1, "graph": {"imports": {"x": 1 << 64}}}))
    with pytest.raises(FormatError, match="int64"):
        amanda.load(path)
    path = tmp_path / "m.amtxt"
    path.write_text(
        f"amanda 1\n\ngraph %g () -> () {{\n  imports {{x: {1 << 70}}}\n}}\n"
    )
    with pytest.raises(FormatError, match="int64"):
        amanda.load(path)


def test_a_binary_file_whose_constant_has_no_tensor(monkeypatch: Any) -> None:
    graph = Graph(name="g")
    plain = graph.constant(Tensor.of([1.0]))
    named = graph.constant(Tensor.of([1.0]), "c")
    named.output.mark("keep")
    for op in (plain, named):
        kept = op.attrs["value"]
        op.attrs["value"] = 5
        with monkeypatch.context() as patch:
            patch.setattr("amanda.files.binary.encoder.expect_valid_content", id)
            data = codec.dumps(graph)
        with pytest.raises(FormatError, match="not a tensor"):
            codec.loads(data)
        op.attrs["value"] = kept


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(), (2,), (40,)])
@pytest.mark.parametrize(
    ("dtype", "byte"), [("bool", 2), ("bool", 255), ("int4", 0xF3), ("uint2", 0xF1)]
)
def test_every_bit_of_a_tensor_is_kept(
    form: str, shape: tuple[int, ...], dtype: str, byte: int, tmp_path: Path
) -> None:
    """Also those of bools other than 0 and 1; only padding may become zeros."""
    count = Tensor.splat(dtype, shape, 0).nbytes
    for data in (bytes([byte]) * count, bytes([byte]) + bytes(count - 1)):
        graph = Graph(name="g")
        tensor = Tensor.from_buffer(data, DType(dtype), shape)
        graph.result(graph.constant(tensor).output)
        amanda.save(graph, tmp_path / f"m.{form}")
        again = amanda.load(tmp_path / f"m.{form}")
        assert again.same_as(graph)
        read = again.results[0].op.attrs["value"]
        assert dtype != "bool" or b"".join(read.chunks()) == data


@pytest.mark.parametrize("name", ["onnx@" + "9" * 5000, "a" * 300, "a/" * 200 + "1"])
def test_names_of_namespaces_have_a_length(name: str) -> None:
    with pytest.raises(NamespaceError, match="too long") as caught:
        amanda.namespace(name)
    assert len(str(caught.value)) < 300


def test_a_long_version_in_a_file(tmp_path: Path) -> None:
    graph = Graph("amanda/onnx/" + "9" * 5000, name="g")
    amanda.save(graph, tmp_path / "m.yaml")
    read = amanda.load(tmp_path / "m.yaml")
    with pytest.raises(AmandaError, match="too long"):
        amanda.convert(read, "amanda/std/1")
