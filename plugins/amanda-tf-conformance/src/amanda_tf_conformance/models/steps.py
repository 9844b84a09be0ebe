"""Calls that change variables, several times: training steps, counters, queues.

A training step returns its loss and all variables after it: the parameters, the
statistics of normalizations, and the state of the optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from amanda_tf_conformance.models.layers import IMAGE, ROWS, STEPS
from amanda_tf_conformance.models.table import Model, floats, integers
from amanda_tf_conformance.models.training import OPTIMIZERS, VARIABLES

__all__ = ["models"]

L: Any = keras.layers
O: Any = keras.optimizers  # noqa: E741
CALLS = 5

MORE_OPTIMIZERS = {
    "adamax": lambda: O.Adamax(0.01),
    "amsgrad": lambda: O.Adam(0.01, amsgrad=True),
    "centered_rmsprop": lambda: O.RMSprop(0.01, momentum=0.5, centered=True),
    "nesterov": lambda: O.SGD(0.1, momentum=0.9, nesterov=True),
    "decaying_sgd": lambda: O.SGD(O.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "cosine_adam": lambda: O.Adam(O.schedules.CosineDecay(0.1, 10)),
    "clipped_adam": lambda: O.Adam(0.01, global_clipnorm=0.5),
    "clipped_values": lambda: O.SGD(0.1, clipvalue=0.1),
    "averaged_sgd": lambda: O.SGD(0.1, use_ema=True),
    "accumulated": lambda: O.Adam(0.01, gradient_accumulation_steps=2),
}

NETWORKS: dict[str, tuple[Callable[[], list[Any]], Any]] = {
    "dense": (lambda: [L.Dense(5, "tanh"), L.Dense(3)], ROWS),
    "batch_norm": (
        lambda: [L.Dense(5), L.BatchNormalization(), L.ReLU(), L.Dense(3)],
        ROWS,
    ),
    "layer_norm": (
        lambda: [L.Dense(5, "gelu"), L.LayerNormalization(), L.Dense(3)],
        ROWS,
    ),
    "convolutions": (
        lambda: [
            L.Conv2D(4, 3, padding="same"),
            L.BatchNormalization(),
            L.ReLU(),
            L.MaxPooling2D(),
            L.Flatten(),
            L.Dense(3),
        ],
        IMAGE,
    ),
    "separable": (
        lambda: [
            L.SeparableConv2D(4, 3),
            L.GlobalAveragePooling2D(),
            L.Dense(3, "softmax"),
        ],
        IMAGE,
    ),
    "convolution_1d": (
        lambda: [L.Conv1D(4, 3), L.GlobalMaxPooling1D(), L.Dense(3)],
        STEPS,
    ),
    "transposed": (
        lambda: [L.Conv2DTranspose(3, 3, 2), L.GlobalAveragePooling2D(), L.Dense(3)],
        IMAGE,
    ),
    "group_norm": (
        lambda: [L.GroupNormalization(3), L.Flatten(), L.Dense(3)],
        IMAGE,
    ),
    "embedding": (
        lambda: [L.Embedding(10, 4), L.GlobalAveragePooling1D(), L.Dense(3)],
        integers(6, 5),
    ),
    "lstm": (lambda: [L.LSTM(4), L.Dense(3)], STEPS),
    "gru": (lambda: [L.GRU(4, return_sequences=True), L.Flatten(), L.Dense(3)], STEPS),
    "simple_rnn": (lambda: [L.SimpleRNN(4), L.Dense(3)], STEPS),
    "bidirectional": (lambda: [L.Bidirectional(L.LSTM(3)), L.Dense(3)], STEPS),
}


def models() -> Iterator[Model]:
    """All models of this theme."""
    for name, make_optimizer in {**OPTIMIZERS, **MORE_OPTIMIZERS}.items():
        yield _training(f"train_dense_by_{name}", "dense", make_optimizer)
    for network in NETWORKS:
        for optimizer in ("sgd", "adam") if network != "dense" else ():
            name = f"train_{network}_by_{optimizer}"
            yield _training(name, network, OPTIMIZERS[optimizer])
    for name, make_calls in VARIABLES.items():
        yield Model(f"calls_{name}", make_calls, (floats(3, 4),), calls=CALLS)


def _training(name: str, network: str, make_optimizer: Callable[[], Any]) -> Model:
    """Steps of training towards fixed targets."""
    make_layers, x = NETWORKS[network]

    def make() -> Any:
        model, optimizer = keras.Sequential(make_layers()), make_optimizer()
        targets = floats(*model(x).shape)
        weights = model.trainable_variables
        optimizer.build(weights)

        def step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x, training=True) - targets) ** 2)
            optimizer.apply(tape.gradient(loss, weights), weights)
            found = [*model.variables, *optimizer.variables]
            return loss, [v.value + tf.zeros((), v.dtype) for v in found]

        return step

    return Model(name, make, (x,), calls=CALLS)
