"""ResNet-50 and BERT-base written by hand in JAX, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["IMPLEMENTATIONS"]

STAGES = ((64, 256, 3, 1), (128, 512, 4, 2), (256, 1024, 6, 2), (512, 2048, 3, 2))
"""Inner and outer channels, number of blocks, stride of the first block."""
LAYERS, WIDTH, HEADS, FEED_FORWARD, VOCAB_SIZE = 12, 768, 12, 3072, 30522


def resnet() -> tuple[Callable[..., Any], Any]:
    """Channels first (NCHW), as in PyTorch, with batch norms folded in."""
    rng = np.random.default_rng(0)

    def kernel(outputs: int, inputs: int, size: int) -> Any:
        w = rng.standard_normal((outputs, inputs, size, size), "float32")
        return jnp.asarray(w / (inputs * size * size) ** 0.5), jnp.zeros(outputs)

    blocks, channels = [], 64
    for inner, outer, count, _ in STAGES:
        for i in range(count):
            block = [kernel(inner, channels, 1), kernel(inner, inner, 3)]
            block.append(kernel(outer, inner, 1))
            if not i:
                block.append(kernel(outer, channels, 1))
            blocks.append(block)
            channels = outer
    head = jnp.asarray(rng.standard_normal((2048, 1000), "float32") / 45)
    return _resnet, (kernel(64, 3, 7), blocks, head, jnp.zeros(1000))


def _conv(x: Any, weights: Any, stride: int = 1) -> Any:
    w, b = weights
    pad = w.shape[2] // 2
    y = jax.lax.conv_general_dilated(
        x, w, (stride, stride), [(pad, pad)] * 2,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
        precision="highest",
    )  # fmt: skip
    return y + b[:, None, None]


def _resnet(params: Any, x: Any) -> Any:
    stem, blocks, head, bias = params
    x = jax.nn.relu(_conv(x, stem, 2))
    x = jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2),
        ((0, 0), (0, 0), (1, 1), (1, 1)),
    )  # fmt: skip
    remaining = iter(blocks)
    for _, _, count, stride in STAGES:
        for i in range(count):
            block, step = next(remaining), stride if not i else 1
            y = jax.nn.relu(_conv(x, block[0]))
            y = jax.nn.relu(_conv(y, block[1], step))
            y = _conv(y, block[2])
            x = jax.nn.relu(y + (_conv(x, block[3], step) if not i else x))
    return jnp.matmul(x.mean((2, 3)), head, precision="highest") + bias


def resnet_channels_last() -> tuple[Callable[..., Any], Any]:
    """Channels last (NHWC), with 1 x 1 convolutions as matrix products."""
    _, params = resnet()

    def to_hwio(weights: Any) -> Any:
        return weights[0].transpose(2, 3, 1, 0), weights[1]

    stem, blocks, head, bias = params
    return _resnet_channels_last, (
        to_hwio(stem), [[to_hwio(w) for w in block] for block in blocks], head, bias,
    )  # fmt: skip


def _conv_channels_last(x: Any, weights: Any, stride: int = 1) -> Any:
    w, b = weights
    if w.shape[0] == 1:
        x = x[:, ::stride, ::stride]
        y = jnp.matmul(x.reshape(-1, w.shape[2]), w[0, 0], precision="highest")
        return y.reshape(*x.shape[:3], -1) + b
    pad = w.shape[0] // 2
    y = jax.lax.conv_general_dilated(
        x, w, (stride, stride), [(pad, pad)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision="highest",
    )  # fmt: skip
    return y + b


def _resnet_channels_last(params: Any, x: Any) -> Any:
    stem, blocks, head, bias = params
    x = jax.nn.relu(_conv_channels_last(x.transpose(0, 2, 3, 1), stem, 2))
    x = jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1),
        ((0, 0), (1, 1), (1, 1), (0, 0)),
    )  # fmt: skip
    remaining = iter(blocks)
    for _, _, count, stride in STAGES:
        for i in range(count):
            block, step = next(remaining), stride if not i else 1
            y = jax.nn.relu(_conv_channels_last(x, block[0]))
            y = jax.nn.relu(_conv_channels_last(y, block[1], step))
            y = _conv_channels_last(y, block[2])
            x = jax.nn.relu(
                y + (_conv_channels_last(x, block[3], step) if not i else x)
            )
    return jnp.matmul(x.mean((1, 2)), head, precision="highest") + bias


def bert() -> tuple[Callable[..., Any], Any]:
    rng = np.random.default_rng(0)

    def random_matrix(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape, "float32") / shape[0] ** 0.5)

    def unit_norm() -> Any:
        return jnp.ones(WIDTH), jnp.zeros(WIDTH)

    layers = [
        {
            **{k: (random_matrix(WIDTH, WIDTH), jnp.zeros(WIDTH)) for k in "qkvo"},
            "in": (random_matrix(WIDTH, FEED_FORWARD), jnp.zeros(FEED_FORWARD)),
            "out": (random_matrix(FEED_FORWARD, WIDTH), jnp.zeros(WIDTH)),
            "norms": (unit_norm(), unit_norm()),
        }
        for _ in range(LAYERS)
    ]
    embeddings = (
        random_matrix(VOCAB_SIZE, WIDTH),
        random_matrix(512, WIDTH),
        random_matrix(2, WIDTH),
        unit_norm(),
    )
    return _bert, (embeddings, layers, (random_matrix(WIDTH, WIDTH), jnp.zeros(WIDTH)))


def _norm(x: Any, weights: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-12) * weights[0] + weights[1]


def _dense(x: Any, weights: Any) -> Any:
    return jnp.matmul(x, weights[0], precision="highest") + weights[1]


def _bert(params: Any, ids: Any) -> Any:
    (tokens, positions, segments, embedding_norm), layers, pool = params
    x = _norm(tokens[ids] + positions[: ids.shape[1]] + segments[0], embedding_norm)
    batch, length = ids.shape
    for layer in layers:
        q, k, v = (
            _dense(x, layer[name]).reshape(batch, length, HEADS, -1) for name in "qkv"
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, precision="highest") / 8.0
        context = jnp.einsum(
            "bhqk,bkhd->bqhd", jax.nn.softmax(scores), v, precision="highest"
        )
        y = _dense(context.reshape(batch, length, WIDTH), layer["o"])
        x = _norm(x + y, layer["norms"][0])
        y = jax.nn.gelu(_dense(x, layer["in"]), approximate=False)
        x = _norm(x + _dense(y, layer["out"]), layer["norms"][1])
    return x, jnp.tanh(_dense(x[:, 0], pool))


ModelFactory = Callable[[], tuple[Callable[..., Any], Any]]
IMPLEMENTATIONS: dict[str, dict[str, ModelFactory]] = {
    "ResNet-50": {"": resnet, ", channels last": resnet_channels_last},
    "BERT-base": {"": bert},
}
"""Implementations of each model by label suffix, the straightforward one first."""
