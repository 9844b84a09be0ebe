"""Files that Keras writes, read; and files that Keras reads, written."""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda

keras = pytest.importorskip("keras")
L = keras.layers
pytestmark = pytest.mark.filterwarnings("ignore")


def everything(models: Any) -> Any:
    """Shared layers and models, wrappers, operations, several inputs and outputs."""

    def build(x: Any, ids: Any) -> Any:
        inner = keras.Sequential([L.Dense(3, trainable=False), L.BatchNormalization()])
        a, b = keras.Input((3,)), keras.Input((3,))
        pair = keras.Model([a, b], [L.Add()([a, b]), L.Dense(2)(b)])
        y = L.Bidirectional(L.GRU(2, return_sequences=True))(x)
        y = L.TimeDistributed(inner)(y[:, 1:] * 2.0)
        y = L.MultiHeadAttention(2, 3)(y, y)
        z = L.LSTM(3)(L.Embedding(5, 4, mask_zero=True)(ids))
        shared = L.Dense(3, activation="relu")
        first, second = pair([shared(z), shared(L.GlobalMaxPooling1D()(y))])
        stacked = L.RNN([L.LSTMCell(2), L.GRUCell(3)])(x)
        return [L.Concatenate()([first, stacked]), L.Dropout(0.3)(second)]

    return models.model_of([(4, 3), (6, "int32")], build)


def in_sequence(models: Any) -> Any:
    model = keras.Sequential(
        [keras.Input((6, 5, 3)), L.SeparableConv2D(4, 3), L.PReLU(),
         L.BatchNormalization(trainable=False), L.Flatten(), L.Dense(2)]
    )  # fmt: skip
    return models.randomize(model)


MODELS = {"everything": everything, "in sequence": in_sequence}


def config_of(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("config.json"))


def expect_equal(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_read_and_written(name: str, models: Any, tmp_path: Path) -> None:
    model = MODELS[name](models)
    feeds = models.feeds_of(model)
    expected = models.expected_outputs(model, feeds)
    path, again = tmp_path / "a.keras", tmp_path / "b.keras"
    model.save(path)
    graph = amanda.load(path)
    expect_equal(amanda.run(graph, feeds, backend="numpy").values(), expected)
    amanda.save(graph, again)
    assert config_of(again) == config_of(path)  # no field is lost
    assert amanda.namespace(graph.namespace).name == graph.namespace
    assert amanda.load(again).difference(graph) is None
    back = keras.models.load_model(again)
    expect_equal(models.expected_outputs(back, feeds), expected)


@pytest.mark.parametrize("name", MODELS)
def test_a_legacy_file_is_read(name: str, models: Any, tmp_path: Path) -> None:
    model = MODELS[name](models)
    feeds = models.feeds_of(model)
    expected = models.expected_outputs(model, feeds)
    path = tmp_path / "a.h5"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(path)
    graph = amanda.load(path)
    expect_equal(amanda.run(graph, feeds, backend="numpy").values(), expected)
    amanda.save(graph, tmp_path / "b.keras")
    back = keras.models.load_model(tmp_path / "b.keras")
    expect_equal(models.expected_outputs(back, feeds), expected)


def test_weights_without_a_model_are_refused(models: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.weights.h5"
    in_sequence(models).save_weights(path)
    with pytest.raises(amanda.AmandaError, match="weights without a model"):
        amanda.load(path)


def test_reading_imports_neither_keras_nor_tensorflow(
    models: Any, tmp_path: Path
) -> None:
    import subprocess
    import sys

    path = tmp_path / "a.keras"
    in_sequence(models).save(path)
    code = (
        "import sys, amanda\n"
        "sys.modules['keras'] = sys.modules['tensorflow'] = None\n"
        f"graph = amanda.convert(amanda.load({str(path)!r}), 'std')\n"
        "print(len(list(graph)) > 4)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "True", done.stderr


def test_a_model_of_keras_2_is_read(tmp_path: Path) -> None:
    """A config as Keras 2 writes it, with weights by their names there."""
    import h5py

    x = np.float32([[1.0, -2.0, 3.0]])
    kernel = np.float32([[1, 2], [0, 1], [1, 0]])

    def node(layer: str, index: int = 0) -> list[Any]:
        return [[[layer, index, 0, {}]]]

    inner = {
        "name": "inner", "layers": [
            {"class_name": "InputLayer", "config": {
                "batch_input_shape": [None, 3], "dtype": "float32", "name": "in"}},
            {"class_name": "Dense", "config": {
                "name": "d", "trainable": True, "units": 2, "use_bias": False,
                "activation": "hard_sigmoid", "dtype": "float32"}},
        ],
    }  # fmt: skip
    layers = [
        {"class_name": "InputLayer", "name": "x", "inbound_nodes": [], "config": {
            "batch_input_shape": [None, 3], "dtype": "float32", "name": "x"}},
        {"class_name": "Sequential", "name": "inner", "config": inner,
         "inbound_nodes": node("x")},
        {"class_name": "LeakyReLU", "name": "r", "inbound_nodes": node("inner", 1),
         "config": {"name": "r", "trainable": True, "alpha": 0.5, "dtype": "float32"}},
    ]  # fmt: skip
    config = {"name": "m", "layers": layers, "input_layers": [["x", 0, 0]],
              "output_layers": [["r", 0, 0]]}  # fmt: skip
    with h5py.File(tmp_path / "old.h5", "w") as h5:
        whole = {"class_name": "Model", "config": config}
        h5.attrs["model_config"] = json.dumps(whole).encode()
        h5.attrs["keras_version"] = b"2.3.1"
        group = h5.create_group("model_weights/inner")
        group.attrs["weight_names"] = [b"d/kernel:0"]
        group.create_dataset("d/kernel:0", data=kernel)
    graph = amanda.load(tmp_path / "old.h5")
    assert graph.namespace == "amanda/keras/2.3.0"
    [found] = amanda.run(graph, [x], backend="numpy").values()
    expected = np.clip(x @ kernel * 0.2 + 0.5, 0, 1)
    np.testing.assert_allclose(found, np.where(expected > 0, expected, expected / 2))


def test_the_variables_that_keras_trains_are_trained(tmp_path: Path) -> None:
    from amanda_std import ops

    model = keras.Sequential([
        keras.Input((4, 3)), L.LSTM(5, return_sequences=True), L.BatchNormalization(),
        L.Dense(6, trainable=False), L.LayerNormalization(), L.Flatten(), L.Dense(2),
    ])  # fmt: skip
    model.save(tmp_path / "model.keras")
    graph = amanda.load(tmp_path / "model.keras")
    [source], [result] = graph.parameters, graph.outputs
    trained = amanda.train(
        graph,
        lambda results: ops.mean(results[result.name] * results[result.name]),
        [{source.name: np.ones((2, 4, 3), "float32")}],
        backend="numpy",
    )
    shapes = sorted(value.shape for value in trained.weights.values())
    assert shapes == sorted(tuple(v.shape) for v in model.trainable_variables)


def test_dicts_of_inputs_and_results_are_numbered_by_sorted_keys(
    tmp_path: Path,
) -> None:
    b, a = keras.Input((4,), name="b"), keras.Input((4,), name="a")
    inner = keras.Model({"b": b, "a": a}, {"z": L.Dense(2)(a), "y": a * 2.0 + b})
    c, d = keras.Input((4,), name="c"), keras.Input((4,), name="d")
    found = inner({"b": c, "a": d})
    outer = keras.Model([c, d], {"w": found["z"] + 1.0, "v": found["y"]})
    x = np.arange(8, dtype="float32").reshape(2, 1, 4)
    for model, names in ((inner, "ba"), (outer, "cd")):
        model.save(tmp_path / "model.keras")
        graph = amanda.load(tmp_path / "model.keras")
        feeds = dict(zip(names, x, strict=True))
        wanted = model.predict(feeds, verbose=0)
        results = amanda.run(graph, feeds, backend="numpy")
        amanda.save(graph, tmp_path / "again.keras")
        again = keras.models.load_model(tmp_path / "again.keras")
        for key, value in wanted.items():
            np.testing.assert_allclose(results[key], value, rtol=1e-5)
            np.testing.assert_allclose(
                again.predict(feeds, verbose=0)[key], value, rtol=1e-5
            )
