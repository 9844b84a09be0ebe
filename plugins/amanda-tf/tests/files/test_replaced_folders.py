"""SavedModels that replace others: as a whole, whatever ends the process meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import FormatError
from amanda.files import LEFT_OVER
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_tf.saved_models import folders
from amanda_tf.saved_models.meta_graphs import read_meta_graph

X = np.ones((1, 64), np.float32)


def dense(value: float, *, negated: bool) -> Graph:
    """A layer whose weights are variables of the SavedModel."""
    weight = Tensor.of(np.full((64, 64), value, np.float32))
    graph = Graph("amanda/std/1")
    x = graph.parameter(TensorType("float32", [1, 64]), "x")
    w = graph.constant(weight, "w")
    w.output.type = weight.type
    found = graph.add("matmul", [x, w.output], name="product")
    found.output.type = TensorType("float32", [1, 64])
    if negated:
        found = graph.add("negative", [found.output], name="negated")
        found.output.type = TensorType("float32", [1, 64])
    graph.result(found.output, "y")
    return amanda.convert(graph, "tensorflow")


def result(folder: Path) -> float:
    found = amanda.run(amanda.load(folder), {"x": X}, backend="numpy")
    return float(found["y"][0, 0])


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def first() -> Graph:
    return dense(1.0, negated=False)


@pytest.fixture(scope="module")
def second() -> Graph:
    return dense(2.0, negated=True)


@pytest.fixture
def model(tmp_path: Path, first: Graph) -> Path:
    """A SavedModel with files of its own, and one that is not part of it."""
    folder = tmp_path / "model"
    amanda.save(first, folder)
    (folder / "assets").mkdir()
    (folder / "assets" / "words.txt").write_text("one\n")
    (folder / "assets.extra").mkdir()
    (folder / "assets.extra" / "warmup").write_text("request")
    (folder / "fingerprint.pb").write_bytes(b"")
    (folder / "README.md").write_text("mine")
    return folder


# -- what stays and what is replaced -----------------------------------------------


def test_the_old_model_is_replaced_as_a_whole(
    model: Path, second: Graph, tmp_path: Path
) -> None:
    amanda.save(second, model)
    amanda.save(second, tmp_path / "alone")
    assert files(model) == {**files(tmp_path / "alone"), "README.md": b"mine"}
    assert amanda.load(model).same_as(amanda.load(tmp_path / "alone"))
    assert result(model) == -128
    assert names(tmp_path) == ["alone", "model"]


@pytest.mark.parametrize("name", ["saved_model.pbtxt", "saved_model.cpb"])
def test_other_forms_of_the_old_model_are_removed(
    tmp_path: Path, second: Graph, name: str
) -> None:
    (tmp_path / name).write_text("saved_model_schema_version: 1")
    amanda.save(second, tmp_path / "saved_model.pb")
    assert names(tmp_path) == ["saved_model.pb", "variables"]


def test_a_model_is_saved_over_itself(model: Path) -> None:
    before = amanda.load(model)
    amanda.save(amanda.load(model), model)
    after = amanda.load(model)
    assert after.same_as(before)
    assert (model / "assets.extra" / "warmup").read_text() == "request"
    for _ in range(2):  # the files that it was loaded from are deleted by now
        amanda.save(after, model)
    assert amanda.load(model).same_as(before)
    assert result(model) == 64


def test_large_weights_stay_in_their_file_until_they_are_written(
    tmp_path: Path,
) -> None:
    weight = Tensor.of(np.arange(3 << 20, dtype=np.float32))  # 12 MB, which is mapped
    graph = Graph("amanda/tensorflow/2.21.0")
    w = graph.constant(weight, "w")
    w.output.type = weight.type
    graph.result(w.output, "y")
    amanda.save(graph, tmp_path / "model")
    amanda.save(amanda.load(tmp_path / "model"), tmp_path / "model")
    found = amanda.run(amanda.load(tmp_path / "model"), {}, backend="numpy")
    np.testing.assert_array_equal(found["y"], weight.numpy())


def test_files_of_a_folder_that_is_no_model_stay(
    tmp_path: Path, first: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    amanda.save(first, "saved_model.pb")  # in the current folder
    assert names(Path()) == ["notes", "saved_model.pb", "variables"]
    assert (tmp_path / "notes" / "a.txt").read_text() == "mine"
    assert result(tmp_path) == 64


def test_links_to_folders_stay(model: Path, second: Graph, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(model)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "later")
    for path in (link, dangling):
        amanda.save(second, path)
        assert path.is_symlink()
        assert result(path) == -128
    assert result(model) == -128


def test_links_in_a_model_are_replaced_not_followed(
    model: Path, second: Graph, tmp_path: Path
) -> None:
    (model / "variables").rename(tmp_path / "elsewhere")
    (model / "variables").symlink_to(tmp_path / "elsewhere")
    kept = files(tmp_path / "elsewhere")
    amanda.save(second, model)
    assert files(tmp_path / "elsewhere") == kept
    assert not (model / "variables").is_symlink()
    assert result(model) == -128


def test_permissions_stay(model: Path, second: Graph) -> None:
    modes = {
        model: 0o750, model / "variables": 0o700, model / "saved_model.pb": 0o640,
        model / "variables/variables.index": 0o604,
    }  # fmt: skip
    for path, mode in modes.items():
        path.chmod(mode)
    amanda.save(second, model)
    assert {path: stat.S_IMODE(path.stat().st_mode) for path in modes} == modes


# -- what fails --------------------------------------------------------------------


def test_what_cannot_be_written(
    model: Path, second: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for path, pattern in (
        (file, "cannot write a folder: it is a file"),
        (file / "model", "a part of the path is not a folder"),
    ):
        with pytest.raises(FormatError, match=pattern):
            amanda.save(second, path, format="tensorflow")
    before = files(model)
    index = str(model / "variables/variables.index")
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != index)
    with pytest.raises(FormatError, match=r"write-protected[\s\S]*variables\.index"):
        amanda.save(second, model)
    assert files(model) == before
    assert names(tmp_path) == ["file", "model"]


FULL = """
import resource, sys
import amanda
graph = amanda.load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    amanda.save(graph, sys.argv[2])
except amanda.AmandaError as error:
    print(error)
"""


@pytest.mark.parametrize("path", ["model", "new", "a/b/new"])
def test_a_failed_write_changes_nothing(
    model: Path, second: Graph, tmp_path: Path, path: str
) -> None:
    pytest.importorskip("resource", reason="needs limits of file sizes")
    amanda.save(second, tmp_path / "source")
    before = files(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "source", tmp_path / path],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("cannot write: larger than files may be here")
    assert str(tmp_path / path / "variables") in done.stdout
    assert LEFT_OVER not in done.stdout
    assert files(tmp_path) == before
    assert names(tmp_path) == ["model", "source"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_exception_at_any_rename_restores_the_old_model(
    model: Path,
    second: Graph,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
) -> None:
    before = files(model)
    rename = os.rename
    fails_at = left = 0

    def failing(source: str, target: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise error("stop")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    while True:
        fails_at += 1
        left = fails_at
        try:
            amanda.save(second, model)
        except (FormatError, KeyboardInterrupt):
            assert files(model) == before
            assert LEFT_OVER not in "".join(names(model))
        else:
            break
    assert fails_at > 6
    assert result(model) == -128


# -- kills and readers -------------------------------------------------------------

KILLS = """
import json, os, shutil, sys
from pathlib import Path
import amanda

old, new, target = map(Path, sys.argv[1:])
models = {"old": amanda.load(old), "new": amanda.load(new)}
calls = ("rename", "replace", "rmdir", "unlink", "mkdir")

def save_and_die(count):
    def counted(call):
        def run(*args, **options):
            nonlocal count
            count -= 1
            if count == 0:
                os.kill(os.getpid(), 9)
            return call(*args, **options)
        return run
    for name in calls:
        setattr(os, name, counted(getattr(os, name)))
    amanda.save(models["new"], target)

def found():
    try:
        graph = amanda.load(target)
    except amanda.AmandaError as error:
        kept = [*target.glob(".*.amanda-tmp/old/saved_model.pb")]
        return f"error, {len(kept)} old: {error}"
    return next((k for k, v in models.items() if graph.same_as(v)), "mixture")

rows, status = [], 1
while status:
    shutil.rmtree(target, ignore_errors=True)
    if "existing" in target.name:
        shutil.copytree(old, target)
    child = os.fork()
    if not child:
        save_and_die(len(rows) + 1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    rows.append(found())
    if "existing" in target.name:
        amanda.save(models["new"], target)
        assert found() == "new"
print(json.dumps(rows))
"""


def killed_saves(*paths: Path) -> list[str]:
    """What is at the last path after each kill, at any change of the file system."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLS, *paths],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows: list[str] = json.loads(done.stdout)
    assert rows[-1] == "new"
    return rows


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks its processes")
def test_killed_saves_leave_the_old_or_the_new_model(
    model: Path, second: Graph, tmp_path: Path
) -> None:
    amanda.save(second, tmp_path / "second")
    rows = killed_saves(model, tmp_path / "second", tmp_path / "existing")
    kinds = [row.split(":")[0] for row in rows]
    assert set(kinds) == {"old", "new", "error, 1 old"}
    assert kinds == sorted(kinds, key=["old", "error, 1 old", "new"].index)
    assert kinds.count("error, 1 old") <= 8, "renames between the two models"
    assert all("no installed format reads it" in r for r in rows if "error" in r)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the script forks its processes")
def test_killed_saves_of_a_new_folder(
    model: Path, second: Graph, tmp_path: Path
) -> None:
    amanda.save(second, tmp_path / "second")
    rows = killed_saves(model, tmp_path / "second", tmp_path / "new")
    assert all(
        r == "new" or r.startswith("error, 0 old: there is no file") for r in rows
    )


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(
    model: Path, second: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = read_meta_graph
    times = 1

    def replaced(*args: Any) -> Graph:
        graph = read(*args)
        nonlocal times
        if times:
            times -= 1
            amanda.save(second, model)
        return graph

    monkeypatch.setattr(folders, "read_meta_graph", replaced)
    assert result(model) == -128
    times = 100
    with pytest.raises(FormatError, match="was replaced while it was read"):
        amanda.load(model)


WRITERS = """
import sys
import amanda
graph = amanda.load(sys.argv[1])
print("ready", flush=True)
for _ in range(int(sys.argv[3])):
    amanda.save(graph, sys.argv[2])
"""


def test_a_part_that_another_writer_moves_away_is_not_protected(
    first: Graph, second: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It vanishes after it was found, and before its permission is asked for."""
    amanda.save(first, tmp_path / "model")
    real = os.access

    def access(path: str, mode: int) -> bool:
        if Path(path).name == "variables":
            shutil.rmtree(path, ignore_errors=True)
        return real(path, mode)

    monkeypatch.setattr(os, "access", access)
    amanda.save(second, tmp_path / "model")
    monkeypatch.undo()
    amanda.save(second, tmp_path / "second")
    assert result(tmp_path / "model") == result(tmp_path / "second")


def test_readers_beside_two_writers(
    model: Path, first: Graph, second: Graph, tmp_path: Path
) -> None:
    """Each model that can be read is one of the two."""
    amanda.save(first, tmp_path / "first")
    amanda.save(second, tmp_path / "second")
    found: Counter[float | str] = Counter()
    with ExitStack() as stack:
        writers = [
            stack.enter_context(
                subprocess.Popen(
                    [
                        sys.executable,
                        "-W",
                        "ignore",
                        "-c",
                        WRITERS,
                        source,
                        model,
                        "40",
                    ],
                    stdout=subprocess.PIPE,
                )
            )
            for source in (tmp_path / "first", tmp_path / "second")
        ]
        for writer in writers:
            assert writer.stdout is not None
            writer.stdout.readline()
        while any(writer.poll() is None for writer in writers):
            try:
                found[result(model)] += 1
            except FormatError as error:
                found[error.message] += 1
    assert [writer.returncode for writer in writers] == [0, 0]
    assert {64.0, -128.0} & found.keys()
    assert {key for key in found if isinstance(key, float)} <= {64.0, -128.0}
    assert result(model) in (64, -128)
    assert names(model) == ["README.md", "saved_model.pb", "variables"]


def test_tensorflow_loads_a_model_that_replaced_another(
    model: Path, second: Graph
) -> None:
    tf = pytest.importorskip("tensorflow", reason="needs TensorFlow, to load a model")
    amanda.save(second, model)
    loaded = tf.saved_model.load(str(model))
    found = loaded.signatures["serving_default"](x=tf.constant(X))
    assert float(found["y"][0, 0]) == -128
