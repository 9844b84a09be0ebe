"""ResNet-50 and BERT-base as people write them in JAX, with weights made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["WRITTEN"]

STAGES = ((64, 256, 3, 1), (128, 512, 4, 2), (256, 1024, 6, 2), (512, 2048, 3, 2))
"""Channels inside and behind, blocks, stride of the first one."""
LAYERS, WIDTH, HEADS, INNER, WORDS = 12, 768, 12, 3072, 30522


def resnet() -> tuple[Callable[..., Any], Any]:
    """NCHW, as PyTorch has it; the norms are in the kernels already."""
    rng = np.random.default_rng(0)

    def kernel(out: int, inner: int, size: int) -> Any:
        w = rng.standard_normal((out, inner, size, size), "float32")
        return jnp.asarray(w / (inner * size * size) ** 0.5), jnp.zeros(out)

    blocks, before = [], 64
    for inside, behind, count, _ in STAGES:
        for i in range(count):
            block = [kernel(inside, before, 1), kernel(inside, inside, 3)]
            block.append(kernel(behind, inside, 1))
            if not i:
                block.append(kernel(behind, before, 1))
            blocks.append(block)
            before = behind
    head = jnp.asarray(rng.standard_normal((2048, 1000), "float32") / 45)
    return _resnet, (kernel(64, 3, 7), blocks, head, jnp.zeros(1000))


def _conv(x: Any, weights: Any, stride: int = 1) -> Any:
    w, b = weights
    edge = w.shape[2] // 2
    y = jax.lax.conv_general_dilated(
        x, w, (stride, stride), [(edge, edge)] * 2,
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
    rest = iter(blocks)
    for _, _, count, stride in STAGES:
        for i in range(count):
            block, step = next(rest), stride if not i else 1
            y = jax.nn.relu(_conv(x, block[0]))
            y = jax.nn.relu(_conv(y, block[1], step))
            y = _conv(y, block[2])
            x = jax.nn.relu(y + (_conv(x, block[3], step) if not i else x))
    return jnp.matmul(x.mean((2, 3)), head, precision="highest") + bias


def resnet_last() -> tuple[Callable[..., Any], Any]:
    """Channels behind, kernels of one element as products: written best."""
    _, params = resnet()

    def turned(weights: Any) -> Any:
        return weights[0].transpose(2, 3, 1, 0), weights[1]

    stem, blocks, head, bias = params
    return _resnet_last, (
        turned(stem), [[turned(w) for w in block] for block in blocks], head, bias,
    )  # fmt: skip


def _conv_last(x: Any, weights: Any, stride: int = 1) -> Any:
    w, b = weights
    if w.shape[0] == 1:
        x = x[:, ::stride, ::stride]
        y = jnp.matmul(x.reshape(-1, w.shape[2]), w[0, 0], precision="highest")
        return y.reshape(*x.shape[:3], -1) + b
    edge = w.shape[0] // 2
    y = jax.lax.conv_general_dilated(
        x, w, (stride, stride), [(edge, edge)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision="highest",
    )  # fmt: skip
    return y + b


def _resnet_last(params: Any, x: Any) -> Any:
    stem, blocks, head, bias = params
    x = jax.nn.relu(_conv_last(x.transpose(0, 2, 3, 1), stem, 2))
    x = jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1),
        ((0, 0), (1, 1), (1, 1), (0, 0)),
    )  # fmt: skip
    rest = iter(blocks)
    for _, _, count, stride in STAGES:
        for i in range(count):
            block, step = next(rest), stride if not i else 1
            y = jax.nn.relu(_conv_last(x, block[0]))
            y = jax.nn.relu(_conv_last(y, block[1], step))
            y = _conv_last(y, block[2])
            x = jax.nn.relu(y + (_conv_last(x, block[3], step) if not i else x))
    return jnp.matmul(x.mean((1, 2)), head, precision="highest") + bias


def bert() -> tuple[Callable[..., Any], Any]:
    rng = np.random.default_rng(0)

    def matrix(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape, "float32") / shape[0] ** 0.5)

    def norm() -> Any:
        return jnp.ones(WIDTH), jnp.zeros(WIDTH)

    layers = [
        {
            **{k: (matrix(WIDTH, WIDTH), jnp.zeros(WIDTH)) for k in "qkvo"},
            "in": (matrix(WIDTH, INNER), jnp.zeros(INNER)),
            "out": (matrix(INNER, WIDTH), jnp.zeros(WIDTH)),
            "norms": (norm(), norm()),
        }
        for _ in range(LAYERS)
    ]
    table = (matrix(WORDS, WIDTH), matrix(512, WIDTH), matrix(2, WIDTH), norm())
    return _bert, (table, layers, (matrix(WIDTH, WIDTH), jnp.zeros(WIDTH)))


def _norm(x: Any, weights: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    spread = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(spread + 1e-12) * weights[0] + weights[1]


def _dense(x: Any, weights: Any) -> Any:
    return jnp.matmul(x, weights[0], precision="highest") + weights[1]


def _bert(params: Any, ids: Any) -> Any:
    (words, places, kinds, first), layers, pool = params
    x = _norm(words[ids] + places[: ids.shape[1]] + kinds[0], first)
    batch, length = ids.shape
    for layer in layers:
        q, k, v = (
            _dense(x, layer[name]).reshape(batch, length, HEADS, -1) for name in "qkv"
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, precision="highest") / 8.0
        seen = jnp.einsum(
            "bhqk,bkhd->bqhd", jax.nn.softmax(scores), v, precision="highest"
        )
        y = _dense(seen.reshape(batch, length, WIDTH), layer["o"])
        x = _norm(x + y, layer["norms"][0])
        y = jax.nn.gelu(_dense(x, layer["in"]), approximate=False)
        x = _norm(x + _dense(y, layer["out"]), layer["norms"][1])
    return x, jnp.tanh(_dense(x[:, 0], pool))


Made = Callable[[], tuple[Callable[..., Any], Any]]
WRITTEN: dict[str, dict[str, Made]] = {
    "ResNet-50": {"": resnet, ", channels behind": resnet_last},
    "BERT-base": {"": bert},
}
"""For each model the ways to write it, with what is said of each; the plain first."""
