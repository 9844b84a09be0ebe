"""The reader of HDF5 files, against files that the HDF5 library writes."""

from __future__ import annotations

import io
import random
from typing import Any

import h5py
import numpy as np
import pytest

from amanda.errors import AmandaError
from amanda_keras.hdf5 import Dataset, Node, open_root

ARRAY = np.arange(24).reshape(2, 3, 4)
DTYPES = ("f2", "f4", "f8", ">f4", "i1", "i8", ">i2", "u4", "?", "c8", "c16")
CHUNKED: dict[str, Any] = {
    "chunks": (1, 2, 3), "compression": "gzip", "shuffle": True, "fletcher32": True,
}  # fmt: skip


def write_all(file: h5py.File) -> None:
    """Attributes, datasets and groups of every kind that is read."""
    file.attrs.update({"text": "x" * 60000, "n": 3, "flag": True, "none": "",
                       "texts": ["ä", "bcd"], "bytes": [b"ab", b"c"],
                       "floats": np.float32([1, 2.5])})  # fmt: skip
    for i, dtype in enumerate(DTYPES):
        array = ARRAY.astype(dtype)
        file.create_dataset(f"whole/{i}", data=array)
        file.create_dataset(f"chunks/{i}", data=array, **CHUNKED)
    words = np.array([[b"ab", b"cde"], [b"", b"12345"]])
    file.create_dataset("words", data=words)
    texts = h5py.string_dtype()
    file.create_dataset("texts", data=["abc", "ü", ""], dtype=texts, chunks=(2,))
    file.create_dataset("scalar", data=np.float64(3))
    file.create_dataset("empty", shape=(0, 3))
    file.create_dataset("unwritten", shape=(4,), dtype="f4", fillvalue=7)
    rows = np.arange(1000).reshape(100, 10)
    file.create_dataset("rows", data=rows, chunks=(7, 3), maxshape=(None, 10))
    for name, is_ordered in (("old", False), ("new", True)):
        group = file.create_group(name, track_order=is_ordered)
        for i in range(700):  # more than one node of a tree
            group.create_dataset(f"v{i}", data=np.int32(i))
        group.attrs.update({f"a{i}": i for i in range(40)})


def written(**options: Any) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w", **options) as h5:
        write_all(h5)
    return file.getvalue()


def contents(data: bytes) -> tuple[dict[str, Dataset], dict[str, dict[str, Any]]]:
    """The datasets and the attributes of all objects, by path."""
    root = open_root(memoryview(data))
    datasets, attributes = {}, {"": root.attributes()}
    waiting = [("", root)]
    while waiting:
        path, group = waiting.pop()
        for name, address in group.links():
            node = Node(root.data, root.heap, address)
            place = f"{path}/{name}".strip("/")
            attributes[place] = node.attributes()
            if node.is_group:
                waiting.append((place, node))
            else:
                datasets[place] = Dataset(node, place)
    return datasets, attributes


def plain(value: Any) -> Any:
    """Texts as `str`, arrays as lists."""
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize(
    "options", [{}, {"track_order": True}, {"libver": ("v108", "v108")}], ids=str
)
def test_reads_what_the_hdf5_library_writes(options: dict[str, Any]) -> None:
    data = written(**options)
    datasets, attributes = contents(data)
    compared = 0

    def compare(path: str, item: Any) -> None:
        nonlocal compared
        assert {k: plain(v) for k, v in item.attrs.items()} == attributes.pop(path)
        if not isinstance(item, h5py.Dataset):
            return
        compared += 1
        found, expected = datasets[path].read(), np.asarray(item[()])
        assert found.shape == item.shape
        if expected.dtype.kind in "OS":
            assert found.tolist() == plain(expected)
        else:
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)

    with h5py.File(io.BytesIO(data)) as h5:
        compare("", h5)
        h5.visititems(compare)
    assert not attributes
    assert compared == len(datasets) == 1428


REFUSED = {
    "chunks of version 4": (
        lambda h5: h5.create_dataset("x", data=ARRAY, chunks=(1, 2, 3)),
        "a dataset of this layout is not read",
    ),
    "records": (
        lambda h5: h5.create_dataset("x", data=np.zeros(2, "i4,f4")),
        "a dataset of records is not read",
    ),
    "references": (
        lambda h5: h5.create_dataset("x", data=[h5.ref], dtype=h5py.ref_dtype),
        "a dataset of this element type is not read",
    ),
    "a filter": (
        lambda h5: h5.create_dataset("x", data=ARRAY, chunks=(1, 2, 3),
                                     compression="lzf"),
        "a filter of the HDF5 file is not known",
    ),
    "a soft link": (
        lambda h5: h5.update({"x": h5py.SoftLink("/y")}),
        "a link of the HDF5 file is not followed",
    ),
}  # fmt: skip


def test_attributes_are_read_again() -> None:
    root = open_root(memoryview(written()))
    for _ in range(2):
        assert root.attributes()["texts"] == ["ä", "bcd"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_named(name: str) -> None:
    write, message = REFUSED[name]
    file = io.BytesIO()
    version = "latest" if "version 4" in name else "earliest"
    with h5py.File(file, "w", libver=version) as h5:
        write(h5)
    with pytest.raises(AmandaError, match=message):
        for dataset in contents(file.getvalue())[0].values():
            dataset.read()


def test_damage_is_an_error_or_harmless() -> None:
    """Whatever bytes are wrong: never another exception, nor a loop."""
    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        h5.attrs["texts"] = ["ä", "bcd"]
        h5.create_dataset("a/b", data=ARRAY, **CHUNKED)
        h5.create_group("c", track_order=True).attrs["n"] = 1
    good, choose, refused = file.getvalue(), random.Random(1), 0
    used = [at for at in range(len(good)) if good[at]]
    for _ in range(600):
        data = bytearray(good)
        for _ in range(choose.randrange(1, 4)):
            data[choose.choice(used)] = choose.choice(
                (0, 1, 255, choose.randrange(256))
            )
        try:
            for dataset in contents(bytes(data))[0].values():
                dataset.read()
        except AmandaError:
            refused += 1
    assert refused > 100


def test_a_group_that_contains_itself_is_refused() -> None:
    from amanda.formatkit import MessageFile
    from amanda_keras.weight_file import WeightFile

    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        group = h5.create_group("a")
        group["b"] = group
    with pytest.raises(AmandaError, match="a group with two places"):
        WeightFile(MessageFile.open(file.getvalue()))
