"""Gates and activations of recurrent layers: ONNX's names and orders against std's."""

from __future__ import annotations

from amanda_onnx.mapping.static_values import expect_small

__all__ = [
    "ACTIVATIONS",
    "LSTM_GATES",
    "ONNX_NAMES",
    "PEEPHOLES",
    "reorder_rows",
]

LSTM_GATES = (0, 2, 3, 1)
"""The index in ONNX of each gate of std: input, forget, cell, output."""
PEEPHOLES = (0, 2, 1)

_ACTIVATIONS = (
    # ONNX, std, number of parameters
    ("Sigmoid", "sigmoid", 0),
    ("Tanh", "tanh", 0),
    ("Relu", "relu", 0),
    ("Affine", "affine", 2),
    ("LeakyRelu", "leaky_relu", 1),
    ("ThresholdedRelu", "thresholded_relu", 1),
    ("ScaledTanh", "scaled_tanh", 2),
    ("HardSigmoid", "hard_sigmoid", 2),
    ("Elu", "elu", 1),
    ("Softsign", "softsign", 0),
    ("Softplus", "softplus", 0),
)
ACTIVATIONS = {name.lower(): (std, count) for name, std, count in _ACTIVATIONS}
"""std's name and the number of parameters, by ONNX's name in lower case."""
ONNX_NAMES = {std: (name, count) for name, std, count in _ACTIVATIONS}
"""ONNX's name and the number of parameters, by std's name."""


def reorder_rows(size: int, order: tuple[int, ...]) -> list[int]:
    """The indices of rows in groups of `size`, with the groups in another order."""
    expect_small([size, len(order)], "the gates of a layer")
    return [i * size + j for i in order for j in range(size)]
