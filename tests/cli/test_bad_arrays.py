"""Feeds and results of the command line: damaged, hostile and oddly named."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import amanda
from amanda.cli.inputs.array_files import read_arrays, write_arrays
from amanda.errors import AmandaError, FormatError, LimitError, UsageError
from amanda.files.text.formats import YamlFormat

if TYPE_CHECKING:
    from tests.cli.conftest import Call


class Echo:
    """Returns what it is fed."""

    name, namespace = "echo", "toy/echo/1"

    def devices(self) -> list[str]:
        return ["cpu"]

    def takes(self, op: Any) -> bool:
        return True

    def compile(self, graph: Any, device: Any, options: Any) -> Callable[..., Any]:
        return lambda feeds, out=None: [np.tanh(x) for x in feeds.values()]


@pytest.fixture
def echo(host: amanda.Host, tmp_path: Path) -> Callable[[str, str], Path]:
    """A model with one input of a type and one result of a name."""
    host.register_format("yaml", YamlFormat(), manifest={"suffixes": [".yaml"]})
    host.register_backend("echo", Echo(), manifest={"namespace": Echo.namespace})

    def made(type: str, result: str) -> Path:
        graph = amanda.Graph(Echo.namespace)
        x = graph.parameter(amanda.parse_type(type), "x")
        graph.result(graph.add("tanh", [x]).output, result)
        path = tmp_path / "m.yaml"
        amanda.save(graph, path)
        return path

    return made


def archive(compression: int = zipfile.ZIP_STORED) -> bytearray:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as out:
        array = io.BytesIO()
        np.save(array, np.ones((2, 3), "float32"))
        out.writestr("x.npy", array.getvalue())
    return bytearray(file.getvalue())


def flip_content(data: bytearray) -> None:
    data[170] ^= 255


def encrypt(data: bytearray) -> None:
    data[6] |= 1
    data[data.rfind(b"PK\1\2") + 8] |= 1


def use_unknown_method(data: bytearray) -> None:
    data[8] = 99
    data[data.rfind(b"PK\1\2") + 10] = 99


def truncate(data: bytearray) -> None:
    del data[100:]


@pytest.mark.parametrize("harm", [flip_content, encrypt, use_unknown_method, truncate])
def test_a_damaged_archive_is_bad_input(
    harm: Callable[[bytearray], None],
    call: Call,
    echo: Callable[[str, str], Path],
    tmp_path: Path,
) -> None:
    data = archive()
    harm(data)
    path = tmp_path / "bad.npz"
    path.write_bytes(data)
    ended = call("run", echo("float32[2, 3]", "y"), "--feed", path)
    assert ended.code == 1
    assert str(path) in ended.err


HEADERS = {
    "nested": b"(" * 9000 + b"\n",
    "no dict": b"[1, 2]\n",
    "huge": b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }\n",
    "negative": b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n",
    "pickled": b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n",
    "no dtype": b"{'descr': 'zzz', 'fortran_order': False, 'shape': (1,), }\n",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize("within", [False, True])
def test_a_header_that_does_not_fit_the_data(
    header: bytes, within: bool, tmp_path: Path
) -> None:
    """Nothing is allocated for what is not there."""
    data = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(4)
    path = tmp_path / "a.npy"
    if within:
        with zipfile.ZipFile(path, "w") as out:
            out.writestr("x.npy", data)
    else:
        path.write_bytes(data)
    with pytest.raises(FormatError, match=r"."):
        read_arrays(str(path))


def test_an_archive_is_bounded_before_it_is_expanded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out,
        out.open("x.npy", "w", force_zip64=True) as stream,
    ):
        for _ in range(300):
            stream.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 19
    with pytest.raises(LimitError, match="expands"):
        read_arrays(str(path))


def test_an_archive_without_arrays_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "empty.npz")
    assert read_arrays(str(tmp_path / "empty.npz")) == {}


def test_files_of_numpy_are_read(tmp_path: Path) -> None:
    arrays = {"x": np.arange(6.0).reshape(2, 3), "y": np.zeros((0, 2), "int8"),
              "f": np.asfortranarray(np.arange(6).reshape(2, 3)), "s": np.array(["a"]),
              "n": np.float32(3)}  # fmt: skip
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "all.npz", **arrays)
        read = read_arrays(str(tmp_path / "all.npz"))
        assert read.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(read[name], array)
            assert read[name].dtype == array.dtype
    np.save(tmp_path / "f.npy", arrays["f"])
    np.testing.assert_array_equal(read_arrays(str(tmp_path / "f.npy")), arrays["f"])


@pytest.mark.parametrize("name", ["file", "allow_pickle", "args", "a b", "self", "é"])
def test_results_of_any_name_are_saved(
    name: str, call: Call, echo: Callable[[str, str], Path], tmp_path: Path
) -> None:
    out = tmp_path / "o.npz"
    model = echo("float32[3]", name)
    ended = call("run", model, "--random", 1, "--save", out)
    assert (ended.code, ended.err) == (0, "")
    with np.load(out, allow_pickle=False) as found:
        assert found.files == [name]
        assert found[name].shape == (3,)


def test_sequences_are_saved_item_by_item(tmp_path: Path) -> None:
    values = {
        "s": [np.ones(2), np.ones((3, 1))],
        "m": {1: np.int8(4)},
        "none": None,
        "t": np.array(["a", "bc"], object),
        "b": np.array([b"\xff"], object),
    }
    with (tmp_path / "o.npz").open("wb") as file:
        write_arrays(file, values)
    with np.load(tmp_path / "o.npz", allow_pickle=False) as found:
        assert found.files == ["s[0]", "s[1]", "m[1]", "t", "b"]
        assert found["s[1]"].shape == (3, 1)
        assert found["t"].tolist() == ["a", "bc"]
        assert found["b"].tolist() == [b"\xff"]


@pytest.mark.parametrize("value", [np.array([b"a\0"], object), np.array([{}], object)])
def test_what_would_need_pickle_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="'r'"):
        write_arrays(io.BytesIO(), {"r": value})


@pytest.mark.parametrize(
    ("type", "code"),
    [
        ("float32[4611686018427387904]", 1),
        (f"float32[{', '.join('1' * 100)}]", 2),
        ("float32[9223372036854775807, 9223372036854775807]", 1),
        ("float32[n, 9223372036854775807]", 1),
    ],
)
def test_random_values_that_no_memory_holds(
    type: str, code: int, call: Call, echo: Callable[[str, str], Path]
) -> None:
    ended = call("run", echo(type, "y"), "--random", 1)
    assert ended.code == code
    assert "'x'" in ended.err


def test_inputs_of_one_name_are_refused_when_named() -> None:
    graph = amanda.Graph(Echo.namespace)
    _, second = graph.parameter(name="x"), graph.parameter(name="y")
    with pytest.raises(AmandaError, match="'x'"):
        second.name = "x"
    assert second.name == "y"
