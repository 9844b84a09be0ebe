"""Activation functions by their names in Keras."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from amanda_keras.mapping.layer_calls import expect, expect_arguments, rank_of
from amanda_std import ops

__all__ = ["ACTIVATIONS", "apply_activation", "relu"]


def relu(
    x: Any, negative_slope: float = 0.0, max_value: Any = None, threshold: float = 0.0
) -> Any:
    """Rectified linear unit with a slope, a maximum and a threshold."""
    if threshold == 0 and negative_slope == 0:
        y = ops.relu(x)
    elif threshold == 0:
        y = ops.leaky_relu(x, slope=float(negative_slope))
    else:
        low = (x - threshold) * float(negative_slope)
        y = ops.where(ops.greater_equal(x, threshold), x, low)
    return y if max_value is None else ops.minimum(y, float(max_value))


def _squareplus(x: Any, b: float = 4.0) -> Any:
    return (x + ops.sqrt(ops.square(x) + b)) / 2.0


def _sparse_plus(x: Any) -> Any:
    middle = ops.square(x + 1.0) / 4.0
    return ops.where(
        ops.less_equal(x, -1.0), x * 0.0, ops.where(ops.less(x, 1.0), middle, x)
    )


def _glu(x: Any, axis: int = -1) -> Any:
    a, b = ops.split(x, axis=axis, outputs=2)
    return a * ops.sigmoid(b)


ACTIVATIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "linear": lambda x: x,
    "relu": relu,
    "relu6": lambda x: ops.clip(x, 0.0, 6.0),
    "leaky_relu": lambda x, negative_slope=0.2: ops.leaky_relu(
        x, slope=float(negative_slope)
    ),
    "elu": lambda x, alpha=1.0: ops.elu(x, alpha=float(alpha)),
    "selu": lambda x: ops.selu(x),
    "celu": lambda x, alpha=1.0: ops.celu(x, alpha=float(alpha)),
    "gelu": lambda x, approximate=False: ops.gelu(x, approximate=approximate),
    "silu": lambda x: ops.silu(x),
    "swish": lambda x: ops.silu(x),
    "mish": lambda x: ops.mish(x),
    "softplus": lambda x: ops.softplus(x),
    "softsign": lambda x: ops.softsign(x),
    "tanh": lambda x: ops.tanh(x),
    "sigmoid": lambda x: ops.sigmoid(x),
    "log_sigmoid": lambda x: ops.negative(ops.softplus(ops.negative(x))),
    "exponential": lambda x: ops.exp(x),
    "hard_sigmoid": lambda x: ops.hardsigmoid(x),
    "hard_sigmoid_of_keras_2": lambda x: ops.hardsigmoid(x, alpha=0.2, beta=0.5),
    "hard_silu": lambda x: ops.hardswish(x),
    "hard_swish": lambda x: ops.hardswish(x),
    "hard_tanh": lambda x: ops.clip(x, -1.0, 1.0),
    "hard_shrink": lambda x, threshold=0.5: ops.shrink(x, margin=float(threshold)),
    "soft_shrink": lambda x, threshold=0.5: ops.shrink(
        x, margin=float(threshold), bias=float(threshold)
    ),
    "tanh_shrink": lambda x: x - ops.tanh(x),
    "squareplus": _squareplus,
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": lambda x: ops.clip(x * 0.5 + 0.5, 0.0, 1.0),
    "softmax": lambda x, axis=-1: ops.softmax(x, axes=(axis % rank_of(x),)),
    "log_softmax": lambda x, axis=-1: ops.log_softmax(x, axes=(axis % rank_of(x),)),
    "glu": _glu,
}
"""Functions of a value, with their own arguments by name."""


def apply_activation(x: Any, activation: Any) -> Any:
    """A value after an activation, given by name or as a serialized object."""
    if activation is None:
        return x
    if isinstance(activation, dict):
        config = activation.get("config")
        if isinstance(config, dict):  # a layer as activation
            from amanda_keras.mapping.read_core import LAYERS

            kind = str(activation.get("class_name"))
            expect(kind in LAYERS, f"the activation {kind} is not supported")
            kept = {k: v for k, v in config.items()
                    if k not in ("name", "dtype",
                    "trainable") and v is not None}  # fmt: skip
            layer = LAYERS[kind]
            expect_arguments(inspect.signature(layer), [x], kept, is_layer=True)
            return layer(x, **kept)
        activation = config
    expect(
        isinstance(activation, str) and activation in ACTIVATIONS,
        f"the activation {activation!r:.60} is not supported",
    )
    return ACTIVATIONS[activation](x)
