"""Recurrent layers, with masks, states, both directions and stacked cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from amanda_tf_conformance.models.layers import layer_maker
from amanda_tf_conformance.models.table import Model, floats, integers

__all__ = ["models"]

L: Any = keras.layers
X = floats(2, 5, 3)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
LAYERS = {"simple": L.SimpleRNN, "gru": L.GRU, "lstm": L.LSTM}

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("last", {}),
    ("sequences", {"return_sequences": True}),
    ("states", {"return_sequences": True, "return_state": True}),
    ("backwards", {"go_backwards": True, "return_sequences": True}),
    ("unrolled", {"unroll": True}),
    ("without_bias", {"use_bias": False}),
    ("relu", {"activation": "relu"}),
]


def models() -> Iterator[Model]:
    """All models of this theme."""
    for name, layer in LAYERS.items():
        for option, settings in OPTIONS:
            make = _maker(layer, settings)
            yield Model(f"rnn_{name}_{option}", layer_maker(make), (X,), any_batch=True)
        yield Model(f"rnn_{name}_layer_with_mask", _layer_with_mask(layer), (X, MASK))
        yield Model(
            f"rnn_{name}_with_initial_state",
            _from_state(layer, name),
            (X, floats(2, 4), floats(2, 4) + 1),
        )
        yield Model(f"rnn_{name}_bidirectional", _bidirectional(layer), (X,))
    yield Model(
        "rnn_gru_reset_before", layer_maker(_maker(L.GRU, {"reset_after": False})), (X,)
    )
    yield Model("rnn_stacked_cells", layer_maker(_stack_of_cells), (X,))
    yield Model(
        "rnn_of_embedded_mask",
        layer_maker(_network_of_embedding),
        (integers(3, 6, below=3),),
    )
    yield Model(
        "rnn_bidirectional_sum",
        layer_maker(
            lambda: L.Bidirectional(L.GRU(3, return_sequences=True), merge_mode="sum")
        ),
        (X,),
    )
    yield Model(
        "rnn_convolutional",
        layer_maker(lambda: L.ConvLSTM2D(2, 2)),
        (floats(1, 3, 5, 4, 2),),
    )


def _maker(layer: Any, settings: dict[str, Any]) -> Callable[[], Any]:
    return lambda: layer(4, **settings)


def _layer_with_mask(layer: Any) -> Callable[[], Any]:
    def make() -> Any:
        made = layer(4, return_sequences=True)
        return lambda x, mask: made(x, mask=mask)

    return make


def _from_state(layer: Any, name: str) -> Callable[[], Any]:
    def make() -> Any:
        made = layer(4)
        both = name == "lstm"
        return lambda x, h, c: made(x, initial_state=[h, c] if both else [h + c])

    return make


def _bidirectional(layer: Any) -> Callable[[], Any]:
    return layer_maker(lambda: L.Bidirectional(layer(3, return_sequences=True)))


def _stack_of_cells() -> Any:
    return L.RNN([L.LSTMCell(4), L.GRUCell(3)], return_sequences=True)


def _network_of_embedding() -> Any:
    return keras.Sequential([L.Embedding(3, 4, mask_zero=True), L.LSTM(4), L.Dense(2)])
