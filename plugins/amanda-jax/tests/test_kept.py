"""Compiled programs that are kept in a folder, counted: loaded, written, refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import amanda
from amanda.errors import BackendError, UsageError
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_jax import kept
from amanda_jax.structure import structure
from amanda_std import ops, trace

X = np.cos(np.arange(8, dtype="float32")).reshape(2, 4)


def weight(seed: int = 0, columns: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((4, columns), "float32")


def layer(w: np.ndarray, x: str = "float32[n, 4]") -> Graph:
    return trace(lambda x: ops.tanh(ops.matmul(x, w)), [parse_type(x)], names=["x"])


def ran(graph: Graph, *feeds, **options) -> dict[str, int]:
    """What became of the programs; the results are those of numpy."""
    compiled = amanda.compile(graph, "jax", **options)
    for each in feeds:
        wanted = amanda.run(graph, each, backend="numpy")
        for key, value in compiled(each).items():
            assert value.dtype == wanted[key].dtype
            np.testing.assert_allclose(value, wanted[key], rtol=1e-5, atol=1e-6)
    report = compiled.executable.report()
    return {**report.kept, "compiled": report.compilations}


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


SECOND = """
import json, sys, numpy as np, amanda
from amanda.types import parse_type
from amanda_std import ops, trace
w = np.random.default_rng(int(sys.argv[2])).standard_normal((32, 32, 3, 3), "float32")
type_ = parse_type("float32[1, 32, 20, 20]")
graph = trace(lambda x: ops.nonzero(ops.conv(x, w)), [type_])
x = np.ones((1, 32, 20, 20), "float32")
compiled = amanda.compile(graph, "jax", cache=sys.argv[1])
same = (compiled([x])[0] == amanda.run(graph, [x], backend="numpy")[0]).all()
told = compiled.executable.report()
print(json.dumps([told.kept, told.compilations, bool(same)]))
"""


def test_the_next_process_does_not_trace_or_compile(tmp_path):
    """Also with other weights, and where the graph runs in pieces."""
    told = []
    for seed in "01":
        line = [sys.executable, "-W", "ignore", "-c", SECOND, str(tmp_path), seed]
        done = subprocess.run(line, check=True, capture_output=True, text=True)
        told.append(json.loads(done.stdout))
    assert told == [[{"written": 1}, 1, True], [{"loaded": 1}, 0, True]]


def test_a_program_for_each_shape_and_type(tmp_path):
    graph, feeds = layer(weight()), [[X], [X[:1]], [X]]
    assert ran(graph, *feeds, cache=tmp_path) == {"written": 2, "compiled": 2}
    assert ran(graph, *feeds, cache=tmp_path) == {"loaded": 2, "compiled": 0}
    wide = layer(weight().astype("float64"), "float64[n, 4]")
    for wanted in ({"written": 1, "compiled": 1}, {"loaded": 1, "compiled": 0}):
        assert ran(wide, [X.astype("float64")], cache=tmp_path) == wanted
    assert not jax.config.jax_enable_x64
    assert jax.config.jax_compilation_cache_dir is None


def test_what_is_in_weights_does_not_count(tmp_path):
    assert ran(layer(weight(0)), [X], cache=tmp_path) == {"written": 1, "compiled": 1}
    assert ran(layer(weight(1)), [X], cache=tmp_path) == {"loaded": 1, "compiled": 0}


@pytest.mark.parametrize(
    ("graph", "options"),
    [
        (layer(weight(columns=9)), {}),
        (trace(lambda x: ops.matmul(x, weight()), [parse_type("float32[n, 4]")]), {}),
        (layer(weight()), {"precision": "default"}),
        (layer(weight()), {"without": "products"}),
        (layer(weight()), {"donate": "x"}),
    ],
)
@pytest.mark.filterwarnings("ignore:Some donated buffers")
def test_what_does_count(graph, options, tmp_path):
    ran(layer(weight()), [X], cache=tmp_path)
    told = ran(graph, [X.copy()], cache=tmp_path, **options)
    assert told == {"written": 1, "compiled": 1}


def test_small_constants_count(tmp_path):
    for factor in (2.0, 3.0):
        graph = trace(lambda x, f=factor: x * f, [parse_type("float32[2, 4]")])
        assert ran(graph, [X], cache=tmp_path) == {"written": 1, "compiled": 1}


def test_another_version(tmp_path, monkeypatch):
    ran(layer(weight()), [X], cache=tmp_path)
    monkeypatch.setattr(kept, "surroundings", lambda: "jax 99")
    assert ran(layer(weight()), [X], cache=tmp_path) == {"written": 1, "compiled": 1}


def emptied(content: bytes) -> bytes:
    return content[:0]


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def edited(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


def renamed(content: bytes) -> bytes:
    return content.replace(b'"results": 1', b'"results": 2', 1)


@pytest.mark.parametrize("harm", [emptied, cut, edited, renamed])
def test_a_file_that_is_not_whole_is_refused_and_written_anew(harm, tmp_path):
    graph = layer(weight())
    ran(graph, [X], cache=tmp_path)
    [path] = files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(harm(whole))
    told = ran(graph, [X], cache=tmp_path)
    assert told == {"refused": 1, "written": 1, "compiled": 1}
    assert ran(graph, [X], cache=tmp_path) == {"loaded": 1, "compiled": 0}


def test_a_file_for_another_program_is_refused(tmp_path):
    """As if it had been renamed: it is whole, but says for which program it is."""
    ran(layer(weight()), [X], cache=tmp_path)
    [first] = files(tmp_path)
    other = layer(weight(columns=9))
    ran(other, [X], cache=tmp_path)
    [second] = set(files(tmp_path)) - {first}
    second.write_bytes(first.read_bytes())
    told = ran(other, [X], cache=tmp_path)
    assert told == {"refused": 1, "written": 1, "compiled": 1}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners of files here")
def test_a_file_of_another_user_is_refused(tmp_path, monkeypatch):
    ran(layer(weight()), [X], cache=tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert ran(layer(weight()), [X], cache=tmp_path)["refused"] == 1


def test_the_folder_is_bounded_and_what_is_used_stays(tmp_path):
    graph = layer(weight())
    ran(graph, [X], cache=tmp_path)
    [first] = files(tmp_path)
    size = first.stat().st_size
    os.utime(first, (1, 1))
    ran(layer(weight(columns=9)), [X], cache=tmp_path)
    [second] = set(files(tmp_path)) - {first}
    os.utime(second, (2, 2))
    assert ran(graph, [X], cache=tmp_path) == {"loaded": 1, "compiled": 0}
    room = int(size * 2.5)
    ran(layer(weight(columns=10)), [X], cache=tmp_path, cache_bytes=room)
    assert first.exists()  # it was used after the second one
    assert not second.exists()
    assert sum(path.stat().st_size for path in files(tmp_path)) <= room


def test_programs_in_memory_are_bounded(tmp_path):
    graph = layer(weight())
    feeds = [[X], [X[:1]], [X], [X[:1]]]
    told = ran(graph, *feeds, cache=tmp_path, programs=1)
    assert told == {"written": 2, "loaded": 2, "compiled": 2}


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="no folder can be made"):
        amanda.compile(layer(weight()), "jax", cache=tmp_path / "file" / "inside")
    with pytest.raises(BackendError, match=r"'cache_bytes' .* is a number of bytes"):
        amanda.compile(layer(weight()), "jax", cache=tmp_path, cache_bytes=0)
    with pytest.raises(BackendError, match="for one device"):
        amanda.compile(layer(weight()), "jax", cache=tmp_path, mesh={"data": 1})


def test_feeds_of_any_kind(tmp_path):
    graph = trace(ops.add, [parse_type("float32[2]"), parse_type("float32[]")])
    compiled = amanda.compile(graph, "jax", cache=tmp_path)
    for y in (3.0, np.float32(3), np.array(3, "float32"), jax.numpy.float32(3)):
        for x in ([1, 2], np.array([1, 2], "float32"), jax.numpy.asarray([1.0, 2.0])):
            assert compiled([x, y])[0].tolist() == [4, 5]


def test_order_counts_and_names_do_not():
    def of(first: bool, name: str) -> Graph:
        a, b = weight(0), weight(1)
        graph = Graph("amanda/std/1")
        x = graph.parameter(parse_type("float32[n, 4]"), name)
        held = [graph.constant(amanda.tensors.Tensor.of(w)).output for w in (a, b)]
        left, right = held if first else held[::-1]
        made = [graph.add("matmul", [x, w]).output for w in (left, right)]
        graph.result(graph.add("sub", made).output)
        return graph

    assert structure(of(True, "x"), ()) == structure(of(True, "y"), ())
    assert structure(of(True, "x"), ()) != structure(of(False, "x"), ())
