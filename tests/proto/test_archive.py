"""`.amanda`: mapped, aligned, streamed, and open to other tools."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import examples, graphs

from amanda.errors import AmandaError, FormatError
from amanda.files.binary import archive, stored_zip
from amanda.files.binary.stored_zip import read_members
from amanda.graph import Graph
from amanda.tensors import Tensor


def two_weights() -> Graph:
    graph = Graph("amanda/std/1", "net")
    x = graph.parameter(name="x")
    w = graph.constant(Tensor.of(np.arange(64, dtype="float32").reshape(4, 16)), "w")
    b = graph.constant(Tensor.of(np.arange(3, dtype="int8")), "b")
    graph.result(graph.add("f", [x, w.output, b.output], name="f").output, "y")
    return graph


def saved(graph: Graph, path: Path) -> bytes:
    archive.save(graph, path)
    return path.read_bytes()


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))
@given(graphs())
def test_round_trip(tmp_path: Path, graph: Graph) -> None:
    path = tmp_path / "g.amanda"
    data = saved(graph, path)
    loaded = archive.load(path, verify=True)
    assert loaded.check() == []
    assert loaded.difference(graph) is None
    assert saved(loaded, path) == data


def test_what_is_inside(tmp_path: Path) -> None:
    data = saved(two_weights(), tmp_path / "a.amanda")
    assert data[:4] == b"PK\3\4"
    assert data[30:41] == b"amanda.json"
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        assert found.testzip() is None
        assert found.namelist() == ["amanda.json", "graph.pb", "weights.safetensors"]
        about = json.loads(found.read("amanda.json"))
    assert about == {"format": "amanda", "version": [1, 0]}


def test_other_tools_read_the_weights(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    graph = two_weights()
    odd = Tensor.of(np.array([1 + 2j, 3]))
    graph.constant(odd, "odd")
    graph.constant(Tensor.strings(["a", "bc"]), "texts")
    graph.add("g", attrs={"k": Tensor.of(np.float64(3))}, name="op")
    graph.add("g", attrs={"k": Tensor.of(np.float64(4))})
    graph.add("g", attrs={"k": Tensor.of(np.float64(5))})
    inner = Graph(outer=graph)
    inner.constant(Tensor.of(np.uint8(7)), "w")
    graph.add("If", bodies={"then": inner})
    data = saved(graph, tmp_path / "a.amanda")
    with zipfile.ZipFile(io.BytesIO(data)) as found:
        weights = safetensors.load(found.read("weights.safetensors"))
    assert set(weights) == {
        "w", "w_1", "b", "odd", "texts", "op.k", "tensor", "tensor_1",
    }  # fmt: skip
    assert weights["w"].tolist() == np.arange(64.0).reshape(4, 16).tolist()
    assert weights["w_1"] == 7
    assert weights["op.k"] == 3
    assert weights["odd"].tobytes() == odd.numpy().tobytes()


def test_weights_are_slices_of_the_file(tmp_path: Path) -> None:
    graph = Graph()
    for i in range(1, 40):
        array = np.random.default_rng(i).random((i, 16), "float32")
        graph.constant(Tensor.of(array), f"w{i}")
    graph.constant(Tensor.of(np.arange(5, dtype="int16")), "odd")
    data = saved(graph, tmp_path / "a.amanda")
    loaded = archive.loads(data)
    everything = np.frombuffer(data, np.uint8)
    start = read_members(memoryview(data))["weights.safetensors"].start
    assert start % 64 == 0
    for op in loaded:
        array = op.attrs["value"].numpy()
        assert np.shares_memory(array, everything)
        offset = array.ctypes.data - everything.ctypes.data
        assert offset % (2 if op.name == "odd" else 64) == 0
    mapped = archive.load(tmp_path / "a.amanda")
    assert mapped["w1"].attrs["value"].numpy().ctypes.data % 64 == 0


def test_equal_weights_are_stored_once(tmp_path: Path) -> None:
    ones = np.ones((1000, 100), "float32")
    graph = Graph()
    graph.constant(Tensor.of(ones), "a")
    graph.constant(Tensor.lazy(ones.copy, "float32", ones.shape), "b")
    data = saved(graph, tmp_path / "a.amanda")
    assert len(data) < 1.1 * ones.nbytes
    loaded = archive.load(tmp_path / "a.amanda")
    assert loaded["a"].attrs["value"] is loaded["b"].attrs["value"]
    assert loaded.same_as(graph)


def test_saving_streams(tmp_path: Path) -> None:
    """No more than a block of weights is asked for at a time, and none twice."""
    asked: list[int] = []

    class Watched:
        def __init__(self, seed: int) -> None:
            self.seed = seed

        def __call__(self) -> Any:
            asked.append(self.seed)
            return np.full((1000, self.seed), self.seed, "float32")

    graph = Graph()
    for seed in range(1, 6):
        graph.constant(Tensor.lazy(Watched(seed), "float32", (1000, seed)), f"w{seed}")
    archive.save(graph, tmp_path / "a.amanda")
    assert sorted(asked) == [1, 2, 3, 4, 5]


def test_a_file_can_be_saved_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.amanda"
    graph = two_weights()
    archive.save(graph, path)
    loaded = archive.load(path)
    loaded.rename(loaded["f"], "h")
    archive.save(loaded, path)
    assert archive.load(path)["h"].inputs[1] is not None
    assert (
        archive.load(path)["w"].attrs["value"].same_content(graph["w"].attrs["value"])
    )
    assert loaded["w"].attrs["value"].numpy()[1, 1] == 17


def test_opening_reads_no_weights(tmp_path: Path, alone: Callable[..., str]) -> None:
    """What becomes resident does not grow with the weights."""
    sizes = {}
    for mega in (1, 256):
        path = tmp_path / f"{mega}.amanda"
        graph = Graph()
        rows = 1 << 10
        for i in range(4):
            zeros = np.broadcast_to(np.float32(i + 1), (mega, rows, 64))
            graph.constant(Tensor.of(zeros), f"w{i}")
        archive.save(graph, path)
        code = """
import sys
from amanda.files.binary import archive
archive.load(sys.argv[1])
def resident():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(l for l in lines if l.startswith("VmRSS")).split()[1])
before = resident()
graph = archive.load(sys.argv[2])
after = resident()
assert "numpy" not in sys.modules
value = graph["w2"].attrs["value"].numpy()
assert float(value[-1, -1, -1]) == 3
print(after - before)
"""
        if not Path("/proc/self/status").exists():
            pytest.skip("no /proc here")
        sizes[mega] = int(alone(code, path, path))
        path.unlink()
    assert sizes[256] < sizes[1] + 2000, sizes


def test_saving_takes_little_memory(tmp_path: Path, alone: Callable[..., str]) -> None:
    code = """
import sys
from pathlib import Path
import numpy as np
from amanda.graph import Graph
from amanda.files.binary import archive
from amanda.tensors import Tensor

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

def graph(rows):
    made = Graph()
    made.constant(Tensor.of(np.broadcast_to(np.arange(1024.0), (rows, 1024))), "w")
    return made

archive.save(graph(256), sys.argv[1])
before = peak()
archive.save(graph(32 << 10), sys.argv[1])
print(peak() - before)
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc here")
    path = tmp_path / "a.amanda"
    kilobytes = int(alone(code, path))
    assert path.stat().st_size > 256 << 20
    assert kilobytes < 10_000


def rewritten(data: bytes, **change: bytes | None) -> bytes:
    """The archive with other members."""
    view = memoryview(data)
    content = {
        name: bytes(view[m.start : m.stop]) for name, m in read_members(view).items()
    }
    for name, new in change.items():
        key = name.replace("_", ".")
        if new is None:
            del content[key]
        else:
            content[key] = new
    file = io.BytesIO()
    with stored_zip.ArchiveWriter(file) as writer:
        for key, value in content.items():
            writer.add(key, len(value), [value])
    return file.getvalue()


def test_members_of_later_versions_are_ignored(tmp_path: Path) -> None:
    data = saved(two_weights(), tmp_path / "a.amanda")
    newer = rewritten(data, notes_txt=b"hi", amanda_json=b'{"format":"amanda",'
                      b'"version":[1,9],"more":1}')  # fmt: skip
    assert archive.loads(newer).same_as(two_weights())


def test_a_plain_zip_program_may_have_packed_it(tmp_path: Path) -> None:
    data = saved(two_weights(), tmp_path / "a.amanda")
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w") as new:
        for name in reversed(old.namelist()):
            new.writestr(name, old.read(name))
    assert archive.loads(file.getvalue()).same_as(two_weights())


def test_verify(tmp_path: Path) -> None:
    path = tmp_path / "a.amanda"
    data = bytearray(saved(two_weights(), path))
    member = read_members(memoryview(bytes(data)))["weights.safetensors"]
    data[member.stop - 1] ^= 4
    path.write_bytes(data)
    archive.load(path)
    with pytest.raises(FormatError) as caught:
        archive.load(path, verify=True)
    assert caught.value.message == "the member weights.safetensors is damaged"
    assert caught.value.who == str(path)


CHANGES: dict[str, dict[str, bytes | None]] = {
    "the archive has no amanda.json": {"amanda_json": None},
    "the archive has no graph.pb": {"graph_pb": None},
    "weights.safetensors has no weight 'w'": {"weights_safetensors": None},
    "not an archive of Amanda": {"amanda_json": b"[]"},
    "not an archive of Amanda ": {"amanda_json": b'{"format":"x","version":[1,0]}'},
    "an archive of another version": {
        "amanda_json": b'{"format":"amanda","version":[2,0]}'
    },
    "not a graph of Amanda in protobuf form": {"graph_pb": b"hello"},
    "too short for a safetensors header": {"weights_safetensors": b""},
}


@pytest.mark.parametrize("text", CHANGES)
def test_missing_and_odd_members(tmp_path: Path, text: str) -> None:
    data = saved(two_weights(), tmp_path / "a.amanda")
    with pytest.raises(FormatError) as caught:
        archive.loads(rewritten(data, **CHANGES[text]), who="a.amanda")
    assert caught.value.message.startswith(text.rstrip())
    assert caught.value.who == "a.amanda"


def test_weights_that_are_not_what_the_graph_says(tmp_path: Path) -> None:
    data = saved(two_weights(), tmp_path / "a.amanda")
    odd = data.replace(b'"dtype":"F32"', b'"dtype":"I32"')
    with pytest.raises(FormatError) as caught:
        archive.loads(odd)
    assert caught.value.message == "the weight 'w' is not what the graph states"
    assert (caught.value.expected, caught.value.got) == ("F32[4, 16]", "I32[4, 16]")
    assert caught.value.where is not None
    assert caught.value.where.startswith("graph.pb, byte ")


SAVERS = """
import numpy as np
from amanda.graph import Graph
from amanda.files.binary import archive
from amanda.tensors import Tensor

def version(number):
    graph = Graph()
    for i in range(20):
        array = np.full((50, 40 * number), number, "float32")
        graph.constant(Tensor.of(array + i), f"w{i}")
    return graph

versions = version(1), version(2)

def save(path):
    for graph in versions:
        archive.save(graph, path)
"""


def test_killed_while_saving(
    tmp_path: Path, killed_savers: Callable[..., Iterator[None]]
) -> None:
    """Killed at 200 random moments, the file is one of the versions, whole."""
    path = tmp_path / "a.amanda"
    archive.save(two_weights(), path)
    seen = set()
    for _ in killed_savers(SAVERS, path):
        graph = archive.load(path, verify=True)
        seen.add(graph.digest(content=True))
    assert 2 <= len(seen) <= 3


def test_errors_name_the_file_once(tmp_path: Path) -> None:
    path = tmp_path / "a.amanda"
    path.write_bytes(b"PK\3\4")
    with pytest.raises(AmandaError) as caught:
        archive.load(path)
    assert str(caught.value) == (
        "not a whole zip archive: it has no directory at its end\n"
        f"  who:      {path}\n"
        "  where:    byte 4\n"
        "  to do:    the file may have been cut short; take it again"
    )
