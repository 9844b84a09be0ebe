"""SameDiff files: written and read, damaged, and those that libnd4j was tested with."""

from __future__ import annotations

import contextlib
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import FormatError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.testing import FormatSuite
from amanda.types import DType, parse_type
from amanda_nd4j.namespace import VARIABLE
from amanda_nd4j.samediff.archives import sdnb_of
from amanda_nd4j.samediff.java_maps import map_of_pairs
from amanda_nd4j.samediff.op_numbers import hash_of
from amanda_nd4j.samediff.schema import CURRENT, OF_2018
from amanda_nd4j.samediff.tables import read_root, write_root

DESCRIPTORS = """
opList {
  name: "matmul"
  argDescriptor { name: "input" argType: INPUT_TENSOR }
  argDescriptor { name: "y" argType: INPUT_TENSOR argIndex: 1 }
  argDescriptor { name: "outputs" argType: OUTPUT_TENSOR }
  argDescriptor { name: "alpha" argType: DOUBLE }
  argDescriptor { name: "transX" argType: INT64 }
  argDescriptor { name: "transY" argType: INT64 argIndex: 1 }
  argDescriptor { name: "keep" argType: BOOL }
  argDescriptor { name: "dtype" argType: DATA_TYPE }
}
opList {
  name: "unstack"
  argDescriptor { name: "input" argType: INPUT_TENSOR }
  argDescriptor { name: "dimensions" argType: INT64 }
}
opList {
  name: "reduce_sum"
  argDescriptor { name: "input" argType: INPUT_TENSOR }
  argDescriptor { name: "keepDims" argType: BOOL }
  argDescriptor { name: "dimensions" argType: INT64 }
}
opList { name: "merge" } opList { name: "loop_cond" } opList { name: "exit" }
opList { name: "next_iteration" } opList { name: "switch" } opList { name: "less" }
opList {
  name: "enter"
  argDescriptor { name: "isConstant" argType: BOOL }
  argDescriptor { name: "frameName" argType: STRING }
}
"""


@pytest.fixture(scope="module", autouse=True)
def own_descriptors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    file = tmp_path_factory.mktemp("descriptors") / "ops.pbtxt"
    file.write_text(DESCRIPTORS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(file))
        yield


def layers() -> Graph:
    """A product with all kinds of arguments, and a sum over two axes."""
    graph = Graph("amanda/nd4j/1")
    x = graph.parameter(parse_type("float32[4, 3]"), "x")
    weight = graph.constant(Tensor.of([[1.0, 2.0, 3.0]], "float32"), "w")
    attrs = {"alpha": 0.5, "transX": 0, "transY": 1, "keep": True,
             "dtype": DType("float32")}  # fmt: skip
    y = graph.add("matmul", [x, weight.output], attrs, name="product")
    y.output.type = parse_type("float32[...]")
    axes = {"keepDims": False, "dimensions": [0, 1]}
    total = graph.add("reduce_sum", [y.output], axes, name="total")
    graph.result(total.output, "sum")
    graph.result(y.output, "product")
    return graph


def several_values() -> Graph:
    """An op with two values, texts, and an op that waits for another."""
    graph = Graph("amanda/nd4j/1")
    words = graph.constant(Tensor.strings(["a", "", "long"], (3,)), "words").output
    parts = graph.add("unstack", [words], {"dimensions": 0}, name="parts", outputs=2)
    first = graph.add("less", list(parts.outputs), name="first")
    graph.control(parts, first)
    graph.result(first.output, "first")
    return graph


def a_loop() -> Graph:
    """A frame: its merge reads what a later op gives."""
    graph = Graph("amanda/nd4j/1")
    start = graph.constant(Tensor.of(0, "int64"), "start").output
    frame = {"isConstant": False, "frameName": "f"}
    enter = graph.add("enter", [start], frame, name="enter")
    merge = graph.add("merge", [enter.output, None], name="merge", outputs=2)
    again = graph.add("loop_cond", [merge.outputs[0]], name="again")
    switch = graph.add("switch", [merge.outputs[0], again.output], name="s", outputs=2)
    following = graph.add("next_iteration", [switch.outputs[1]], name="following",
                          feedback=True)  # fmt: skip
    merge.input_ports[1].connect(following.output)
    graph.result(graph.add("exit", [switch.outputs[0]], name="exit").output, "exit")
    return graph


class TestFormat(FormatSuite):
    format = "samediff"
    late = ("numpy", "flatbuffers")

    def samples(self) -> Mapping[str, Callable[[], Graph]]:
        return {"layers": layers, "several values": several_values, "a loop": a_loop}


@pytest.mark.parametrize("suffix", [".sdnb", ".sdz"])
@pytest.mark.parametrize("sample", [layers, several_values, a_loop])
def test_archives(tmp_path: Path, sample: Callable[[], Graph], suffix: str) -> None:
    path, again = tmp_path / f"m{suffix}", tmp_path / f"again{suffix}"
    amanda.save(sample(), path)
    read = amanda.load(path)
    assert read.difference(sample()) is None
    amanda.save(read, again)
    assert again.read_bytes() == path.read_bytes()


def test_an_open_axis_is_a_size_of_minus_one(tmp_path: Path) -> None:
    graph = layers()
    graph.parameters[0].type = parse_type("float32[n, 3]")
    found = tables(graph, tmp_path / "m.fb")
    assert found["variables"][0]["shape"] == [-1, 3]
    read = amanda.load(tmp_path / "m.fb").parameters[0].type
    assert str(read) == "float32[?, 3]"


def test_an_archive_has_a_part_with_an_empty_manifest(tmp_path: Path) -> None:
    """The manifest is the map that Java serializes: its magic, and the class name."""
    amanda.save(layers(), tmp_path / "m.sdz")
    with zipfile.ZipFile(tmp_path / "m.sdz") as archive:
        assert archive.namelist() == ["model.sdnb"]
        content = archive.read("model.sdnb")
    assert content[:8] == b"SDNB\0\0\0\1"
    manifest, size = (int.from_bytes(content[i : i + 8], "big") for i in (8, 16))
    assert int.from_bytes(content[24:32], "big") == 32
    assert manifest + size == len(content)
    assert content[manifest : manifest + 4] == b"\xac\xed\0\5"
    assert b"java.util.HashMap" in content[manifest:]


def tables(graph: Graph, path: Path) -> dict[str, Any]:
    amanda.save(graph, path)
    return read_root(memoryview(path.read_bytes()), CURRENT, "FlatGraph")


MANIFEST = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f"
    "6164466163746f724900097468726573686f6c6478703f4000000000000c7708000000100000000274"
    "0001777372001f6f72672e6e64346a2e636f6d6d6f6e2e7072696d6974697665732e50616972000000"
    "00000000770200024c00036b65797400124c6a6176612f6c616e672f4f626a6563743b4c000576616c"
    "756571007e000478707372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a0005"
    "76616c7565787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870000000"
    "00000003e87371007e00060000000000000018740002c3a97371007e00037371007e00060000000000"
    "0004007371007e0006000000000000000878"
)
"""What Java 17 writes of {"w": (1000, 24), "é": (1024, 8)}, a map of pairs."""
LINKED_MANIFEST = bytes.fromhex(
    "aced0005737200176a6176612e7574696c2e4c696e6b6564486173684d617034c04e5c106cc0fb0200"
    "015a000b6163636573734f72646572787200116a6176612e7574696c2e486173684d61700507dac1c3"
    "1660d103000246000a6c6f6164466163746f724900097468726573686f6c6478703f4000000000000c"
    "77080000001000000002740001777372001f6f72672e6e64346a2e636f6d6d6f6e2e7072696d697469"
    "7665732e5061697200000000000000770200024c00036b65797400124c6a6176612f6c616e672f4f62"
    "6a6563743b4c000576616c756571007e000578707372000e6a6176612e6c616e672e4c6f6e673b8be4"
    "90cc8f23df0200014a000576616c7565787200106a6176612e6c616e672e4e756d62657286ac951d0b"
    "94e08b020000787000000000000003e87371007e00070000000000000018740002c3a97371007e0004"
    "7371007e000700000000000004007371007e000700000000000000087800"
)
"""The same of a map that keeps its order."""
ONE_NUMBER_MANIFEST = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f"
    "6164466163746f724900097468726573686f6c6478703f4000000000000c7708000000100000000274"
    "0001617372001f6f72672e6e64346a2e636f6d6d6f6e2e7072696d6974697665732e50616972000000"
    "00000000770200024c00036b65797400124c6a6176612f6c616e672f4f626a6563743b4c000576616c"
    "756571007e000478707372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a0005"
    "76616c7565787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870000000"
    "000000004d71007e0008740001627371007e000371007e00087371007e0006000000000000000078"
)
"""{"a": (77, 77), "b": (77, 0)}, where the first three numbers are one object."""


@pytest.mark.parametrize("data", [MANIFEST, LINKED_MANIFEST])
def test_a_manifest_of_java(data: bytes) -> None:
    assert map_of_pairs(memoryview(data)) == {"w": (1000, 24), "é": (1024, 8)}


def test_a_manifest_with_references() -> None:
    found = map_of_pairs(memoryview(ONE_NUMBER_MANIFEST))
    assert found == {"a": (77, 77), "b": (77, 0)}


@pytest.mark.parametrize("data", [MANIFEST, LINKED_MANIFEST, ONE_NUMBER_MANIFEST])
def test_damaged_manifests(data: bytes) -> None:
    """Every shorter one, and every one with a byte that differs, is read or refused."""
    for i in range(len(data)):
        with pytest.raises(FormatError):
            map_of_pairs(memoryview(data[:i]))
        changed = bytes([*data[:i], data[i] ^ 0x55, *data[i + 1 :]])
        with contextlib.suppress(FormatError):
            map_of_pairs(memoryview(changed))


def part_with_data(found: dict[str, Any], data: bytes, manifest: bytes) -> bytes:
    """A part whose arrays `w` and `é` are behind the FlatBuffer, from byte 4096."""
    content = write_root(found, CURRENT, "FlatGraph")
    start = 32 + len(content)
    assert start <= 4096
    blob = bytes(4096 - start) + data + bytes(8)
    end = start + len(blob)
    head = b"SDNB" + struct.pack(">iqqq", 1, end, len(manifest), 32)
    return head + content + blob + manifest


AT_4096 = MANIFEST.replace(b"\x03\xe8", b"\x10\x00").replace(b"\4\0sq", b"\x10\x18sq")
SECOND = {"id": {"first": 91}, "name": "é", "dtype": 5, "shape": [2]}


@pytest.mark.parametrize("order", [None, 0, 1])
def test_data_behind_the_flatbuffer(tmp_path: Path, order: int | None) -> None:
    found = tables(several_values(), tmp_path / "m.fb")
    variable = {"id": {"first": 90}, "name": "w", "dtype": 5, "shape": [2, 3],
                "variabletype": 0}  # fmt: skip
    if order is not None:
        variable["ndarray"] = {"byteOrder": order, "dtype": 5}
    found["variables"] = [variable, SECOND, *found["variables"]]
    data = np.arange(6, dtype="<f4")
    path = tmp_path / "m.sdnb"
    path.write_bytes(part_with_data(found, data.tobytes(), AT_4096))
    weight = amanda.load(path).ops["w"].attrs["value"].numpy()
    assert weight.tolist() == data.reshape((2, 3), order="F" if order else "C").tolist()
    amanda.save(amanda.load(path), tmp_path / "again.sdz")
    again = amanda.load(tmp_path / "again.sdz").ops["w"].attrs["value"].numpy()
    assert again.tolist() == weight.tolist()
    found["variables"].remove(SECOND)
    path.write_bytes(part_with_data(found, data.tobytes(), AT_4096))
    with pytest.raises(FormatError, match="does not have"):
        amanda.load(path)
    damaged = AT_4096.replace(b"\x10\x18", b"\x10\x19")
    path.write_bytes(part_with_data(found, data.tobytes(), damaged))
    with pytest.raises(FormatError, match="outside the file"):
        amanda.load(path)


def test_an_archive_of_several_parts(tmp_path: Path) -> None:
    """The graph is in the first; arrays are behind or in the FlatBuffer of others."""
    found = tables(layers(), tmp_path / "m.fb")
    bare = [{k: v for k, v in each.items() if k != "ndarray"}
            for each in found["variables"]]  # fmt: skip
    bare[1]["shape"] = [2, 3]
    graph = write_root({**found, "variables": [*bare, SECOND]}, CURRENT, "FlatGraph")
    array = {**found["variables"][1]["ndarray"], "shape": [1, 2, 1, 1 << 13, 1, 99]}
    arrays = {"variables": [found["variables"][1], {**SECOND, "ndarray": array}]}
    data = np.arange(6, dtype="<f4").tobytes()
    empty = {"variables": [bare[1]]}
    parts = {
        "inside": sdnb_of(write_root(arrays, CURRENT, "FlatGraph")),
        "behind": part_with_data(empty, data, AT_4096),
    }
    for name, part in parts.items():
        path = tmp_path / f"{name}.sdz"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("m.shard1-of-2.sdnb", part)
            archive.writestr("m.shard0-of-2.sdnb", sdnb_of(graph))
        weight = amanda.load(path).ops["w"].attrs["value"].numpy()
        expected = [[1, 2, 3]] if name == "inside" else [[0, 1, 2], [3, 4, 5]]
        assert weight.tolist() == expected
    with zipfile.ZipFile(tmp_path / "half.sdz", "w") as archive:
        archive.writestr("m.shard0-of-2.sdnb", sdnb_of(graph))
        archive.writestr("m.shard0-of-3.sdnb", sdnb_of(graph))
    with pytest.raises(FormatError, match="not those of one model"):
        amanda.load(tmp_path / "half.sdz")


def test_the_tables_of_a_graph(tmp_path: Path) -> None:
    found = tables(layers(), tmp_path / "m.fb")
    variables = {each["name"]: each for each in found["variables"]}
    assert [*variables] == ["x", "w", "product", "sum"]
    kinds = {name: each["variabletype"] for name, each in variables.items()}
    assert kinds == {"x": 3, "w": 1, "product": 2, "sum": 2}
    assert variables["x"]["shape"] == [4, 3]
    array = variables["w"]["ndarray"]
    assert array["shape"] == [2, 1, 3, 3, 1, 1 << 13, 1, ord("c")]
    assert np.frombuffer(array["buffer"], "<f4").tolist() == [1, 2, 3]
    node, total = found["nodes"]
    assert (node["opName"], node["opType"]) == ("matmul", 21)
    assert node["opNum"] == hash_of("matmul")
    assert node["extraInteger"] == [0, 1]
    assert (node["extraParams"], node["extraBools"]) == ([0.5], [True])
    assert bytes(node["extraTypes"]) == b"\5"
    assert total["extraInteger"] == [0, 1]
    assert total["outputNames"] == ["sum"]
    assert found["placeholders"] == ["x"]


def test_fields_that_no_part_of_a_graph_stands_for_are_kept(tmp_path: Path) -> None:
    found = tables(layers(), tmp_path / "m.fb")
    node = found["nodes"][0]
    node |= {"opType": 3, "opNum": 7, "scope_name": "s", "properties": [
        {"name": "p", "l": [1, 2], "shape": [2]}]}  # fmt: skip
    found |= {"id": 9, "lossVariables": ["sum"], "trainingConfig": "{}",
              "configuration": {"id": 4, "outputMode": 3}}  # fmt: skip
    for each in (*found["variables"], *found["nodes"]):
        number = each["id"]
        if isinstance(number, dict):
            number["first"] += 40
        else:
            each["id"] = number + 40
        for pair in each.get("inputPaired", ()):
            pair["first"] += 40
    for pair in found["outputs"]:
        pair["first"] += 40
    path = tmp_path / "more.fb"
    path.write_bytes(write_root(found, CURRENT, "FlatGraph"))
    graph = amanda.load(path)
    again = tables(graph, tmp_path / "again.fb")
    assert plain(again) == plain(found)


def plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return bytes(value) if isinstance(value, memoryview) else value


def test_data_in_the_order_of_fortran(tmp_path: Path) -> None:
    found = tables(layers(), tmp_path / "m.fb")
    array = found["variables"][1]["ndarray"]
    data = np.arange(6, dtype="<f4")
    array |= {"shape": [2, 2, 3, 1, 2, 1 << 13, 1, ord("f")], "buffer": data.tobytes()}
    path = tmp_path / "f.fb"
    path.write_bytes(write_root(found, CURRENT, "FlatGraph"))
    weight = amanda.load(path).ops["w"].attrs["value"].numpy()
    assert weight.tolist() == data.reshape((2, 3), order="F").tolist()


def array_of(found: dict[str, Any]) -> dict[str, Any]:
    array: dict[str, Any] = found["variables"][1]["ndarray"]
    return array


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t["nodes"][0].pop("opName"), "not known by its number"),
        (lambda t: t["nodes"][1]["inputPaired"].append({"first": 99}), "does not have"),
        (lambda t: array_of(t).update(buffer=b"\0"), "too small"),
        (lambda t: array_of(t).update(shape=[9, 9]), "no description"),
        (lambda t: t["variables"][1].pop("ndarray"), "has no value"),
        (lambda t: array_of(t).update(appendedDataLength=4), "outside"),
        (lambda t: t["variables"][0].update(name="w"), "no name of its own"),
        (lambda t: t["nodes"][1].update(id=t["nodes"][0]["id"]), "one number"),
        (lambda t: t["outputs"].append({"first": 77}), "a result is a value"),
    ],
)
def test_invalid_files(
    tmp_path: Path, change: Callable[[object], object], message: str
) -> None:
    found = tables(layers(), tmp_path / "m.fb")
    change(found)
    path = tmp_path / "bad.fb"
    path.write_bytes(write_root(found, CURRENT, "FlatGraph"))
    with pytest.raises(FormatError) as caught:
        amanda.load(path)
    assert message in str(caught.value)
    assert "bad.fb" in str(caught.value)


def test_what_a_file_cannot_have(tmp_path: Path) -> None:
    graph = layers()
    graph.ops["product"].attrs["unknown"] = 3
    with pytest.raises(FormatError, match="attributes that nd4j does not know"):
        amanda.save(graph, tmp_path / "m.fb")
    graph = layers()
    del graph.ops["product"].attrs["transX"]
    with pytest.raises(FormatError) as caught:
        amanda.save(graph, tmp_path / "m.fb")
    assert "a value for transX" in str(caught.value)
    graph = Graph("amanda/nd4j/1")
    graph.add("less", [None], bodies={"b": Graph()}, name="y")
    with pytest.raises(FormatError) as caught:
        amanda.save(graph, tmp_path / "m.fb")
    assert len(caught.value.problems or ()) == 2
    assert not (tmp_path / "m.fb").exists()


# -- the files that libnd4j was tested with --------------------------------------------

PUBLISHED: Mapping[str, object] = {
    "ae_00": [0.32454616, -0.06604697, 0.22593613, 0.43166467, -0.18320604, 0.00102305,
              -0.06963076, 0.25266643, 0.07568010, -0.03009197, 0.07805517, 0.33180334,
              -0.06220427, 0.07249600, -0.06726961, -0.22998397, -0.06343779,
              0.07384885, -0.06891008, -0.23745790],
    "expand_dim": [-0.95938617, -1.20301781, 1.22260064, 0.50172403, 0.59972949,
                   0.78568028, 0.31609724, 1.51674747, 0.68013491, -0.05227458,
                   0.25903158, 1.13243439],
    "reduce_dim_false": [3.0, 3.0, 3.0], "simpleif_0_1": [-2.0] * 4,
    "simplewhile_0_3": [1.0] * 4, "simplewhile_nested": [15.0] * 4,
    "tensor_slice": [73.5],
}  # fmt: skip
"""What libnd4j's own tests expect of them."""
OTHERS = ("conv_0", "partition_stitch_misc", "reduce_dim", "reduce_dim_true",
          "simpleif_0", "simplewhile_0", "simplewhile_0_4", "simplewhile_1",
          "tensor_dot_misc", "transpose")  # fmt: skip
OLDER = {"adam_sum": 13, "nested_while": 15, "tensor_array": 15,
         "tensor_array_loop": 15, "three_args_while": 15}  # fmt: skip
"""Of schemas before that of May 2018, with their number of fields of a node."""


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the files, with the published descriptors installed."""
    root = Path(os.environ.get("AMANDA_TEST_DATA", ""), "dl4j")
    if "AMANDA_TEST_DATA" not in os.environ or not (root / "samediff").is_dir():
        pytest.skip("needs dl4j/samediff in AMANDA_TEST_DATA")
    monkeypatch.setenv(VARIABLE, str(root / "2025" / "nd4j-op-def.pbtxt"))
    return root / "samediff"


@pytest.mark.parametrize("name", [*PUBLISHED, *OTHERS])
def test_published_files_are_read_and_written(
    published: Path, tmp_path: Path, name: str
) -> None:
    """The tables are those of the file, and the graph can be written again."""
    data = memoryview((published / f"{name}.fb").read_bytes())
    found = read_root(data, OF_2018, "FlatGraph")
    again = write_root(found, OF_2018, "FlatGraph")
    assert plain(read_root(memoryview(again), OF_2018, "FlatGraph")) == plain(found)
    graph = amanda.load(published / f"{name}.fb")
    assert graph.check() == []
    amanda.save(graph, tmp_path / "m.fb")
    written = amanda.load(tmp_path / "m.fb")
    assert [op.type for op in written] == [op.type for op in graph]
    amanda.save(written, tmp_path / "again.fb")
    assert (tmp_path / "again.fb").read_bytes() == (tmp_path / "m.fb").read_bytes()


@pytest.mark.parametrize(("name", "fields"), OLDER.items())
def test_files_of_older_schemas_are_refused(
    published: Path, name: str, fields: int
) -> None:
    with pytest.raises(FormatError) as caught:
        amanda.load(published / f"{name}.fb")
    assert "before May 2018" in str(caught.value)
    assert f"nodes of {fields} fields" in str(caught.value)
