"""Keras layers of every kind, as functions with their variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from amanda_tf_conformance.models.table import Model, floats, integers, of_function

__all__ = ["layer_maker", "models"]

L: Any = keras.layers
SIGNAL, IMAGE, VOLUME = floats(2, 9, 3), floats(2, 8, 7, 3), floats(1, 5, 6, 5, 2)
ROWS, STEPS = floats(4, 6), floats(2, 5, 4)

Row = tuple[str, Callable[[], Any], Any]

CONVOLUTIONS: list[Row] = [
    ("conv1d", lambda: L.Conv1D(4, 3), SIGNAL),
    ("conv1d_causal", lambda: L.Conv1D(4, 3, padding="causal"), SIGNAL),
    ("conv1d_dilated", lambda: L.Conv1D(4, 3, dilation_rate=2), SIGNAL),
    ("conv1d_strided", lambda: L.Conv1D(4, 3, 2, "same"), SIGNAL),
    ("conv1d_grouped", lambda: L.Conv1D(6, 3, groups=3), SIGNAL),
    ("conv1d_transposed", lambda: L.Conv1DTranspose(4, 3, 2), SIGNAL),
    ("conv1d_depthwise", lambda: L.DepthwiseConv1D(3, depth_multiplier=2), SIGNAL),
    ("conv1d_separable", lambda: L.SeparableConv1D(4, 3), SIGNAL),
    ("conv2d", lambda: L.Conv2D(4, 3), IMAGE),
    ("conv2d_relu", lambda: L.Conv2D(4, 3, activation="relu"), IMAGE),
    ("conv2d_same", lambda: L.Conv2D(4, 3, padding="same"), IMAGE),
    ("conv2d_same_strided", lambda: L.Conv2D(4, (3, 5), (2, 3), "same"), IMAGE),
    ("conv2d_dilated", lambda: L.Conv2D(4, 2, dilation_rate=(2, 3)), IMAGE),
    (
        "conv2d_dilated_same",
        lambda: L.Conv2D(4, 3, padding="same", dilation_rate=2),
        IMAGE,
    ),
    ("conv2d_grouped", lambda: L.Conv2D(6, 3, groups=3), IMAGE),
    ("conv2d_without_bias", lambda: L.Conv2D(4, 1, use_bias=False), IMAGE),
    ("conv2d_transposed", lambda: L.Conv2DTranspose(4, 3), IMAGE),
    ("conv2d_transposed_same", lambda: L.Conv2DTranspose(4, 3, 2, "same"), IMAGE),
    (
        "conv2d_transposed_padded",
        lambda: L.Conv2DTranspose(4, 3, 2, "same", output_padding=1),
        IMAGE,
    ),
    ("conv2d_depthwise", lambda: L.DepthwiseConv2D(3, depth_multiplier=2), IMAGE),
    ("conv2d_depthwise_same", lambda: L.DepthwiseConv2D(3, 2, "same"), IMAGE),
    ("conv2d_depthwise_dilated", lambda: L.DepthwiseConv2D(3, dilation_rate=2), IMAGE),
    ("conv2d_separable", lambda: L.SeparableConv2D(4, 3, depth_multiplier=2), IMAGE),
    ("conv3d", lambda: L.Conv3D(3, 2), VOLUME),
    ("conv3d_same_strided", lambda: L.Conv3D(3, 3, 2, "same"), VOLUME),
    ("conv3d_transposed", lambda: L.Conv3DTranspose(3, 2, 2), VOLUME),
]

POOLING: list[Row] = [
    ("max_pool1d", lambda: L.MaxPooling1D(2), SIGNAL),
    ("max_pool2d", lambda: L.MaxPooling2D(2), IMAGE),
    ("max_pool2d_same", lambda: L.MaxPooling2D(3, 2, "same"), IMAGE),
    ("max_pool3d", lambda: L.MaxPooling3D(2), VOLUME),
    ("average_pool1d", lambda: L.AveragePooling1D(3, 2, "same"), SIGNAL),
    ("average_pool2d", lambda: L.AveragePooling2D(2), IMAGE),
    ("average_pool2d_same", lambda: L.AveragePooling2D(3, 2, "same"), IMAGE),
    ("average_pool3d", lambda: L.AveragePooling3D(2, padding="same"), VOLUME),
    ("global_max_pool1d", lambda: L.GlobalMaxPooling1D(), SIGNAL),
    ("global_max_pool2d", lambda: L.GlobalMaxPooling2D(), IMAGE),
    ("global_average_pool1d", lambda: L.GlobalAveragePooling1D(), SIGNAL),
    ("global_average_pool2d", lambda: L.GlobalAveragePooling2D(keepdims=True), IMAGE),
    ("global_average_pool3d", lambda: L.GlobalAveragePooling3D(), VOLUME),
    (
        "adaptive_average_pool2d",
        lambda: L.AdaptiveAveragePooling2D(2),
        floats(2, 8, 8, 3),
    ),
]

NORMALIZATION: list[Row] = [
    ("batch_normalization", lambda: L.BatchNormalization(), IMAGE),
    ("batch_normalization_rows", lambda: L.BatchNormalization(), ROWS),
    (
        "batch_normalization_unscaled",
        lambda: L.BatchNormalization(center=False, scale=False, epsilon=0.1),
        IMAGE,
    ),
    ("batch_normalization_axis", lambda: L.BatchNormalization(axis=1), IMAGE),
    ("layer_normalization", lambda: L.LayerNormalization(), ROWS),
    ("layer_normalization_axes", lambda: L.LayerNormalization(axis=(1, 2)), IMAGE),
    ("rms_normalization", lambda: L.RMSNormalization(), ROWS),
    ("group_normalization", lambda: L.GroupNormalization(3), IMAGE),
    ("instance_normalization", lambda: L.GroupNormalization(-1), IMAGE),
    ("unit_normalization", lambda: L.UnitNormalization(), ROWS),
    ("spectral_normalization", lambda: L.SpectralNormalization(L.Dense(3)), ROWS),
]

DENSE: list[Row] = [
    ("dense", lambda: L.Dense(5), ROWS),
    ("dense_of_steps", lambda: L.Dense(5, activation="tanh"), STEPS),
    ("einsum_dense", lambda: L.EinsumDense("abc,cde->abde", (None, 2, 3)), STEPS),
    (
        "einsum_dense_bias",
        lambda: L.EinsumDense("abc,cd->abd", (None, 8), bias_axes="d"),
        STEPS,
    ),
    ("embedding", lambda: L.Embedding(10, 4), integers(2, 5)),
    ("time_distributed", lambda: L.TimeDistributed(L.Dense(3)), STEPS),
]

RESHAPING: list[Row] = [
    ("flatten", lambda: L.Flatten(), IMAGE),
    ("reshape", lambda: L.Reshape((-1, 6)), IMAGE),
    ("permute", lambda: L.Permute((3, 1, 2)), IMAGE),
    ("repeat_vector", lambda: L.RepeatVector(3), ROWS),
    ("zero_padding1d", lambda: L.ZeroPadding1D((1, 2)), SIGNAL),
    ("zero_padding2d", lambda: L.ZeroPadding2D(((1, 2), (0, 3))), IMAGE),
    ("zero_padding3d", lambda: L.ZeroPadding3D(1), VOLUME),
    ("cropping1d", lambda: L.Cropping1D((1, 2)), SIGNAL),
    ("cropping2d", lambda: L.Cropping2D(((1, 2), (0, 3))), IMAGE),
    ("cropping3d", lambda: L.Cropping3D(1), VOLUME),
    ("up_sampling1d", lambda: L.UpSampling1D(2), SIGNAL),
    ("up_sampling2d", lambda: L.UpSampling2D((2, 3)), IMAGE),
    (
        "up_sampling2d_bilinear",
        lambda: L.UpSampling2D(2, interpolation="bilinear"),
        IMAGE,
    ),
    (
        "up_sampling2d_bicubic",
        lambda: L.UpSampling2D(2, interpolation="bicubic"),
        IMAGE,
    ),
    ("up_sampling3d", lambda: L.UpSampling3D(2), VOLUME),
    ("resizing", lambda: L.Resizing(5, 9), IMAGE),
    ("resizing_nearest", lambda: L.Resizing(5, 9, interpolation="nearest"), IMAGE),
    ("rescaling", lambda: L.Rescaling(1 / 255.0, -0.5), IMAGE),
    ("center_crop", lambda: L.CenterCrop(4, 4), IMAGE),
]

ACTIVATIONS = (
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "selu",
    "celu",
    "gelu",
    "silu",
    "softplus",
    "softsign",
    "softmax",
    "log_softmax",
    "sigmoid",
    "log_sigmoid",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "tanh",
    "tanh_shrink",
    "soft_shrink",
    "hard_shrink",
    "squareplus",
    "sparse_plus",
    "mish",
    "glu",
    "exponential",
    "linear",
)

MERGES = ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum")


def models() -> Iterator[Model]:
    """All models of this theme."""
    for rows in (CONVOLUTIONS, POOLING, NORMALIZATION, DENSE, RESHAPING):
        for name, make, x in rows:
            yield Model(f"layer_{name}", layer_maker(make), (x,), any_batch=True)
    for name in ACTIVATIONS:
        yield of_function(f"activation_{name}", getattr(keras.activations, name), ROWS)
    yield Model(
        "layer_prelu", layer_maker(lambda: L.PReLU(shared_axes=[1, 2])), (IMAGE,)
    )
    yield from _merges()
    yield from _attention()
    yield from _networks()


def layer_maker(make: Callable[[], Any]) -> Callable[[], Any]:
    """What makes a layer, called for inference."""

    def make_function() -> Any:
        layer = make()
        return lambda *x: layer(*x, training=False) if _trains(layer) else layer(*x)

    return make_function


def _trains(layer: Any) -> bool:
    return bool(layer._call_has_training_arg)


def _merges() -> Iterator[Model]:
    pair = (ROWS, floats(4, 6) * 2 - 1)
    for name in MERGES:
        yield Model(f"merge_{name.lower()}", _of_list(getattr(L, name)), pair)
    yield Model("merge_concatenate", _of_list(L.Concatenate), pair, any_batch=True)
    yield Model("merge_dot", _of_list(lambda: L.Dot(axes=1, normalize=True)), pair)


def _of_list(make: Callable[[], Any]) -> Callable[[], Any]:
    def make_function() -> Any:
        layer = make()
        return lambda *x: layer(list(x))

    return make_function


def _attention() -> Iterator[Model]:
    query, value = STEPS, floats(2, 7, 4)
    mask = np.array([[1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0]], bool)
    yield Model("attention_dot", _of_list(L.Attention), (query, value))
    yield Model(
        "attention_scaled",
        _of_list(lambda: L.Attention(use_scale=True)),
        (query, value),
    )
    yield Model("attention_additive", _of_list(L.AdditiveAttention), (query, value))
    yield Model(
        "attention_multi_head",
        layer_maker(lambda: L.MultiHeadAttention(2, 3)),
        (query, value),
        any_batch=True,
    )
    yield Model(
        "attention_grouped_query",
        layer_maker(lambda: L.GroupQueryAttention(3, 4, 2)),
        (query, value),
    )

    def attention_with_mask() -> Any:
        layer = L.MultiHeadAttention(2, 3)
        return lambda q, v, m: layer(q, v, attention_mask=m[:, None, :])

    def causal() -> Any:
        layer = L.MultiHeadAttention(2, 3)
        return lambda x: layer(x, x, use_causal_mask=True, return_attention_scores=True)

    yield Model("attention_masked", attention_with_mask, (query, value, mask))
    yield Model("attention_causal", causal, (query,))


def _networks() -> Iterator[Model]:
    def convolutional() -> Any:
        return keras.Sequential(
            [
                L.Conv2D(6, 3, padding="same"),
                L.BatchNormalization(),
                L.ReLU(),
                L.MaxPooling2D(2),
                L.DepthwiseConv2D(3, padding="same"),
                L.BatchNormalization(),
                L.ReLU(6.0),
                L.GlobalAveragePooling2D(),
                L.Dropout(0.5),
                L.Dense(4, activation="softmax"),
            ]
        )

    def residual() -> Any:
        x = keras.Input((8, 7, 3))
        y = L.Conv2D(3, 3, padding="same")(x)
        y = L.LayerNormalization()(y)
        y = L.Add()([x, L.Activation("gelu")(y)])
        return keras.Model(x, [L.Flatten()(y), L.GlobalMaxPooling2D()(y)])

    def transformer() -> Any:
        x = keras.Input((5,), dtype="int32")
        y = L.Embedding(10, 8)(x)
        y = L.LayerNormalization()(y + L.MultiHeadAttention(2, 4)(y, y))
        y = L.LayerNormalization()(y + L.Dense(8)(L.Dense(16, "gelu")(y)))
        return keras.Model(x, L.Dense(3)(y[:, 0]))

    def feature_columns() -> Any:
        table = tf.Variable(floats(10, 3))
        return lambda i: tf.nn.embedding_lookup(table, i)

    yield Model(
        "network_convolutional", layer_maker(convolutional), (IMAGE,), any_batch=True
    )
    yield Model("network_residual", layer_maker(residual), (IMAGE,), any_batch=True)
    yield Model(
        "network_transformer",
        layer_maker(transformer),
        (integers(2, 5),),
        any_batch=True,
    )
    yield Model("network_embedding_lookup", feature_columns, (integers(4),))
