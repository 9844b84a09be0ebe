"""Layers and operations of Keras in the hub, against what Keras computes.

Each case is a model of one or few layers, with random weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.dictionary import validate
from amanda.types import Shape, TensorType

keras = pytest.importorskip("keras")
L, K = keras.layers, keras.ops

Case = tuple[list[tuple[Any, ...]], Callable[..., Any]]

CASES: dict[str, Case] = {}


def case(name: str, *shapes: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Add a case: a function of the inputs."""

    def add(build: Any) -> Any:
        assert name not in CASES
        CASES[name] = (list(shapes), build)
        return build

    return add


def layer(shape: tuple[Any, ...], cls: Any, **config: Any) -> None:
    """Add a case of one layer, named by its arguments."""
    words = [f"{k}={v}" for k, v in config.items()]
    name = f"{cls.__name__}({', '.join(words)}) {shape}"
    case(name, shape)(lambda x: cls(**config)(x))


# -- core, activations ---------------------------------------------------------------

for _config in (
    {"units": 4}, {"units": 3, "use_bias": False, "activation": "relu"},
    {"units": 3, "activation": "softmax", "kernel_regularizer": "l2"},
    {"units": 3, "lora_rank": 2, "lora_alpha": 4},
):  # fmt: skip
    layer((3,), L.Dense, **_config)
    layer((None, 3), L.Dense, **_config)
for _name in [
    "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish",
    "softplus", "softsign", "tanh", "sigmoid", "log_sigmoid", "exponential",
    "hard_sigmoid", "hard_silu", "hard_tanh", "hard_shrink", "soft_shrink",
    "tanh_shrink", "squareplus", "sparse_plus", "sparse_sigmoid", "softmax",
    "log_softmax", "linear",
]:  # fmt: skip
    layer((6,), L.Activation, activation=_name)
layer((4,), L.Dense, units=6, activation=L.LeakyReLU(negative_slope=0.4))
layer((4,), L.ReLU, max_value=1.0, negative_slope=0.1, threshold=0.2)
layer((4,), L.ReLU, max_value=6.0)
layer((4,), L.ReLU, negative_slope=0.2)
layer((4,), L.LeakyReLU, negative_slope=0.2)
layer((4,), L.ELU, alpha=0.7)
layer((3, 4), L.PReLU)
layer((3, 4), L.PReLU, shared_axes=[1])
layer((3, 4), L.Softmax, axis=1)
layer((3, 4), L.Softmax, axis=(1, 2))
for _layer in (L.Dropout, L.AlphaDropout, L.GaussianDropout):
    layer((3, 4), _layer, rate=0.5)
layer((3, 4), L.GaussianNoise, stddev=0.5)
layer((3, 4), L.SpatialDropout1D, rate=0.5)
layer((3, 4, 2), L.SpatialDropout2D, rate=0.5, data_format="channels_first")
layer((2, 3, 4, 2), L.SpatialDropout3D, rate=0.5)
layer((3, 4), L.ActivityRegularization, l1=0.1, l2=0.2)
layer((3, 4), L.Identity)
layer((5, "int32"), L.Embedding, input_dim=4, output_dim=3)
layer((5,), L.Embedding, input_dim=4, output_dim=3)
layer(
    (None, 4),
    L.EinsumDense,
    equation="abc,cd->abd",
    output_shape=(None, 5),
    bias_axes="d",
)
layer((3, 4), L.EinsumDense, equation="abc,cde->abde", output_shape=(3, 2, 5),
      bias_axes="de", activation="relu")  # fmt: skip
layer(
    (3, 4),
    L.EinsumDense,
    equation="ab...,bc->ac...",
    output_shape=(5, 4),
    bias_axes="c",
)
layer((3, 4), L.EinsumDense, equation="abc,cd->abd", output_shape=(3, 5))
layer((3, 4), L.Masking, mask_value=0.5)


@case("ReversibleEmbedding, both ways", (5, "int32"), (5, 3))
def _(ids: Any, x: Any) -> Any:
    shared = L.ReversibleEmbedding(4, 3)
    return shared(ids), shared(x, reverse=True)


@case("ReversibleEmbedding, untied, capped", (5, "int32"), (5, 3))
def _(ids: Any, x: Any) -> Any:
    shared = L.ReversibleEmbedding(4, 3, tie_weights=False, logit_soft_cap=2.0)
    return shared(ids), shared(x, reverse=True)


# -- convolutions, pooling -----------------------------------------------------------

_SPATIAL: dict[int, tuple[Any, ...]] = {1: (9,), 2: (8, 7), 3: (5, 6, 4)}


def spatial(
    rank: int, channels: int, data_format: str | None = None
) -> tuple[Any, ...]:
    size = _SPATIAL[rank]
    return (channels, *size) if data_format == "channels_first" else (*size, channels)


for _n in (1, 2, 3):
    _conv, _back = getattr(L, f"Conv{_n}D"), getattr(L, f"Conv{_n}DTranspose")
    for _format in ("channels_last", "channels_first"):
        _shape = spatial(_n, 4, _format)
        layer(_shape, _conv, filters=6, kernel_size=3, strides=2, padding="same",
              data_format=_format, activation="relu")  # fmt: skip
        layer(_shape, _conv, filters=6, kernel_size=2, groups=2, data_format=_format)
        layer(_shape, _conv, filters=2, kernel_size=3, dilation_rate=2, padding="same",
              use_bias=False, data_format=_format)  # fmt: skip
        for _pad in ("same", "valid"):
            layer(_shape, _back, filters=3, kernel_size=3, strides=2, padding=_pad,
                  data_format=_format)  # fmt: skip
        layer(_shape, getattr(L, f"MaxPooling{_n}D"), pool_size=2, data_format=_format)
        for _kind in ("Max", "Average"):
            layer(_shape, getattr(L, f"{_kind}Pooling{_n}D"), pool_size=3, strides=2,
                  padding="same", data_format=_format)  # fmt: skip
            layer(_shape, getattr(L, f"Global{_kind}Pooling{_n}D"), keepdims=True,
                  data_format=_format)  # fmt: skip
            layer(_shape, getattr(L, f"Adaptive{_kind}Pooling{_n}D"), output_size=3,
                  data_format=_format)  # fmt: skip
        layer(_shape, getattr(L, f"GlobalAveragePooling{_n}D"), data_format=_format)
    layer(spatial(_n, 2), _back, filters=3, kernel_size=2, strides=3)
    layer(spatial(_n, 2), _back, filters=3, kernel_size=2, strides=3, padding="same")
    layer(spatial(_n, 2), _back, filters=3, kernel_size=4, strides=2, output_padding=1)
    layer(spatial(_n, 2), _back, filters=3, kernel_size=3, strides=2, padding="same",
          output_padding=1)  # fmt: skip
    layer(spatial(_n, 2), _back, filters=3, kernel_size=3, dilation_rate=2)
layer((9, 3), L.Conv1D, filters=4, kernel_size=3, padding="causal", dilation_rate=2)
layer((None, 3), L.Conv1D, filters=4, kernel_size=3, padding="same")
layer((None, None, 3), L.Conv2D, filters=4, kernel_size=3, padding="same", strides=2)
for _n in (1, 2):
    for _format in ("channels_last", "channels_first"):
        _shape = spatial(_n, 3, _format)
        for _kind in ("Depthwise", "Separable"):
            _own = {"filters": 5} if _kind == "Separable" else {}
            layer(_shape, getattr(L, f"{_kind}Conv{_n}D"), kernel_size=3, strides=2,
                  padding="same", depth_multiplier=2, data_format=_format,
                  activation="relu", **_own)  # fmt: skip
            layer(_shape, getattr(L, f"{_kind}Conv{_n}D"), kernel_size=3,
            use_bias=False,
                  dilation_rate=2, data_format=_format, **_own)  # fmt: skip

# -- normalization -------------------------------------------------------------------

layer((3, 4), L.BatchNormalization)
layer((3, 4, 5), L.BatchNormalization, axis=1, epsilon=0.01)
layer((4,), L.BatchNormalization, center=False)
layer((4,), L.BatchNormalization, scale=False)
layer((3, 4), L.LayerNormalization)
layer((3, 4), L.LayerNormalization, axis=[1, 2], epsilon=0.1)
layer((3, 4), L.LayerNormalization, axis=1, center=False)
layer((3, 4), L.LayerNormalization, scale=False)
layer((3, 4), L.RMSNormalization)
layer((3, 6), L.GroupNormalization, groups=2)
layer((6, 3, 4), L.GroupNormalization, groups=3, axis=1)
layer((3, 3, 6), L.GroupNormalization, groups=-1, center=False)
layer((3, 4), L.UnitNormalization)
layer((3, 4), L.UnitNormalization, axis=[1, 2])


@case("SpectralNormalization(Dense)", (3,))
def _(x: Any) -> Any:
    return L.SpectralNormalization(L.Dense(4))(x)


# -- reshaping -----------------------------------------------------------------------

layer((3, 4), L.Flatten)
layer((3, 4, 2), L.Flatten, data_format="channels_first")
layer((None, 4), L.Flatten)
layer((3, 4), L.Reshape, target_shape=(2, 6))
layer((3, 4), L.Reshape, target_shape=(-1, 2))
layer((None, 4), L.Reshape, target_shape=(-1, 2))
layer((3, 4, 5), L.Permute, dims=(3, 1, 2))
layer((4,), L.RepeatVector, n=3)
layer((5, 2), L.Cropping1D, cropping=(1, 2))
layer((5, 2), L.Cropping1D, cropping=1)
layer((5, 2), L.ZeroPadding1D, padding=(1, 2))
layer((3, 2), L.UpSampling1D, size=3)
for _format in ("channels_last", "channels_first"):
    layer(
        spatial(2, 3, _format),
        L.Cropping2D,
        cropping=((1, 2), (0, 1)),
        data_format=_format,
    )
    layer(spatial(2, 3, _format), L.ZeroPadding2D, padding=((1, 2), (0, 1)),
          data_format=_format)  # fmt: skip
    layer(spatial(3, 3, _format), L.Cropping3D, cropping=1, data_format=_format)
    layer(
        spatial(3, 3, _format), L.ZeroPadding3D, padding=(1, 0, 2), data_format=_format
    )
    layer(spatial(2, 3, _format), L.UpSampling2D, size=(2, 3), data_format=_format)
    layer(spatial(2, 3, _format), L.UpSampling2D, size=2, interpolation="bilinear",
          data_format=_format)  # fmt: skip
    layer(spatial(3, 2, _format), L.UpSampling3D, size=(2, 1, 2), data_format=_format)
layer((None, None, 3), L.ZeroPadding2D, padding=1)
layer((4, 5, 2), L.UpSampling2D, size=2, interpolation="bicubic")

# -- merging -------------------------------------------------------------------------

for _layer in (L.Add, L.Average, L.Maximum, L.Minimum, L.Multiply):
    case(f"{_layer.__name__} of three", (3, 4), (3, 4), (3, 4))(
        lambda *x, cls=_layer: cls()(list(x))
    )
    case(f"{_layer.__name__} of other ranks", (3, 4), (4,))(
        lambda *x, cls=_layer: cls()(list(x))
    )
case("Subtract", (3, 4), (3, 4))(lambda *x: L.Subtract()(list(x)))
case("Concatenate", (3, 4), (3, 2))(lambda *x: L.Concatenate()(list(x)))
case("Concatenate(axis=1)", (3, 4), (2, 4))(lambda *x: L.Concatenate(axis=1)(list(x)))
case("Dot(axes=1)", (4,), (4,))(lambda *x: L.Dot(axes=1)(list(x)))
case("Dot(axes=(2, 1))", (3, 4), (4, 5))(lambda *x: L.Dot(axes=(2, 1))(list(x)))
case("Dot(normalize)", (3, 4), (3, 4))(
    lambda *x: L.Dot(axes=2, normalize=True)(list(x))
)

# -- attention -----------------------------------------------------------------------

_QKV = ((5, 6), (4, 6), (4, 6))
for _causal in (False, True):
    case(f"Attention, causal {_causal}", *_QKV)(
        lambda *x, c=_causal: L.Attention()(list(x), use_causal_mask=c)
    )
    case(f"MultiHeadAttention, causal {_causal}", (5, 6))(
        lambda x, c=_causal: L.MultiHeadAttention(2, 3)(x, x, use_causal_mask=c)
    )
    case(f"GroupedQueryAttention, causal {_causal}", (5, 6))(
        lambda x, c=_causal: L.GroupQueryAttention(3, 4, 2)(x, x, use_causal_mask=c)
    )
case("Attention(use_scale)", *_QKV[:2])(lambda *x: L.Attention(use_scale=True)(list(x)))
case("Attention(concat)", *_QKV)(
    lambda *x: L.Attention(score_mode="concat", use_scale=True)(list(x))
)
case("Attention with scores", *_QKV)(
    lambda *x: L.Attention()(list(x), return_attention_scores=True)
)
case("Attention with masks", *_QKV[:2], (5, "bool"), (4, "bool"))(
    lambda q, v, a, b: L.Attention()([q, v], mask=[a, b])
)
case("AdditiveAttention", *_QKV)(lambda *x: L.AdditiveAttention()(list(x)))
case("AdditiveAttention(use_scale=False)", *_QKV)(
    lambda *x: L.AdditiveAttention(use_scale=False)(list(x))
)
case("MultiHeadAttention of three", *_QKV)(
    lambda q, v, k: L.MultiHeadAttention(2, 3, value_dim=4, output_shape=5)(q, v, k)
)
case("MultiHeadAttention by name", *_QKV[:2])(
    lambda q, v: L.MultiHeadAttention(2, 3, use_bias=False)(query=q, value=v)
)
case("MultiHeadAttention with scores", *_QKV[:2])(
    lambda q, v: L.MultiHeadAttention(2, 3)(q, v, return_attention_scores=True)
)
case("MultiHeadAttention with a mask", (5, 6), (4, 6), (5, 4, "bool"))(
    lambda q, v, m: L.MultiHeadAttention(2, 3, dropout=0.1)(q, v, attention_mask=m)
)
case("MultiHeadAttention, gated, of a window", (5, 6))(
    lambda x: L.MultiHeadAttention(2, 3, use_gate=True, sliding_window=2)(x, x)
)
case("MultiHeadAttention of any length", (None, 6))(
    lambda x: L.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)
)
case("GroupedQueryAttention, no bias, gated", *_QKV[:2])(
    lambda q, v: L.GroupQueryAttention(3, 4, 2, use_bias=False, use_gate=True)(q, v)
)

# -- recurrent layers ----------------------------------------------------------------

for _layer in (L.SimpleRNN, L.GRU, L.LSTM):
    for _config in (
        {}, {"return_sequences": True}, {"return_sequences": True,
        "go_backwards": True},
        {"return_state": True, "return_sequences": True}, {"use_bias": False},
        {"go_backwards": True, "return_state": True}, {"activation": "relu"},
        {"activation": "gelu", "return_sequences": True}, {"dropout": 0.3,
        "unroll": True},
    ):  # fmt: skip
        layer((5, 3), _layer, units=4, **_config)
    layer((None, 3), _layer, units=4, return_sequences=True)
    for _mode in ("concat", "sum", "mul", "ave", None):
        case(f"Bidirectional({_layer.__name__}, {_mode})", (5, 3))(
            lambda x, c=_layer, m=_mode: L.Bidirectional(
                c(3, return_sequences=True), merge_mode=m
            )(x)
        )
    case(f"Bidirectional({_layer.__name__}) with states", (5, 3))(
        lambda x, c=_layer: L.Bidirectional(c(3, return_state=True))(x)
    )
    case(f"{_layer.__name__} from a state", (5, 3), *[(4,)] * (1 + (_layer is L.LSTM)))(
        lambda x, *s, c=_layer: c(4)(x, initial_state=list(s))
    )
    for _config in (
        {"return_sequences": True}, {"return_state": True}, {"go_backwards": True},
        {"return_sequences": True, "zero_output_for_mask": True},
    ):  # fmt: skip
        case(f"Masking, {_layer.__name__}({_config})", (5, 3), (5, "bool"))(
            lambda x, m, c=_layer, k=_config: c(4, **k)(
                L.Masking()(x * K.cast(K.expand_dims(m, -1), "float32"))
            )
        )
    case(f"{_layer.__name__} with a mask", (5, 3), (5, "bool"))(
        lambda x, m, c=_layer: c(4, return_sequences=True)(x, mask=m)
    )
layer((5, 3), L.GRU, units=4, reset_after=False)
layer((5, 3), L.GRU, units=4, reset_after=False, use_bias=False, return_sequences=True)
layer((5, 3), L.GRU, units=4, reset_after=False, activation="gelu")
layer((5, 3), L.LSTM, units=4, recurrent_activation="hard_sigmoid")
for _cells in (
    [L.LSTMCell(3), L.GRUCell(4)],
    [L.SimpleRNNCell(3), L.SimpleRNNCell(2), L.LSTMCell(4)],
):  # fmt: skip
    case(f"RNN of {len(_cells)} cells", (5, 3))(
        lambda x, c=_cells: L.RNN(L.StackedRNNCells(c), return_sequences=True)(x)
    )
case("RNN(GRUCell)", (5, 3))(lambda x: L.RNN(L.GRUCell(3), return_state=True)(x))
case("RNN of a list of cells, masked", (5, 3), (5, "bool"))(
    lambda x, m: L.RNN([L.LSTMCell(3), L.GRUCell(4)])(x, mask=m)
)
case("Bidirectional with a mask", (5, 3), (5, "bool"))(
    lambda x, m: L.Bidirectional(L.LSTM(3, return_sequences=True))(x, mask=m)
)
case("Bidirectional with another layer", (5, 3))(
    lambda x: L.Bidirectional(
        L.GRU(3), backward_layer=L.GRU(3, activation="relu", go_backwards=True)
    )(x)
)
for _n in (1, 2):
    layer((3, *_SPATIAL[_n], 2), getattr(L, f"ConvLSTM{_n}D"), filters=3, kernel_size=3,
          padding="same", return_sequences=True)  # fmt: skip
layer((3, 2, 6, 6), L.ConvLSTM2D, filters=3, kernel_size=3, strides=2, use_bias=False,
      data_format="channels_first", return_state=True)  # fmt: skip
layer((2, 4, 4, 4, 2), L.ConvLSTM3D, filters=2, kernel_size=2, go_backwards=True)

# -- wrappers, models, masks ---------------------------------------------------------

case("TimeDistributed(Dense)", (4, 3))(lambda x: L.TimeDistributed(L.Dense(5))(x))
case("TimeDistributed(Conv2D)", (2, 6, 5, 3))(
    lambda x: L.TimeDistributed(L.Conv2D(2, 3))(x)
)
case("TimeDistributed of any length", (None, 4, 3))(
    lambda x: L.TimeDistributed(L.Flatten())(x)
)
case("TimeDistributed(Sequential)", (4, 3))(
    lambda x: L.TimeDistributed(
        keras.Sequential([L.Dense(5), L.BatchNormalization(), L.Dense(2)])
    )(x)
)


@case("a layer and a model, each called twice", (4,), (4,))
def _(x: Any, y: Any) -> Any:
    shared = L.Dense(4)
    inner = keras.Sequential([L.Dense(3, activation="relu"), L.Dense(4)])
    return shared(inner(shared(x))), L.Add()([inner(y), shared(y)])


@case("a model of several inputs and outputs", (4,))
def _(x: Any) -> Any:
    a, b = keras.Input((4,)), keras.Input((4,))
    inner = keras.Model([a, b], [L.Add()([a, b]), L.Dense(3)(b)])
    first, second = inner([x, L.Dense(4)(x)])
    return {"x": L.Dense(2)(first), "y": second}


@case("Embedding(mask_zero), LSTM, attention", (6, "int32"))
def _(ids: Any) -> Any:
    x = L.Embedding(4, 3, mask_zero=True)(ids)
    y = L.Dropout(0.5)(L.LSTM(3, return_sequences=True)(x))
    w = L.Attention()([y, y])
    z = L.MultiHeadAttention(2, 3)(w, w)
    return L.GlobalAveragePooling1D()(L.Add()([y, w])), L.GRU(2)(L.Add()([y, z]))


@case("masks of merged values", (6, "int32"), (6, "int32"))
def _(a: Any, b: Any) -> Any:
    table = L.Embedding(4, 3, mask_zero=True)
    x, y = table(a), table(b)
    return L.LSTM(2)(L.Concatenate()([x, y])), L.GRU(2)(L.Concatenate(axis=1)([x, y]))


@case("a mask through TimeDistributed and Bidirectional", (6, "int32"))
def _(ids: Any) -> Any:
    x = L.Embedding(4, 3, mask_zero=True)(ids)
    x = L.TimeDistributed(L.Dense(4))(x)
    x = L.Bidirectional(L.GRU(2, return_sequences=True))(x)
    return L.Bidirectional(L.LSTM(2))(x)


@case("a mask into a Sequential model", (6, "int32"))
def _(ids: Any) -> Any:
    inner = keras.Sequential([L.Dense(3), L.Dropout(0.2), L.LSTM(2)])
    return inner(L.Embedding(4, 3, mask_zero=True)(ids))


@case("a mask for Softmax", (4,), (4, "bool"))
def _(x: Any, m: Any) -> Any:
    return L.Softmax()(x, mask=m)


# -- preprocessing -------------------------------------------------------------------

layer((4, "int32"), L.Rescaling, scale=0.5, offset=1.0)
for _layer, _config in {
    "AugMix": {}, "CutMix": {}, "MixUp": {}, "RandAugment": {}, "RandomErasing": {},
    "RandomBrightness": {"factor": 0.5}, "RandomColorDegeneration": {"factor": 0.5},
    "RandomColorJitter": {}, "RandomContrast": {"factor": 0.5}, "RandomGrayscale": {},
    "RandomElasticTransform": {}, "RandomFlip": {"mode": "horizontal"},
    "RandomGaussianBlur": {}, "RandomHue": {"factor": 0.5}, "RandomInvert": {},
    "RandomPerspective": {}, "RandomPosterization": {"factor": 3},
    "RandomRotation": {"factor": 0.5}, "RandomSaturation": {"factor": 0.5},
    "RandomSharpness": {"factor": 0.5}, "RandomShear": {"x_factor": 0.2},
    "RandomTranslation": {"height_factor": 0.2, "width_factor": 0.1},
    "RandomZoom": {"height_factor": 0.2},
}.items():  # fmt: skip
    layer((6, 5, 3), getattr(L, _layer), **_config)
layer((6, 5, 3, "int32"), L.RandomFlip)
layer((4, 3), L.Rescaling, scale=[0.5, 2.0, 1.0], offset=[1.0, 0.0, 2.0])
layer((3,), L.Normalization, mean=[1.0, 2.0, 3.0], variance=[1.0, 4.0, 0.25])
layer((2, 3), L.Normalization, mean=1.0, variance=4.0, axis=None, invert=True)
layer((2, 3), L.Normalization)
layer((8, 6, 3), L.Resizing, height=5, width=9)
layer((8, 6, 3), L.Resizing, height=5, width=9, interpolation="nearest")
layer((3, 8, 6), L.Resizing, height=16, width=9, data_format="channels_first")
layer((8, 6, 3), L.Resizing, height=4, width=4, crop_to_aspect_ratio=True)
layer(
    (8, 6, 3), L.Resizing, height=4, width=4, pad_to_aspect_ratio=True, fill_value=2.0
)
layer((8, 6, 3), L.CenterCrop, height=5, width=4)
layer((3, 8, 6), L.CenterCrop, height=4, width=3, data_format="channels_first")
layer((4,), L.Discretization, bin_boundaries=[-1.0, 0.0, 0.5])
layer((4,), L.Discretization, bin_boundaries=[-1.0, 0.0, 0.5], output_mode="one_hot")
for _mode in ("multi_hot", "count"):
    layer((5, "int32"), L.CategoryEncoding, num_tokens=4, output_mode=_mode)
layer((1, "int32"), L.CategoryEncoding, num_tokens=4, output_mode="one_hot")

# -- operations ----------------------------------------------------------------------

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "x * 2 + 1": lambda x: x * 2.0 + 1.0,
    "1 - x": lambda x: 1.0 - x, "x / 3": lambda x: x / 3,
    "x // 0.5": lambda x: x // 0.5,
    "x % 2": lambda x: x % 2, "x ** 2": lambda x: x**2, "-x": lambda x: -x,
    "abs": lambda x: abs(x), "matmul": lambda x: x @ K.transpose(x, (0, 2, 1)),
    "x > 0": lambda x: K.where(x > 0, x, -x), "bool": lambda x: K.cast(x < 0.5,
    "int32"),
    "getitem": lambda x: x[:, 1:, ::2], "getitem last": lambda x: x[..., -1],
    "getitem new axis": lambda x: x[:, None, 0], "mean": lambda x: K.mean(x, axis=-1),
    "sum": lambda x: K.sum(x, axis=(1, 2), keepdims=True), "max": lambda x: K.max(x, 1),
    "var": lambda x: K.var(x, axis=1), "std": lambda x: K.std(x, axis=-1),
    "prod": lambda x: K.prod(x, axis=1), "min": lambda x: K.min(x, axis=-1),
    "argmax": lambda x: K.argmax(x, axis=-1), "logsumexp": lambda x: K.logsumexp(x, 1),
    "cumsum": lambda x: K.cumsum(x, axis=1),
    "reshape": lambda x: K.reshape(x, (-1, 12)), "swap": lambda x: K.swapaxes(x, 1, 2),
    "move": lambda x: K.moveaxis(x, 1, 2), "expand": lambda x: K.expand_dims(x, 1),
    "squeeze": lambda x: K.squeeze(K.expand_dims(x, 1), 1),
    "concatenate": lambda x: K.concatenate([x, x * 2], axis=1),
    "stack": lambda x: K.stack([x, -x], axis=1),
    "split": lambda x: K.split(x, 2, axis=2),
    "split at": lambda x: K.split(x, [1, 2], axis=1),
    "repeat": lambda x: K.repeat(x, 2, 1),
    "tile": lambda x: K.tile(x, (1, 2, 1)), "flip": lambda x: K.flip(x, axis=1),
    "pad": lambda x: K.pad(x, ((0, 0), (1, 2), (0, 1))),
    "roll": lambda x: K.roll(x, 1, 1),
    "take": lambda x: K.take(x, [0, 2], axis=1), "clip": lambda x: K.clip(x, -0.5, 0.5),
    "einsum": lambda x: K.einsum("abc,adc->abd", x, x),
    "one_hot": lambda x: K.one_hot(K.argmax(x, axis=-1), 4),
    "top_k": lambda x: K.top_k(x, 2), "normalize": lambda x: K.normalize(x),
    "gelu": lambda x: K.gelu(x), "leaky_relu": lambda x: K.leaky_relu(x, 0.3),
    "softmax": lambda x: K.softmax(x, axis=1), "silu": lambda x: K.silu(x),
    "zeros_like": lambda x: K.zeros_like(x) + K.ones_like(x),
    "maximum": lambda x: K.maximum(x, 0.1),
    "logical": lambda x: K.logical_and(x > 0, x < 1),
}  # fmt: skip
for _name, _build in OPERATIONS.items():
    case(f"ops: {_name}", (3, 4))(_build)
for _name in [
    "exp",
    "expm1",
    "log1p",
    "sqrt",
    "rsqrt",
    "square",
    "sin",
    "cos",
    "tan",
    "tanh",
    "arctan",
    "sinh",
    "cosh",
    "arcsinh",
    "erf",
    "reciprocal",
    "ceil",
    "floor",
    "sign",
    "absolute",
    "negative",
    "isnan",
    "isfinite",
    "sigmoid",
    "relu",
    "softplus",
]:
    case(f"ops: {_name}", (3, 4))(lambda x, f=_name: getattr(K, f)(K.absolute(x) + 0.1))


def namespace(name: str) -> Any:
    """The dictionary of a namespace, or of the nearest version."""
    return amanda.namespace(name)


# -- the test ------------------------------------------------------------------------


def with_batch(graph: Any, size: int) -> Any:
    """A graph whose inputs have a static batch."""
    for port in graph.parameters:
        _, *rest = port.type.shape.dims
        port.type = TensorType(port.type.dtype, Shape([size, *rest]))
    return graph


def expect_equal(found: Any, expected: list[Any], name: str) -> None:
    found = list(found.values())
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape, name
        assert np.dtype(a.dtype).kind == np.dtype(b.dtype).kind, (
            name,
            a.dtype,
            b.dtype,
        )
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_a_layer_computes_what_keras_does(name: str, models: Any) -> None:
    shapes, build = CASES[name]
    model = models.model_of(shapes, build)
    feeds = models.feeds_of(model)
    expected = models.expected_outputs(model, feeds)
    graph = amanda.load(model)
    assert [str(each) for each in validate(graph, namespace)] == []
    expect_equal(amanda.run(graph, feeds, backend="numpy"), expected, name)
    if list(CASES).index(name) % 3 == 0:
        static = with_batch(graph, 2)
        expect_equal(amanda.run(static, feeds, backend="numpy"), expected, name)


SLICE = (
    "Embedding(mask_zero), LSTM, attention",
    "a model of several inputs and outputs",
    "RNN of 3 cells",
    "MultiHeadAttention of any length",
    "a mask through TimeDistributed and Bidirectional",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SLICE)
def test_xla_computes_what_keras_does(name: str, models: Any) -> None:
    pytest.importorskip("amanda_jax")
    model = models.model_of(*CASES[name])
    feeds = models.feeds_of(model)
    expected = models.expected_outputs(model, feeds)
    found = amanda.run(amanda.load(model), feeds, backend="jax")
    expect_equal(found, expected, name)
