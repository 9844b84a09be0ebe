"""SavedModels made by TensorFlow, read, written, and run by TensorFlow again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError, AmandaWarning, FormatError, UsageError
from amanda.formatkit import schema_of_descriptor
from amanda.graph import Graph, OutputPort
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_tf.checkpoints import Bundle, read_single_file
from amanda_tf.messages import NODE_RECORDS, SCHEMA
from amanda_tf.notes import VALUE
from amanda_tf.saved_messages import SAVED
from amanda_tf.saved_models import variable_values

tf = pytest.importorskip("tensorflow", reason="needs TensorFlow, to make models")
v1 = tf.compat.v1
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5
W = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
B = np.array([1.0, -2.0, 0.5, 0.0], np.float32)
EXPECTED = np.maximum(X @ W + B, 0)


class Dense(tf.Module):  # type: ignore[misc]
    """A dense layer, with variables that the signature does not use."""

    def __init__(self, asset: Path) -> None:
        self.kernel = tf.Variable(W, name="same_name")
        self.bias = tf.Variable(B, name="same_name")
        self.labels = tf.Variable(["a", "", "c" * 300], name="labels")
        self.asset = tf.saved_model.Asset(str(asset))

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def layer(self, x: Any) -> Any:
        return {"y": tf.nn.relu(x @ self.kernel + self.bias), "total": tf.reduce_sum(x)}

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name="a")])
    def scaled(self, a: Any) -> Any:
        return {"scaled": self.bias * a}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `second` (TensorFlow 2), `first` and `checkpoints` (TensorFlow 1)."""
    root = tmp_path_factory.mktemp("models")
    asset = root / "words.txt"
    asset.write_text("one\ntwo\n")
    module = Dense(asset)
    signatures = {"serving_default": module.layer, "scaled": module.scaled}
    tf.saved_model.save(module, str(root / "second"), signatures=signatures)
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        with v1.variable_scope("", use_resource=False):
            kernel = v1.get_variable(
                "kernel", initializer=lambda shape, **_: tf.constant(W)[: shape[0]],
                shape=[3, 4], partitioner=None,
            )  # fmt: skip
        parts = v1.get_variable(
            "parts", [4, 4], use_resource=False,
            initializer=v1.random_normal_initializer(seed=1),
            partitioner=v1.fixed_size_partitioner(3),
        )  # fmt: skip
        bias = v1.get_variable("bias", initializer=B, use_resource=True)
        layer = tf.nn.relu(tf.matmul(x, kernel) + bias)
        y = tf.identity(layer, name="y")
        z = tf.matmul(y, tf.convert_to_tensor(parts), name="z")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(root / "first"), {"x": x}, {"z": z})
        folder = root / "checkpoints"
        v1.train.Saver().save(session, str(folder / "model.ckpt"))
        v1.train.Saver(write_version=1).save(session, str(folder / "old.ckpt"))
        np.save(root / "parts.npy", session.run(tf.convert_to_tensor(parts)))
    return root


def parts_of(models: Path) -> Any:
    return np.load(models / "parts.npy")


def run_tensorflow(
    folder: Path, signature: str = "serving_default", **feeds: Any
) -> Any:
    loaded = tf.saved_model.load(str(folder))
    found = loaded.signatures[signature](
        **{name: tf.constant(value) for name, value in feeds.items()}
    )
    return {name: value.numpy() for name, value in found.items()}


def message(folder: Path) -> Any:
    from tensorflow.core.protobuf import saved_model_pb2

    return saved_model_pb2.SavedModel.FromString(
        (folder / "saved_model.pb").read_bytes()
    )


def test_every_field_is_declared_as_in_tensorflow() -> None:
    from tensorflow.core.framework import variable_pb2
    from tensorflow.core.protobuf import (
        saved_model_pb2,
        tensor_bundle_pb2,
        trackable_object_graph_pb2,
    )
    from tensorflow.core.util import saved_tensor_slice_pb2
    from tensorflow.python.training import checkpoint_state_pb2

    theirs = schema_of_descriptor(
        saved_model_pb2.SavedModel.DESCRIPTOR,
        tensor_bundle_pb2.BundleHeaderProto.DESCRIPTOR,
        tensor_bundle_pb2.BundleEntryProto.DESCRIPTOR,
        trackable_object_graph_pb2.TrackableObjectGraph.DESCRIPTOR,
        saved_tensor_slice_pb2.SavedTensorSlices.DESCRIPTOR,
        checkpoint_state_pb2.CheckpointState.DESCRIPTOR,
        variable_pb2.VariableDef.DESCRIPTOR,
    )
    for name, declared in theirs.messages.items():
        assert SAVED.messages[name] == declared, name
    assert set(SAVED.messages) == {*theirs.messages, *SCHEMA.messages}
    assert all(SAVED.enums[name] == theirs.enums[name] for name in theirs.enums)


# -- reading -----------------------------------------------------------------------


def test_variables_have_their_values(models: Path) -> None:
    graph = amanda.load(models / "second")
    values = [op.attrs[VALUE] for op in graph if VALUE in op.attrs]
    shapes = sorted(str(value.shape) for value in values)
    assert shapes == ["(3, 4)", "(3,)", "(4,)"]
    for value in values:
        expected = {(3, 4): W, (4,): B}.get(value.shape)
        if expected is not None:
            np.testing.assert_array_equal(value.numpy(), expected)
    first = amanda.load(models / "first")
    found = {op.name: op.attrs[VALUE] for op in first if VALUE in op.attrs}
    assert found.keys() == {
        "kernel",
        "bias",
        "parts/part_0",
        "parts/part_1",
        "parts/part_2",
    }
    pieces = [found[f"parts/part_{i}"].numpy() for i in range(3)]
    np.testing.assert_array_equal(np.concatenate(pieces), parts_of(models))


def test_values_are_found_without_reading_what_restores_them(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> tuple[dict[str | None, Any], set[str]]:
        root = amanda.load(models / "second")
        ops = [op for op in root if VALUE in op.attrs]
        rows = {op.name: (op.attrs[VALUE], NODE_RECORDS.of(op)["key"]) for op in ops}
        return rows, set(root.deferred_functions)

    rows, unread = found()
    monkeypatch.setattr(variable_values, "restored_arguments", lambda reader: None)
    by_graph, unread_then = found()  # by the edges of the function as a graph
    assert {name: key for name, (_, key) in rows.items()} == {
        name: key for name, (_, key) in by_graph.items()
    }
    assert [value.digest() for value, _ in rows.values()] == [
        value.digest() for value, _ in by_graph.values()
    ]
    [restore] = unread - unread_then
    assert "traced_restore" in restore


def test_a_default_signature_is_the_interface(models: Path) -> None:
    graph = amanda.load(models / "second")
    assert set(graph.entries) == {"serving_default", "scaled"}
    assert [port.name for port in graph.parameters] == ["x"]
    assert [port.name for port in graph.result_ports] == ["total", "y"]
    other = amanda.load(models / "second", signature="scaled")
    assert [port.name for port in other.parameters] == ["a"]
    assert [port.name for port in other.result_ports] == ["scaled"]
    assert not other.entries


def test_tensors_by_name_are_the_interface(models: Path) -> None:
    graph = amanda.load(
        models / "first", inputs="y:0", outputs=["z"], variables="freeze"
    )
    assert [port.name for port in graph.parameters] == ["y"]
    found = amanda.run(graph, {"y": EXPECTED}, backend="numpy")
    np.testing.assert_allclose(found["z"], EXPECTED @ parts_of(models), rtol=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "tensorflow"])
def test_frozen_variables(models: Path, backend: str) -> None:
    graph = amanda.load(models / "second", variables="freeze")
    assert not any(op.type in ("VarHandleOp", "ReadVariableOp") for op in graph.walk())
    found = amanda.run(graph, {"x": X}, backend=backend)
    np.testing.assert_allclose(found["y"], EXPECTED, rtol=1e-6)
    first = amanda.load(models / "first", variables="freeze")
    found = amanda.run(first, {"x": X}, backend=backend)
    np.testing.assert_allclose(found["z"], EXPECTED @ parts_of(models), rtol=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "tensorflow"])
def test_variables_that_are_kept(models: Path, backend: str) -> None:
    found = amanda.run(amanda.load(models / "second"), {"x": X}, backend=backend)
    np.testing.assert_allclose(found["y"], EXPECTED, rtol=1e-6)
    found = amanda.run(amanda.load(models / "first"), {"x": X}, backend=backend)
    np.testing.assert_allclose(found["z"], EXPECTED @ parts_of(models), rtol=1e-5)


def test_a_frozen_signature_is_a_graph_def(models: Path, tmp_path: Path) -> None:
    graph = amanda.load(models / "second", signature="scaled", variables="freeze")
    amanda.save(graph, tmp_path / "frozen.pb")
    again = amanda.load(tmp_path / "frozen.pb", outputs="scaled")
    found = amanda.run(again, {"a": np.float32(2)}, backend="tensorflow")
    np.testing.assert_array_equal(found["scaled"], 2 * B)


def test_meta_graphs_and_old_checkpoints(models: Path) -> None:
    folder = models / "checkpoints"
    graph = amanda.load(folder / "model.ckpt.meta", outputs="z", variables="freeze")
    found = amanda.run(graph, {"x": X}, backend="numpy")
    np.testing.assert_allclose(found["z"], EXPECTED @ parts_of(models), rtol=1e-5)
    old = read_single_file(folder / "old.ckpt")
    new = Bundle(folder / "model.ckpt")
    assert old.keys() == new.keys() == {"kernel", "bias", "parts"}
    for key in old:
        np.testing.assert_array_equal(old[key].numpy(), new[key].numpy())
    graph = amanda.load(folder / "old.ckpt")
    assert {port.name for port in graph.result_ports} == set(old)


# -- writing -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["first", "second"])
def test_a_model_is_written_as_it_was(models: Path, tmp_path: Path, name: str) -> None:
    graph = amanda.load(models / name)
    amanda.save(graph, tmp_path / "again")
    assert message(tmp_path / "again") == message(models / name)
    files = {
        path.relative_to(models / name)
        for path in (models / name).rglob("*")
        if path.is_file()
    }
    assert {f for f in files if (tmp_path / "again" / f).is_file()} == files
    old, new = (
        Bundle(root / "variables/variables")
        for root in (models / name, tmp_path / "again")
    )
    assert sorted(old) == sorted(new)
    assert all(old[key].same_content(new[key]) for key in old)
    key = "y" if name == "second" else "z"
    np.testing.assert_array_equal(
        run_tensorflow(tmp_path / "again", x=X)[key],
        run_tensorflow(models / name, x=X)[key],
    )


def test_an_archive_holds_all_of_a_model(models: Path, tmp_path: Path) -> None:
    graph = amanda.load(models / "second")
    amanda.save(graph, tmp_path / "model.amanda")
    amanda.save(amanda.load(tmp_path / "model.amanda"), tmp_path / "again")
    assert message(tmp_path / "again") == message(models / "second")
    found = run_tensorflow(tmp_path / "again", "scaled", a=np.float32(3))
    np.testing.assert_array_equal(found["scaled"], 3 * B)


def test_a_changed_value_is_written(models: Path, tmp_path: Path) -> None:
    graph = amanda.load(models / "second")
    for op in graph:
        if VALUE in op.attrs and op.attrs[VALUE].shape == (4,):
            op.attrs[VALUE] = Tensor.of(B + 1)
    amanda.save(graph, tmp_path / "changed")
    found = run_tensorflow(tmp_path / "changed", "scaled", a=np.float32(2))
    np.testing.assert_array_equal(found["scaled"], 2 * (B + 1))


def test_one_signature_is_a_model_of_its_own(models: Path, tmp_path: Path) -> None:
    amanda.save(amanda.load(models / "second", signature="scaled"), tmp_path / "one")
    found = run_tensorflow(tmp_path / "one", a=np.float32(2))
    np.testing.assert_array_equal(found["scaled"], 2 * B)
    with pytest.raises(KeyError):
        run_tensorflow(tmp_path / "one", "scaled", a=np.float32(2))


def test_models_with_variables_go_to_versions_of_tensorflow_1(
    models: Path, tmp_path: Path
) -> None:
    old = amanda.convert(amanda.load(models / "second"), "tensorflow@1.15.5")
    assert amanda.namespace("tensorflow@1.15.5").validate(old) == []
    amanda.save(old, tmp_path / "old")
    np.testing.assert_allclose(run_tensorflow(tmp_path / "old", x=X)["y"], EXPECTED)


def perceptron(width: int) -> tuple[Graph, Callable[[Any], Any]]:
    """A graph of the hub whose weights are large enough to be variables."""
    weight = np.linspace(-1, 1, 3 * width, dtype=np.float32).reshape(3, width)
    graph = Graph("amanda/std/1")
    x = graph.parameter(TensorType("float32", [2, 3]), "x")
    w = graph.constant(Tensor.of(weight), "w")
    w.output.type = w.attrs["value"].type
    product = graph.add("matmul", [x, w.output], name="product")
    product.output.type = TensorType("float32", [2, width])
    result = graph.add("tanh", [product.output], name="h")
    result.output.type = product.output.type
    graph.result(result.output, "out")
    return graph, lambda value: np.tanh(value @ weight)


@pytest.mark.parametrize(("width", "variables"), [(2000, 1), (4, 0)])
def test_any_graph_becomes_a_saved_model(
    tmp_path: Path, width: int, variables: int
) -> None:
    graph, expected = perceptron(width)
    amanda.save(amanda.convert(graph, "tensorflow"), tmp_path / "model")
    found = run_tensorflow(tmp_path / "model", x=X)
    np.testing.assert_allclose(found["out"], expected(X), rtol=1e-5, atol=1e-6)
    assert len(tf.saved_model.load(str(tmp_path / "model")).variables) == variables
    again = amanda.load(tmp_path / "model", variables="freeze")
    found = amanda.run(again, {"x": X}, backend="numpy")
    np.testing.assert_allclose(found["out"], expected(X), rtol=1e-5, atol=1e-6)


def test_names_differ_in_lower_case_too(tmp_path: Path) -> None:
    """TensorFlow renames nodes whose names differ in case only, and misses them."""
    graph = Graph("amanda/std/1")
    value: OutputPort = graph.parameter(TensorType("float32", [2]), "x")
    for name in ("Relu_1", None, None, "y", "Y"):
        value = graph.add("relu", [value], name=name).output
        value.type = "float32[2]"  # type: ignore[assignment]
    for name in ("relu_1", "RELU", "y"):
        graph.result(value, name)
    amanda.save(amanda.convert(graph, "tensorflow"), tmp_path / "model")
    found = run_tensorflow(tmp_path / "model", x=np.float32([-1, 2]))
    assert sorted(found) == ["RELU", "relu_1", "y"]
    for value in found.values():
        np.testing.assert_array_equal(value, [0, 2])


def test_state_of_the_hub_is_variables(tmp_path: Path) -> None:
    """The note of a variable's value is on what reads it, too."""
    from amanda_std import ops, trace

    def count(x: Any) -> Any:
        held = ops.variable(np.zeros(2, "float32"), key="sum")
        return ops.assign(held, ops.read(held) + x)

    traced = trace(count, [amanda.parse_type("float32[2]")])
    traced.parameters[0].name = "x"
    for op in traced:
        if op.type == "read":  # as that of a PyTorch model has it
            op.attrs[VALUE] = Tensor.of(np.zeros(2, "float32"))
    graph = amanda.convert(traced, "tensorflow")
    amanda.save(graph, tmp_path / "model")
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    call = loaded.signatures["serving_default"]
    for times in (1, 2):
        found = call(x=tf.constant([1.0, 2.0]))
        for value in found.values():
            np.testing.assert_array_equal(value.numpy(), [1.0 * times, 2.0 * times])


def test_the_command_line_converts_both_ways(tmp_path: Path, models: Path) -> None:
    def amanda_cli(*arguments: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "amanda", *map(str, arguments)],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    freeze = ("--load-option", "variables=freeze")
    assert "serving_default" in amanda_cli("info", models / "second")
    amanda_cli("convert", models / "second", "model.onnx", *freeze)
    amanda_cli("convert", "model.onnx", "back/", "--to", "tensorflow")
    found = run_tensorflow(tmp_path / "back", x=X)
    np.testing.assert_allclose(found["y"], EXPECTED, rtol=1e-6)
    amanda_cli(
        "convert", models / "second", "scaled.pb", *freeze,
        "--load-option", "signature=scaled",
    )  # fmt: skip
    shown = amanda_cli("run", "scaled.pb", "--random", "1", "--backend", "tensorflow")
    assert "scaled" in shown
    assert "inputs" in amanda_cli("info", "scaled.pb")


# -- bad input ---------------------------------------------------------------------


def test_choices_that_do_not_exist(models: Path) -> None:
    second = models / "second"
    for options, pattern in (
        ({"signature": "predict"}, r"no signature 'predict'[\s\S]*serving_default"),
        ({"outputs": "nothing"}, "no tensor 'nothing'"),
        ({"outputs": "Placeholder:x:y:z"}, "no name of a tensor"),
        ({"variables": "melt"}, "kept or frozen"),
        ({"signature": "scaled", "outputs": "y"}, "its own inputs and outputs"),
        ({"bogus": 1}, "no option 'bogus'"),
    ):
        with pytest.raises(UsageError, match=pattern):
            amanda.load(second, **options)
    with pytest.raises(AmandaError, match=r"no graph with these tags[\s\S]*serve"):
        amanda.load(second, tags="train")
    assert amanda.load(second, tags=["serve"]).parameters


def test_folders_that_are_no_models(models: Path, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no installed format reads it"):
        amanda.load(tmp_path)
    with pytest.raises(FormatError, match=r"has no saved_model\.pb"):
        amanda.load(tmp_path / "saved_model.pb", format="tensorflow")
    second = models / "second"
    (tmp_path / "saved_model.pb").write_bytes((second / "saved_model.pb").read_bytes())
    with pytest.raises(FormatError, match="no file with their values"):
        amanda.load(tmp_path)
    raw = (second / "saved_model.pb").read_bytes()
    for size in (1, 5, len(raw) // 2, len(raw) - 1):
        (tmp_path / "saved_model.pb").write_bytes(raw[:size])
        with pytest.raises(FormatError, match=r"saved_model\.pb"):
            amanda.load(tmp_path)


def test_what_a_graph_def_does_not_hold(models: Path, tmp_path: Path) -> None:
    graph = amanda.load(models / "second")
    with pytest.raises(FormatError, match=r"no entries[\s\S]*serving_default"):
        amanda.save(graph, tmp_path / "model.pb")
    one = amanda.load(models / "second", signature="scaled")
    with pytest.warns(AmandaWarning, match="no values of variables"):
        amanda.save(one, tmp_path / "model.pb")


def test_a_saved_model_is_read_where_tensorflow_cannot_be_imported(
    models: Path,
) -> None:
    code = (
        "import sys; sys.modules['tensorflow'] = None; sys.modules['keras'] = None\n"
        "import amanda, numpy as np\n"
        f"graph = amanda.load({str(models / 'second')!r}, variables='freeze')\n"
        f"x = np.array({X.tolist()!r}, 'f4')\n"
        "print(amanda.run(graph, {'x': x}, backend='numpy')['y'].tolist())\n"
        "assert sys.modules['tensorflow'] is None"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(eval(done.stdout), EXPECTED, rtol=1e-6)


def test_results_of_one_name_are_written_both(tmp_path: Path) -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter("float32[2]", "x")
    for kind in ("negative", "exp"):
        graph.result(graph.add(kind, [x]).output, "y")
    amanda.save(amanda.convert(graph, "tensorflow"), tmp_path / "model")
    found = tf.saved_model.load(tmp_path / "model").signatures["serving_default"]
    results = found(x=tf.constant([0.0, 1.0]))
    assert {name: value.numpy().tolist() for name, value in results.items()} == {
        "y": [0, -1],
        "y_1": pytest.approx([1, np.e]),
    }
