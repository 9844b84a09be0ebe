"""Tensor bundles: what is written is read, and damaged files are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.errors import FormatError
from amanda.formatkit import collect_missing_files
from amanda.tensors import Tensor
from amanda_tf.checkpoints import Bundle, write_bundle
from amanda_tf.checkpoints.crc import crc_of, mask_crc
from amanda_tf.checkpoints.slice_keys import slice_key
from amanda_tf.checkpoints.snappy import decompress_snappy
from amanda_tf.checkpoints.table import MAGIC, Table, table_bytes
from amanda_tf.saved_messages import SAVED

TENSORS = {
    "layer/kernel": Tensor.of(np.arange(6000, dtype=np.float32).reshape(60, 100)),
    "layer/bias": Tensor.of(np.array([1.5, -2.0], np.float64)),
    "layer/empty": Tensor.of(np.zeros((0, 3), np.int32)),
    "names": Tensor.strings([b"a", b"", b"\xff" * 300], (3,)),
    "step": Tensor.of(np.array(7, np.int64)),
    "half": Tensor.of([1.0, 2.0], "bfloat16"),
}


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    found = tmp_path / "model"
    write_bundle(found, TENSORS)
    return found


def data_file(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.data-00000-of-00001")


def same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.same_content(other)


def test_what_is_written_is_read(prefix: Path) -> None:
    bundle = Bundle(prefix)
    assert sorted(bundle) == sorted(TENSORS)
    assert all(same(bundle[key], TENSORS[key]) for key in TENSORS)
    offsets = [entry.get("offset", 0) for entry in bundle._entries.values()]
    assert all(offset % 64 == 0 for offset in offsets)


def test_large_tensors_stay_in_the_file(tmp_path: Path) -> None:
    size = 3 << 20
    values = np.arange(size, dtype=np.float32)
    write_bundle(tmp_path / "large", {"w": Tensor.of(values)})
    array = Bundle(tmp_path / "large")["w"].numpy()
    assert not array.flags.owndata
    assert array.flags.c_contiguous
    np.testing.assert_array_equal(array, values)


def test_tables_of_many_blocks_are_sorted() -> None:
    rows = [(f"key {i:06}".encode(), bytes(i % 300)) for i in range(5000)]
    raw = table_bytes(rows)
    assert raw.endswith(MAGIC)
    table = Table(memoryview(raw), "")
    assert [(key, bytes(value)) for key, value in table] == rows


def test_checksums_are_those_of_crc32c() -> None:
    # RFC 3720, appendix B.4: the CRC of 32 zeros, and of the bytes 0 to 31
    assert crc_of([bytes(32)]) == 0x8A9136AA
    assert crc_of([bytes(range(10)), bytes(range(10, 32))]) == 0x46DD794E
    assert mask_crc(0) == 0xA282EAD8


def test_compressed_blocks_are_read() -> None:
    # a literal of 6 bytes; 10 bytes from 6 back, 4 from 1 back; a long literal
    text = bytes(range(65, 71))
    long = bytes(200)
    raw = bytes([220, 1, 5 << 2]) + text + bytes([9 << 2 | 2, 6, 0, 1, 1])
    raw += bytes([60 << 2, 199]) + long
    expected = text + (text * 2)[:10]
    expected += expected[-1:] * 4 + long
    assert decompress_snappy(memoryview(raw), 1000) == expected
    with pytest.raises(FormatError, match="too large"):
        decompress_snappy(memoryview(raw), 100)
    with pytest.raises(FormatError, match="before its start"):
        decompress_snappy(memoryview(bytes([5, 0, 65, 1, 9])), 100)


def test_slice_keys_are_in_the_order_of_their_places() -> None:
    places = [-70, -1, 0, 5, 63, 64, 8191, 8192, 1 << 20, 1 << 40]
    keys = [slice_key("w", [(place, 3), (0, -1)]) for place in places]
    assert keys == sorted(keys)
    assert slice_key("a\0b", []) == b"\0a\0\xffb\0\1\0"


def test_slices_of_a_variable_are_joined(tmp_path: Path) -> None:
    whole = np.arange(12, dtype=np.float32).reshape(3, 4)
    parts = [([(0, 2), (0, -1)], whole[:2]), ([(2, 1), (0, -1)], whole[2:])]
    write_slices(tmp_path / "sliced", "w", whole.shape, parts)
    np.testing.assert_array_equal(Bundle(tmp_path / "sliced")["w"].numpy(), whole)
    write_slices(tmp_path / "gap", "w", whole.shape, parts[:1])
    with pytest.raises(FormatError, match="do not cover it"):
        Bundle(tmp_path / "gap")["w"].numpy()


def write_slices(prefix, name, shape, parts) -> None:
    """A bundle of one tensor in slices; the data files are those of other bundles."""
    keys = {slice_key(name, extents).decode("latin1"): a for extents, a in parts}
    write_bundle(prefix, {key: Tensor.of(a) for key, a in keys.items()})
    rows = {key: bytes(value) for key, value in Table.open(f"{prefix}.index")}
    rows = {
        key.decode().encode("latin1") if key else key: value
        for key, value in rows.items()
    }
    entry = SAVED.writer("BundleEntryProto").put("dtype", 1)
    dims = [SAVED.writer("TensorShapeProto.Dim").put("size", n).done() for n in shape]
    entry.put("shape", SAVED.writer("TensorShapeProto").put_all("dim", dims).done())
    for extents, _ in parts:
        each = SAVED.writer("TensorSliceProto")
        for start, length in extents:
            one = SAVED.writer("TensorSliceProto.Extent").put_if("start", start)
            each.put("extent", one.put("length", length if length > 0 else None).done())
        entry.put("slices", each.done())
    rows[name.encode()] = entry.done()
    Path(f"{prefix}.index").write_bytes(table_bytes(sorted(rows.items())))


# -- checkpoints as graphs ---------------------------------------------------------


@pytest.mark.parametrize("name", ["model.index", "model"])
def test_a_checkpoint_is_a_graph_of_constants(prefix: Path, name: str) -> None:
    graph = amanda.load(prefix.with_name(name))
    assert [port.name for port in graph.result_ports] == sorted(TENSORS)
    for port, value in zip(graph.result_ports, graph.results, strict=True):
        assert same(value.op.attrs["value"], TENSORS[port.name])
    amanda.save(graph, prefix.with_name("again.index"))
    again = Bundle(prefix.with_name("again"))
    assert all(same(again[key], TENSORS[key]) for key in TENSORS)


def test_the_latest_checkpoint_of_a_folder_is_read(prefix: Path) -> None:
    state = prefix.with_name("checkpoint")
    state.write_text('model_checkpoint_path: "/elsewhere/model"')
    assert len(amanda.load(prefix.parent).results) == len(TENSORS)
    state.write_text("")
    with pytest.raises(FormatError, match="names no checkpoint"):
        amanda.load(prefix.parent)


# -- damaged files -----------------------------------------------------------------


def test_a_wrong_checksum_is_an_error_when_the_tensor_is_read(prefix: Path) -> None:
    file = data_file(prefix)
    entries = Bundle(prefix)._entries
    for key, pattern in (
        ("layer/kernel", "checksum of 'layer/kernel' is wrong"),
        ("names", "checksum of 'names' is wrong"),
    ):
        good = bytearray(file.read_bytes())
        good[entries[key]["offset"] + entries[key]["size"] - 1] ^= 1
        other = prefix.with_name("other")
        data_file(other).write_bytes(good)
        (other.with_suffix(".index")).write_bytes(
            prefix.with_suffix(".index").read_bytes()
        )
        bundle = Bundle(other)
        assert same(bundle["step"], TENSORS["step"])
        with pytest.raises(FormatError, match=pattern) as caught:
            bundle[key].numpy()
        assert str(data_file(other)) in str(caught.value)
        assert f"byte {entries[key]['offset']}" in str(caught.value)


def test_every_changed_byte_of_an_index_is_found(prefix: Path) -> None:
    index = prefix.with_suffix(".index")
    good = index.read_bytes()
    padding = len(good[-48:-8]) - len(good[-48:-8].rstrip(b"\0"))
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1
        index.write_bytes(bad)
        if at >= len(good) - 8 - padding and at < len(good) - 8:
            assert sorted(Bundle(prefix)) == sorted(TENSORS)
        else:
            with pytest.raises(FormatError, match=r"model\.index"):
                dict(Bundle(prefix))


def test_truncated_files_and_missing_shards(prefix: Path) -> None:
    index, file = prefix.with_suffix(".index"), data_file(prefix)
    data = file.read_bytes()
    file.write_bytes(data[:-10])
    with pytest.raises(FormatError, match="outside of its file"):
        dict(Bundle(prefix))
    file.unlink()
    with pytest.raises(FormatError, match=r"no such file[\s\S]*|model.data-00000"):
        dict(Bundle(prefix))
    good = index.read_bytes()
    for size in range(0, len(good), 7):
        index.write_bytes(good[:size])
        with pytest.raises(FormatError, match=r"model\.index"):
            Bundle(prefix)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"shard_id": 3}, "a file that does not exist"),
        ({"offset": 1 << 40}, "outside of its file"),
        ({"offset": -1}, "outside of its file"),
        ({"size": 4}, "does not fit its shape"),
        ({"dtype": 21}, "no elements that an array can have"),
        ({"dtype": 999}, "no elements that an array can have"),
    ],
)
def test_hostile_entries(prefix: Path, fields: dict[str, int], message: str) -> None:
    index = prefix.with_suffix(".index")
    rows = {key: bytes(value) for key, value in Table.open(str(index))}
    entry = SAVED.read("BundleEntryProto", rows[b"layer/kernel"])
    start, end = entry.pop("shape")
    writer = SAVED.writer("BundleEntryProto")
    writer.put("shape", rows[b"layer/kernel"][start:end])
    for name, value in {**entry, **fields}.items():
        writer.put(name, value)
    rows[b"layer/kernel"] = writer.done()
    index.write_bytes(table_bytes(sorted(rows.items())))
    with pytest.raises(FormatError, match=message):
        Bundle(prefix)["layer/kernel"].numpy()
    assert same(Bundle(prefix)["step"], TENSORS["step"])


def test_missing_shards_are_collected_where_that_is_asked(prefix: Path) -> None:
    file = data_file(prefix)
    whole = amanda.load(prefix, format="tensorflow")
    file.unlink()
    with collect_missing_files() as missing:
        graph = amanda.load(prefix, format="tensorflow")
    assert list(missing) == [str(file)]
    assert [op.output.type for op in graph] == [op.output.type for op in whole]


def test_no_tensorflow_is_imported(prefix: Path) -> None:
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "import amanda\n"
        f"graph = amanda.load({str(prefix) + '.index'!r})\n"
        "print(len(graph.results))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env={**os.environ}, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == str(len(TENSORS)), done.stderr


def test_a_tensor_without_a_key_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="a tensor without a key"):
        write_bundle(tmp_path / "model", {"": TENSORS["step"]})
    assert not list(tmp_path.iterdir())
