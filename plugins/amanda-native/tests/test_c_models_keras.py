"""Models of Keras, with channels last, as C: equal to the backend numpy and Keras."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
pytest.importorskip("amanda_keras")

from c_programs import assert_equals_numpy  # noqa: E402
from native_libraries import needs_compiler  # noqa: E402

import amanda  # noqa: E402
from amanda.graph import input_dims, set_dims  # noqa: E402

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore:__array__ implementation"),  # of Keras
]


def small_cnn() -> Any:
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.DepthwiseConv2D(3, strides=2, padding="same"),
            keras.layers.BatchNormalization(),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )


def small_lstm() -> Any:
    return keras.Sequential(
        [
            keras.Input((8, 5)),
            keras.layers.LSTM(6, return_sequences=True),
            keras.layers.LSTM(4),
            keras.layers.Dense(2),
        ]
    )


def small_attention() -> Any:
    x = keras.Input((6, 8))
    y = keras.layers.MultiHeadAttention(2, 4)(x, x)
    y = keras.layers.LayerNormalization()(x + y)
    return keras.Model(x, keras.layers.Dense(3, activation="gelu")(y))


MODELS: dict[str, Callable[[], Any]] = {
    "cnn": small_cnn,
    "lstm": small_lstm,
    "attention": small_attention,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_equals_numpy_and_keras(name: str, tmp_path: Path) -> None:
    keras.utils.set_random_seed(1)
    model = MODELS[name]()
    path = tmp_path / "model.keras"
    model.save(path)
    fed = np.random.default_rng(2).normal(size=(1, *model.input_shape[1:]))
    fed = fed.astype("float32")
    graph = amanda.load(path)
    set_dims(graph, {str(dim): 1 for dim in input_dims(graph)})
    _, (found,) = assert_equals_numpy(graph, [fed], tmp_path / "c")
    expected = np.asarray(model(fed))
    np.testing.assert_allclose(found, expected, atol=3e-5 * np.abs(expected).max())
