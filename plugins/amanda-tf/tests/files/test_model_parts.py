"""Parts of models made by TensorFlow: tables, tags, sparse signatures, devices."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import FormatError
from amanda.graph import Graph
from amanda.tensors import Tensor

tf = pytest.importorskip("tensorflow", reason="needs TensorFlow, to make models")
v1 = tf.compat.v1
X = np.array([1, 2, 3], np.float32)
WORDS = ["two", "zebra", "three"]


def run_tensorflow(folder: Path, signature: str = "serving_default", **feeds: Any):
    """The results of a signature of a SavedModel, by TensorFlow."""
    loaded = tf.saved_model.load(str(folder))
    given = {name: tf.constant(value) for name, value in feeds.items()}
    return {k: v.numpy() for k, v in loaded.signatures[signature](**given).items()}


def same(got: Any, expected: Any) -> None:
    assert set(got) == set(expected)
    for name, value in expected.items():
        shown = [x.decode() if isinstance(x, bytes) else x for x in value.flat]
        if value.dtype.kind == "O":
            texts = [x.decode() if isinstance(x, bytes) else x for x in got[name].flat]
            assert texts == shown
        else:
            np.testing.assert_allclose(got[name], value, rtol=1e-6)


def saved_model(folder: Path) -> Any:
    from tensorflow.core.protobuf import saved_model_pb2

    raw = (folder / "saved_model.pb").read_bytes()
    return saved_model_pb2.SavedModel.FromString(raw)


# -- lookup tables -----------------------------------------------------------------


class Tables(tf.Module):  # type: ignore[misc]
    """Tables of a vocabulary, of columns of a file, and of constants."""

    def __init__(self, folder: Path) -> None:
        lookup = tf.lookup
        line, whole = lookup.TextFileIndex.LINE_NUMBER, lookup.TextFileIndex.WHOLE_LINE

        def table(file: str, kinds: Any, columns: Any, default: Any, **more: Any):
            rows = zip(kinds, columns, strict=True)
            (key, at), (value, to) = rows
            content = lookup.TextFileInitializer(
                str(folder / file), key, at, value, to, **more
            )
            return lookup.StaticHashTable(content, default)

        text, number, real = tf.string, tf.int64, tf.float32
        self.ids = table("vocab.txt", (text, number), (whole, line), -1)
        self.words = table("vocab.txt", (number, text), (line, whole), "?")
        self.short = table(
            "vocab.txt", (text, number), (whole, line), -1, vocab_size=2,
            value_index_offset=10,
        )  # fmt: skip
        self.weights = table("rows.csv", (text, real), (1, 0), 0.5, delimiter=",")
        self.fixed = lookup.StaticHashTable(
            lookup.KeyValueTensorInitializer([1, 5], [10, 50], number, number), 0
        )
        self.embedding = tf.Variable(np.arange(8, dtype="f").reshape(4, 2))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="w")])
    def look_up(self, w: Any) -> Any:
        ids = self.ids.lookup(w)
        return {
            "ids": ids, "words": self.words.lookup(ids), "short": self.short.lookup(w),
            "weights": self.weights.lookup(w), "fixed": self.fixed.lookup(ids + 4),
            "rows": tf.gather(self.embedding, ids + 1),
        }  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    (root / "vocab.txt").write_bytes(b"one\r\ntwo\nthree")
    (root / "rows.csv").write_text("1.5,two\n-2,one\n")
    module = Tables(root)
    tf.saved_model.save(
        module, str(root / "model"), {"serving_default": module.look_up}
    )
    return root / "model"


@pytest.mark.parametrize("backend", ["numpy", "tensorflow"])
@pytest.mark.parametrize("variables", ["keep", "freeze"])
def test_vocabulary_files_are_the_content_of_tables(
    tables: Path, backend: str, variables: str
) -> None:
    graph = amanda.load(tables, variables=variables)
    got = amanda.run(graph, {"w": np.array(WORDS, object)}, backend=backend)
    same(got, run_tensorflow(tables, w=WORDS))


@pytest.mark.parametrize(
    "options", [{}, {"signature": "serving_default"}, {"variables": "freeze"}]
)
def test_tables_are_written_with_their_content(
    tables: Path, tmp_path: Path, options: dict[str, str]
) -> None:
    amanda.save(amanda.load(tables, **options), tmp_path / "again")
    same(run_tensorflow(tmp_path / "again", w=WORDS), run_tensorflow(tables, w=WORDS))
    if not options:
        assert saved_model(tmp_path / "again") == saved_model(tables)


def test_a_damaged_vocabulary(tables: Path, tmp_path: Path) -> None:
    for content, pattern in (
        (b"1.5,two\n-2\n", "is no row of it"), (b"x,two\n", "is no row of it"),
        (b"1,two\n\n1,one\n", "is not its vocabulary"),
    ):  # fmt: skip
        shutil.copytree(tables, tmp_path / "bad", dirs_exist_ok=True)
        (tmp_path / "bad/assets/rows.csv").write_bytes(content)
        with pytest.raises(FormatError, match=pattern) as caught:
            amanda.load(tmp_path / "bad")
        assert "saved_model.pb" in str(caught.value)


# -- variables ---------------------------------------------------------------------


class Bodies(tf.Module):  # type: ignore[misc]
    """Variables that branches and a loop read, in every way that reads."""

    def __init__(self) -> None:
        self.a = tf.Variable(2.0)
        self.b = tf.Variable([1.0, 2.0, 3.0])
        self.table = tf.Variable(np.arange(12, dtype="f").reshape(2, 3, 2))

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name="x")])
    def call(self, x: Any) -> Any:
        y = tf.cond(tf.reduce_sum(x) > 0, lambda: x * self.a, lambda: x + self.b)
        i = tf.constant(0)
        while i < 3:
            y = y * self.a + self.b + tf.gather(self.table, 1)[0, 0]
            i += 1
        handle = self.table.handle
        nd = tf.raw_ops.ResourceGatherNd(
            resource=handle, indices=[[0, 2], [1, 1]], dtype=tf.float32
        )
        rows = tf.gather(self.table, [[2, 0], [1, 1]], axis=1, batch_dims=1)
        return {
            "y": y, "nd": nd, "rows": rows,
            "shape": tf.raw_ops.VariableShape(input=handle),
            "is_set": tf.raw_ops.VarIsInitializedOp(resource=handle),
        }  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "tensorflow"])
@pytest.mark.parametrize("sign", [1, -1])
def test_variables_in_bodies_are_frozen(
    tmp_path: Path, backend: str, sign: int
) -> None:
    module = Bodies()
    tf.saved_model.save(
        module, str(tmp_path / "model"), {"serving_default": module.call}
    )
    frozen = amanda.load(tmp_path / "model", variables="freeze")
    kinds = {op.type for op in frozen.walk()}
    kinds |= {op.type for f in frozen.functions.values() for op in f.walk()}
    assert not [kind for kind in kinds if kind and ("Var" in kind or "Res" in kind)]
    expected = run_tensorflow(tmp_path / "model", x=sign * X)
    same(amanda.run(frozen, {"x": sign * X}, backend=backend), expected)
    amanda.save(frozen, tmp_path / "frozen.pb")
    again = amanda.load(tmp_path / "frozen.pb", inputs="x", outputs=list(expected))
    same(amanda.run(again, {"x": sign * X}, backend=backend), expected)


# -- signatures and tags -----------------------------------------------------------


class Sparse(tf.Module):  # type: ignore[misc]
    """Signatures of sparse and ragged tensors."""

    @tf.function(input_signature=[tf.SparseTensorSpec([None, 3], tf.float32)])
    def squares(self, s: Any) -> Any:
        return {"s": tf.sparse.map_values(tf.square, s), "d": tf.sparse.to_dense(s)}

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.float32)])
    def doubled(self, r: Any) -> Any:
        return {"r": r * 2, "sums": tf.reduce_sum(r, axis=1)}


def test_sparse_and_ragged_signatures(tmp_path: Path) -> None:
    module = Sparse()
    signatures = {"squares": module.squares, "doubled": module.doubled}
    tf.saved_model.save(module, str(tmp_path / "model"), signatures)
    feeds = {
        "squares": {
            "s": np.array([[0, 1], [1, 2]]),
            "s_1": X[:2],
            "s_2": np.array([2, 3]),
        },
        "doubled": {"r": X, "r_1": np.array([0, 2, 3])},
    }
    names = {
        "squares": ["d", "s.dense_shape", "s.indices", "s.values"],
        "doubled": ["r.0", "r.1", "sums"],
    }
    amanda.save(amanda.load(tmp_path / "model"), tmp_path / "again")
    for key, given in feeds.items():
        graph = amanda.load(tmp_path / "again", signature=key)
        assert sorted(port.name for port in graph.result_ports) == names[key]
        found = amanda.run(graph, given, backend="numpy")
        loaded = tf.saved_model.load(str(tmp_path / "again")).signatures[key]
        results = loaded(**{name: tf.constant(value) for name, value in given.items()})
        for name, value in results.items():
            parts = tf.nest.flatten(value, expand_composites=True)
            labels = [n for n in found if n == name or n.startswith(f"{name}.")]
            assert len(labels) == len(parts)
            ours = sorted(str(found[n].tolist()) for n in labels)
            assert ours == sorted(str(part.numpy().tolist()) for part in parts)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel with three graphs, and a checkpoint with its MetaGraph."""
    root = tmp_path_factory.mktemp("tagged")
    define = v1.saved_model.predict_signature_def
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        w = v1.get_variable("w", initializer=np.ones((3, 2), "f"))
        with v1.colocate_with(x):
            y = tf.matmul(x, w, name="y")
        with tf.device("/cpu:0"):
            tf.identity(y, name="there")
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(root / "model.ckpt"), global_step=100)
        builder = v1.saved_model.Builder(str(root / "model"))
        builder.add_meta_graph_and_variables(
            session, ["train"], {"fit": define({"x": x}, {"loss": y})}
        )
        z = tf.negative(y, name="z")
        for tags in (["serve"], ["serve", "gpu"]):
            builder.add_meta_graph(
                tags, {"serving_default": define({"x": x}, {"y": z})}
            )
        builder.save()
    return root


@pytest.mark.parametrize(
    ("tags", "result", "expected"),
    [(None, "y", -6), ("train", "loss", 6), ("serve,gpu", "y", -6)],
)
def test_graphs_are_chosen_by_tags(
    tagged: Path, tmp_path: Path, tags: str | None, result: str, expected: int
) -> None:
    graph = amanda.load(tagged / "model", tags=tags)
    got = amanda.run(graph, {"x": X[None]}, backend="numpy")
    np.testing.assert_array_equal(got[result], np.full((1, 2), expected))
    amanda.save(graph, tmp_path / "again")
    assert saved_model(tmp_path / "again") == saved_model(tagged / "model")
    assert not list((tmp_path / "again").glob("*.tmp"))


def test_a_text_model_is_read(tagged: Path, tmp_path: Path) -> None:
    from google.protobuf import text_format

    shutil.copytree(tagged / "model", tmp_path / "text")
    message = saved_model(tagged / "model")
    (tmp_path / "text/saved_model.pb").unlink()
    text = text_format.MessageToString(message)
    (tmp_path / "text/saved_model.pbtxt").write_text(text)
    for path in ("text", "text/saved_model.pbtxt"):
        amanda.save(amanda.load(tmp_path / path), tmp_path / "again")
        assert saved_model(tmp_path / "again") == message


def test_a_meta_graph_is_written_as_it_was(tagged: Path, tmp_path: Path) -> None:
    from tensorflow.core.protobuf import meta_graph_pb2

    graph = amanda.load(tagged / "model.ckpt-100.meta")
    amanda.save(graph, tmp_path / "again.meta")
    files = (tagged / "model.ckpt-100.meta", tmp_path / "again.meta")
    messages = [meta_graph_pb2.MetaGraphDef.FromString(f.read_bytes()) for f in files]
    assert messages[0] == messages[1]
    nodes = {node.name: node for node in messages[1].graph_def.node}
    assert nodes["there"].device.lower().endswith("cpu:0")
    assert nodes["y"].attr["_class"].list.s == [b"loc:@x"]
    assert nodes["y"].attr["_output_shapes"].list.shape
    with tf.Graph().as_default(), v1.Session() as session:
        saver = v1.train.import_meta_graph(str(tmp_path / "again.meta"))
        saver.restore(session, str(tmp_path / "again"))
        found = session.run("y:0", {"x:0": X[None]})
    np.testing.assert_array_equal(found, np.full((1, 2), 6))


def test_other_files_of_a_model_are_kept(tagged: Path, tmp_path: Path) -> None:
    shutil.copytree(tagged / "model", tmp_path / "keras")
    extra = {"keras_metadata.pb": b"\x0a\x01a", "assets.extra/doc.txt": b"hello"}
    for name, content in extra.items():
        (tmp_path / "keras" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "keras" / name).write_bytes(content)
    amanda.save(amanda.load(tmp_path / "keras"), tmp_path / "again")
    for name, content in extra.items():
        assert (tmp_path / "again" / name).read_bytes() == content


def test_the_loader_of_tensorflow_finds_all_parts(tables: Path, tmp_path: Path) -> None:
    from tensorflow.python.saved_model import loader_impl

    amanda.save(amanda.load(tables), tmp_path / "again")
    folder = str(tmp_path / "again")
    [graph] = loader_impl.parse_saved_model(folder).meta_graphs
    assert list(graph.meta_info_def.tags) == ["serve"]
    assert set(graph.signature_def) == {"serving_default", "__saved_model_init_op"}
    found = loader_impl.get_asset_tensors(folder, graph)
    names = {Path(path.decode()).name for path in found.values()}
    assert names == {"vocab.txt", "rows.csv"}
    reader = tf.train.load_checkpoint(f"{folder}/variables/variables")
    shapes = reader.get_variable_to_shape_map()
    assert shapes["embedding/.ATTRIBUTES/VARIABLE_VALUE"] == [4, 2]
    with tf.Graph().as_default(), v1.Session() as session:
        loaded = v1.saved_model.load(session, ["serve"], folder)
        signature = loaded.signature_def["serving_default"]
        ids = session.run(
            signature.outputs["ids"].name, {signature.inputs["w"].name: WORDS}
        )
    np.testing.assert_array_equal(ids, [1, -1, 2])


# -- nodes -------------------------------------------------------------------------


def test_nodes_are_kept_with_all_that_graphs_do_not_have(tmp_path: Path) -> None:
    definition = v1.GraphDef()
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2, None], name="x")
        with tf.device("/job:worker/task:1/device:GPU:0"):
            y = tf.nn.relu(x, name="y")
        with tf.control_dependencies([y.op]):
            tf.identity(x, name="z")
        definition.CopyFrom(graph.as_graph_def(add_shapes=True))
    definition.versions.producer = 987
    definition.versions.bad_consumers.append(3)
    custom = definition.node.add(name="c", op="Acme>Custom", input=["y", "y", "^z"])
    custom.attr["_kind"].s = b"\xff\x00"
    custom.attr["fallback"].func.name = "f"
    custom.attr["fallback"].func.attr["n"].i = 3
    custom.attr["items"].list.f.extend([0.5, float("inf")])
    custom.experimental_debug_info.original_node_names.append("original")
    (tmp_path / "model.pb").write_bytes(definition.SerializeToString())
    for name in ("again.pb", "again.pbtxt", "last.pb"):
        before = "model.pb" if name == "again.pb" else "again.pb"
        amanda.save(amanda.load(tmp_path / before), tmp_path / name)
    from google.protobuf import text_format

    text = (tmp_path / "again.pbtxt").read_text()
    assert text_format.Parse(text, v1.GraphDef()) == definition
    for name in ("again.pb", "last.pb"):
        assert v1.GraphDef.FromString((tmp_path / name).read_bytes()) == definition


@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3fn", "bfloat16"])
@pytest.mark.parametrize("shape", [(0,), (2, 0), (3,), ()])
def test_small_floats_are_written(
    tmp_path: Path, dtype: str, shape: tuple[int, ...]
) -> None:
    graph = Graph(amanda.namespace("tensorflow").name)
    constant = graph.constant(Tensor.splat(dtype, shape, 1), "c")
    graph.result(constant.output, "c")
    amanda.save(graph, tmp_path / "model.pb")
    definition = v1.GraphDef.FromString((tmp_path / "model.pb").read_bytes())
    array = tf.make_ndarray(definition.node[0].attr["value"].tensor)
    assert (array.dtype.name, array.shape) == (dtype, shape)
    assert (array == 1).all()


def test_counting_variables(tmp_path: Path) -> None:
    variable = tf.Variable(3)

    @tf.function(input_signature=[])
    def count() -> Any:
        return tf.raw_ops.ResourceCountUpTo(
            resource=variable.handle, limit=5, T=tf.int32
        )

    run = amanda.compile(amanda.convert(amanda.load(count), "std"), "numpy")
    assert [int(run([])["output_0"]), int(run([])["output_0"])] == [3, 4]
    with pytest.raises(amanda.AmandaError, match="assertion"):
        run([])
    with tf.Graph().as_default(), v1.Session() as session:
        old = v1.get_variable("old", initializer=3, use_resource=False)
        tf.identity(v1.count_up_to(old, 5), name="next")
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(tmp_path / "counter"))
    graph = amanda.load(tmp_path / "counter.meta", outputs="next")
    run = amanda.compile(amanda.convert(graph, "std"), "numpy")
    assert [int(run([])["next"]), int(run([])["next"])] == [3, 4]
