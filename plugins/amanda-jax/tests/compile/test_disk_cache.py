"""Compiled programs that are kept in a folder, counted: loaded, written, refused."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import amanda
from amanda.errors import BackendError, UsageError
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_jax.compile import cache_key_file, disk_cache
from amanda_jax.compile.cache_key_file import secret_key
from amanda_jax.compile.disk_cache import DiskCache
from amanda_jax.compile.stored_program import serialize_program
from amanda_jax.compile.structure_hash import structure_digest
from amanda_jax.settings import Settings
from amanda_std import Value, ops, trace, tracing


@pytest.fixture(autouse=True)
def own_key(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))


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
    return {**report.disk_cache, "compiled": report.compilations}


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
print(json.dumps([told.disk_cache, told.compilations, bool(same)]))
"""


def test_the_next_process_compiles_no_program(tmp_path):
    """Also with other weights, and where the graph runs in pieces.

    What is left is the kernel of `nonzero`, which Python calls between programs."""
    told = []
    for seed in "01":
        line = [sys.executable, "-W", "ignore", "-c", SECOND, str(tmp_path), seed]
        done = subprocess.run(line, check=True, capture_output=True, text=True)
        told.append(json.loads(done.stdout))
    assert told == [[{"written": 1}, 2, True], [{"loaded": 1}, 1, True]]


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
        (layer(weight()), {"without": "algebra"}),
        (layer(weight()), {"donate": "x"}),
    ],
)
@pytest.mark.filterwarnings("ignore:Some donated buffers")
def test_what_does_count(graph, options, tmp_path):
    ran(layer(weight()), [X], cache=tmp_path)
    told = ran(graph, [X.copy()], cache=tmp_path, **options)
    assert told == {"written": 1, "compiled": 1}


@pytest.mark.filterwarnings("ignore:Some donated buffers")
def test_the_place_of_what_is_donated_counts_and_not_its_name(tmp_path):
    gone = {}
    for names in (["a", "b"], ["b", "a"], ["a", "c"]):
        types = [parse_type("float32[2, 4]")] * 2
        graph = trace(lambda a, b: a + ops.tanh(b), types, names=names)
        compiled = amanda.compile(
            graph, "jax", cache=tmp_path, donate="a", results="jax"
        )
        feeds = [jax.device_put(X), jax.device_put(X + 1)]
        compiled(feeds)
        gone["".join(names)] = [feed.is_deleted() for feed in feeds]
        told = compiled.executable.report().disk_cache
    assert gone == {"ab": [True, False], "ba": [False, True], "ac": [True, False]}
    assert told == {"loaded": 1}


def test_what_bodies_read_counts(tmp_path):
    """Two graphs of the same ops, in another order in a body, on the other values."""

    def of(swapped: bool) -> Graph:
        def function(x):
            u, v = ops.exp(x), ops.exp(x * 2.0)

            def then():
                if swapped:
                    q = ops.cos(u)
                    return ops.subtract(ops.sin(v), q)
                p = ops.sin(u)
                return ops.subtract(p, ops.cos(v))

            return ops.if_(ops.all(ops.less(x, 9.0)), then, lambda: u)[0]

        return trace(function, [parse_type("float32[2, 4]")])

    for swapped in (False, True):
        assert ran(of(swapped), [X], cache=tmp_path) == {"written": 1, "compiled": 1}
    assert ran(of(False), [X], cache=tmp_path) == {"loaded": 1, "compiled": 0}


@pytest.mark.parametrize("is_inside", [False, True])
def test_functions_keep_their_weights_which_count(is_inside, tmp_path):
    """What has a name of its own is the same wherever it is called."""

    def of(seed: int) -> Graph:
        graph = trace(lambda x: x, [parse_type("float32[n, 4]")], names=["x"])
        w = weight(seed)
        graph.add_function("f", trace(lambda v: ops.matmul(v, w), [None]))
        graph.remove_result(0)
        with tracing(graph):
            x = Value(graph.parameters[0])
            if is_inside:
                go = ops.all(ops.less(x, 9.0))
                made = ops.if_(go, lambda: ops.call("f", x), lambda: x @ weight(2))
            else:
                made = ops.call("f", x)
            graph.result(made[0].port)
        return graph

    for seed in (0, 1):
        assert ran(of(seed), [X], cache=tmp_path) == {"written": 1, "compiled": 1}
    assert ran(of(0), [X], cache=tmp_path) == {"loaded": 1, "compiled": 0}


def test_small_constants_count(tmp_path):
    for factor in (2.0, 3.0):
        graph = trace(lambda x, f=factor: x * f, [parse_type("float32[2, 4]")])
        assert ran(graph, [X], cache=tmp_path) == {"written": 1, "compiled": 1}


def test_another_version(tmp_path, monkeypatch):
    ran(layer(weight()), [X], cache=tmp_path)
    monkeypatch.setattr(disk_cache, "environment", lambda: "jax 99")
    assert ran(layer(weight()), [X], cache=tmp_path) == {"written": 1, "compiled": 1}


def test_another_compiler_of_the_device(tmp_path):
    """What compiles for a device has a version of its own, besides that of jaxlib."""
    settings = Settings().validate()
    keys = set()
    for said in ("PJRT 1", "PJRT 2"):
        client = SimpleNamespace(platform_version=said)
        device = SimpleNamespace(platform="gpu", device_kind="one", client=client)
        keys.add(DiskCache(tmp_path, 1 << 20, device).key("what", settings, [], []))
    assert len(keys) == 2


def emptied(content: bytes) -> bytes:
    return content[:0]


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def edited(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


def renamed(content: bytes) -> bytes:
    return content.replace(b'"results": 1', b'"results": 2', 1)


def test_another_number_of_cores(tmp_path, monkeypatch):
    """Some programs are in as many parts."""
    device = jax.devices("cpu")[0]
    keys = set()
    for count in (2, 2, 8):
        monkeypatch.setattr(
            "amanda_jax.compile.disk_cache.core_count", lambda count=count: count
        )
        keys.add(DiskCache(tmp_path, 1 << 20, device).key("what", Settings(), [], []))
    assert len(keys) == 2


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


@pytest.mark.skipif(os.name != "posix", reason="no modes of files here")
def test_a_file_that_others_may_write_to_is_refused(tmp_path):
    ran(layer(weight()), [X], cache=tmp_path)
    [path] = files(tmp_path)
    path.chmod(0o620)
    assert ran(layer(weight()), [X], cache=tmp_path)["refused"] == 1
    [path] = files(tmp_path)
    path.rename(tmp_path / "target")
    path.symlink_to(tmp_path / "target")
    assert ran(layer(weight()), [X], cache=tmp_path)["written"] == 1


def test_a_folder_that_came_with_a_model_is_refused(tmp_path, monkeypatch):
    """Whoever made it does not have the key of this user."""
    ran(layer(weight()), [X], cache=tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another"))
    told = ran(layer(weight()), [X], cache=tmp_path)
    assert told == {"refused": 1, "written": 1, "compiled": 1}
    key = tmp_path / "another" / "amanda" / "cache-key"
    assert key.stat().st_mode & 0o777 == 0o600


def test_no_file_is_unpickled(tmp_path, monkeypatch):
    """Not even one with the right digest."""
    ran(layer(weight()), [X], cache=tmp_path)
    [path] = files(tmp_path)
    head = path.read_bytes().split(b"\n", 3)[2]

    class Harm:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    content = head + b"\n" + pickle.dumps(Harm())
    magic = disk_cache.MAGIC + disk_cache._digest(content) + b"\n"
    path.write_bytes(magic + content)
    told = ran(layer(weight()), [X], cache=tmp_path)
    assert told == {"refused": 1, "written": 1, "compiled": 1}
    assert not (tmp_path / "executed").exists()


def test_a_key_that_others_may_read(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    secret_key()
    path = tmp_path / "amanda" / "cache-key"
    assert len(path.read_bytes()) == 32
    cache_key_file._read_or_create.cache_clear()
    path.chmod(0o644)
    with pytest.raises(UsageError, match="can be read by other users"):
        secret_key()


def test_programs_with_callbacks_are_not_stored():
    def call(x):
        return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((3,), "float32"), x)

    compiled = jax.jit(call).lower(np.ones(3, "f")).compile()
    with pytest.raises(ValueError, match="callbacks"):
        serialize_program(compiled)


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


def test_the_program_in_memory_that_goes_was_not_used_for_longest(tmp_path):
    graph = layer(weight())
    one, two, three = [X[:1]], [X], [np.concatenate([X, X[:1]])]
    ran(graph, one, two, three, cache=tmp_path)
    told = ran(graph, one, two, one, three, one, cache=tmp_path, programs=2)
    assert told == {"loaded": 3, "compiled": 0}  # the second one went for the third


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left on the device")

    monkeypatch.setattr(Path, "replace", full)
    told = ran(layer(weight()), [X], cache=tmp_path)
    assert told == {"not written": 1, "compiled": 1}
    assert files(tmp_path) == []


def test_what_an_ended_process_left_goes_in_the_end(tmp_path):
    old, new = (
        tmp_path / (name + disk_cache.UNFINISHED_SUFFIX) for name in ("old", "new")
    )
    for path in (old, new):
        path.write_bytes(bytes(100))
    os.utime(old, (1, 1))
    ran(layer(weight()), [X], cache=tmp_path)
    assert not old.exists()
    assert new.exists()  # somebody may be writing it now


def test_what_cannot_be_deleted_stays(tmp_path, monkeypatch):
    """A file that another process has open, say; the call has its results."""
    ran(layer(weight()), [X], cache=tmp_path)

    def held(*_, **__):
        raise PermissionError("it is in use")

    monkeypatch.setattr(Path, "unlink", held)
    told = ran(layer(weight(columns=9)), [X], cache=tmp_path, cache_bytes=1)
    assert told == {"written": 1, "compiled": 1}
    assert len(files(tmp_path)) == 2


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the folder for compiled programs"):
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

    assert structure_digest(of(True, "x"), ()) == structure_digest(of(True, "y"), ())
    assert structure_digest(of(True, "x"), ()) != structure_digest(of(False, "x"), ())
