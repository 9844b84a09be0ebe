"""Model files that another program writes to in place while they are in use.

Exporters truncate the old file and write to it. A loaded model, or an executable of
it, then either has the old numbers or raises FormatError; loading again has the new
ones. The expected numbers are computed by numpy from the weights.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import FormatError
from amanda.files import COPY_BYTES, MappedFile, map_file
from amanda.formatkit import encode_field, encode_key, encode_varint
from amanda.host import host_in_use
from amanda.tensors import FileMap, Tensor

Array = np.ndarray[Any, Any]

LARGE = 1500  # rows of a matrix of 9 MB
SMALL = 40
FORMATS = {
    "m.onnx": "onnx@18",
    "external.onnx": "onnx@18",
    "m.amanda": "std",
    "m.ampb": "std",
}
BACKENDS = ("numpy", "jax", "onnxruntime")


@pytest.fixture(autouse=True)
def formats_are_installed() -> None:
    host = host_in_use()
    if not host.has("formats", "onnx") or not host.has("formats", "tensorflow"):
        pytest.skip("a format is not installed")


def weight(seed: int, size: int) -> Array:
    return np.random.default_rng(seed).normal(size=(size, size)).astype("float32")


def model(matrix: Array, space: str) -> amanda.Graph:
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type(f"float32[{len(matrix)}]"), name="x")
    held = graph.constant(Tensor.of(matrix), "w").output
    graph.result(graph.add("matmul", [x, held]).output, name="y")
    return graph if space == "std" else amanda.convert(graph, space)


def overwrite_in_place(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(content)


def saved(matrix: Array, folder: Path, name: str) -> dict[str, bytes]:
    """The files of a model, by name; `external.onnx` has two."""
    folder.mkdir()
    amanda.save(model(matrix, FORMATS[name]), folder / name)
    if name == "external.onnx":
        onnx = pytest.importorskip("onnx")
        onnx.save_model(
            onnx.load(folder / name),
            folder / name,
            save_as_external_data=True,
            location="weights",
            size_threshold=0,
        )
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def apply(graph: amanda.Graph, x: Array, backend: str) -> Array:
    [result] = amanda.run(graph, [x], backend=backend).values()
    return result


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("other", ["equal", "shorter"])
def test_old_numbers_or_an_error(
    tmp_path: Path, name: str, size: int, other: str, backend: str
) -> None:
    if not host_in_use().has("backends", backend):
        pytest.skip(f"{backend} is not installed")
    first, second = weight(1, size), weight(2, size if other == "equal" else 9)
    files = saved(first, tmp_path / "here", name)
    new = saved(second, tmp_path / "there", name)
    path = tmp_path / "here" / name
    graph = amanda.load(path)
    executable = amanda.compile(graph, backend)
    x, x2 = np.ones(size, "f"), np.ones(len(second), "f")
    [before] = executable([x]).values()
    np.testing.assert_allclose(before, x @ first, rtol=1e-3, atol=1e-2)
    assert files.keys() == new.keys()
    for file, content in new.items():
        overwrite_in_place(tmp_path / "here" / file, content)
    for call in (lambda: executable([x])["y"], lambda: apply(graph, x, backend)):
        assert_old_or_refused(call, before, size)
    again = apply(amanda.load(path), x2, backend)
    np.testing.assert_allclose(again, x2 @ second, rtol=1e-3, atol=1e-2)


def assert_old_or_refused(call: Callable[[], Array], before: Array, size: int) -> None:
    if size == SMALL:  # copied when it was loaded
        np.testing.assert_array_equal(call(), before)
        return
    refused = ""
    try:
        np.testing.assert_array_equal(call(), before)
    except FormatError as error:
        refused = str(error)
    assert not refused or "has changed since it was loaded" in refused


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_converted_onto_itself(tmp_path: Path, name: str, size: int) -> None:
    matrix = weight(3, size)
    saved(matrix, tmp_path / "here", name)
    path = tmp_path / "here" / name
    graph = amanda.load(path)
    amanda.save(amanda.convert(graph, graph.namespace), path)
    for read in (graph, amanda.load(path)):
        x = np.ones(size, "f")
        np.testing.assert_allclose(
            apply(read, x, "numpy"), x @ matrix, rtol=1e-3, atol=1e-2
        )


@pytest.mark.parametrize("field", [4, 10])
def test_graphdefs(tmp_path: Path, field: int) -> None:
    """Packed elements, and int64_val, which is decoded when it is used."""
    path, size = tmp_path / "m.pb", COPY_BYTES + 1
    shape = encode_field(2, encode_key(1, 0) + encode_varint(size))
    dtype = encode_key(1, 0) + encode_varint(6 if field == 4 else 9)
    tensor = dtype + encode_field(2, shape) + encode_field(field, bytes(size))
    value = encode_field(1, b"value") + encode_field(2, encode_field(8, tensor))
    node = encode_field(1, b"w") + encode_field(2, b"Const") + encode_field(5, value)
    path.write_bytes(encode_field(1, node))
    read = amanda.load(path, format="tensorflow")["w"].attrs["value"]
    assert read.numpy().shape == (size,)
    overwrite_in_place(path, path.read_bytes()[: 1 << 20])
    with pytest.raises(FormatError, match="has changed since it was loaded"):
        read.numpy()


def test_a_replaced_file_leaves_a_loaded_model_as_it_is(tmp_path: Path) -> None:
    matrix = weight(4, LARGE)
    path = tmp_path / "m.amanda"
    amanda.save(model(matrix, "std"), path)
    graph = amanda.load(path)
    executable = amanda.compile(graph, "numpy")
    amanda.save(model(weight(5, SMALL), "std"), path)
    x = np.ones(LARGE, "f")
    np.testing.assert_array_equal(executable([x])["y"], apply(graph, x, "numpy"))
    path.unlink()
    executable([x])


# -- each way in which the bytes of a changed file could be read ---------------------


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(np.arange(1 << 22, dtype="float32").tobytes())
    return path


def readers(path: Path) -> dict[str, Callable[[], object]]:
    mapped = Tensor.from_file(path, "float32", (1 << 22,))
    shared = Tensor.of(mapped.numpy().reshape(2, -1)[:, 1:])
    part = Tensor.from_buffer(map_file(path)[4096:], "float32", (2000,))
    return {
        "numpy": mapped.numpy,
        "chunks": lambda: list(mapped.chunks()),
        "digest": mapped.digest,
        "view": FileMap.of(path).view,
        "array": shared.numpy,
        "chunks of an array": lambda: list(shared.chunks()),
        "buffer": part.numpy,
    }


@pytest.mark.parametrize("length", [1 << 24, 1 << 12, 1 << 25, 0])
def test_every_access_is_checked(large: Path, length: int) -> None:
    reads = readers(large)
    overwrite_in_place(large, bytes(length))
    for name, read in reads.items():
        with pytest.raises(FormatError, match="has changed since it was loaded"):
            read()
            pytest.fail(name)


def test_a_change_between_two_chunks_is_found(large: Path) -> None:
    chunks = Tensor.from_file(large, "float32", (1 << 22,)).chunks()
    next(chunks)
    overwrite_in_place(large, b"short")
    with pytest.raises(FormatError, match="changed"):
        list(chunks)


def test_a_file_shortened_under_another_name_is_found(large: Path) -> None:
    tensor = Tensor.from_file(large, "float32", (1 << 22,))
    tensor.numpy()
    moved = large.rename(large.with_name("moved"))
    tensor.numpy()
    os.truncate(moved, 10)
    with pytest.raises(FormatError, match="changed"):
        tensor.numpy()


def test_small_tensors_and_small_files_are_copied(large: Path) -> None:
    few = Tensor.from_file(large, "float32", (1000,), 4)
    small = large.with_name("small")
    small.write_bytes(bytes(range(100)))
    view = map_file(small)
    for path in (large, small):
        overwrite_in_place(path, b"")
    assert few.numpy().tolist() == list(range(1, 1001))
    assert bytes(view) == bytes(range(100))


def test_equal_size_and_time_step(tmp_path: Path) -> None:
    """Writes within one step of the clock of the file system are told apart."""
    path = tmp_path / "large"
    for value in range(1, 6):
        overwrite_in_place_or_new(path, bytes([value]) * (COPY_BYTES + 1))
        view = map_file(path)
        assert isinstance(view.obj, MappedFile)
        before = view.obj
        overwrite_in_place_or_new(path, bytes([value + 100]) * (COPY_BYTES + 1))
        assert before.is_changed
        assert Tensor.from_file(path, "uint8", (5000,)).numpy()[0] == value + 100


def overwrite_in_place_or_new(path: Path, content: bytes) -> None:
    if not path.exists():
        path.touch()
    overwrite_in_place(path, content)
