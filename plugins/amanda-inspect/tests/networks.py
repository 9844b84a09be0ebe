"""Networks with hundreds of ops in the hub, and small ones with bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import amanda
from amanda_std import ops

RANDOM = np.random.default_rng(11)
WIDTH, HEADS, LENGTH = 16, 2, 5


def weight(*shape: int) -> Any:
    return (RANDOM.standard_normal(shape) / np.sqrt(shape[-1])).astype("float32")


def norm(x: Any) -> Any:
    return ops.layer_norm(x, scale=1 + weight(WIDTH) / 10, bias=weight(WIDTH))


def dense(x: Any, n: int, m: int) -> Any:
    return ops.add(ops.matmul(x, weight(n, m)), weight(m))


def heads(x: Any) -> Any:
    split = ops.reshape(x, shape=(1, LENGTH, HEADS, WIDTH // HEADS))
    return ops.transpose(split, perm=(0, 2, 1, 3))


def attention(x: Any, mask: Any) -> Any:
    q, k, v = (heads(dense(x, WIDTH, WIDTH)) for _ in range(3))
    scores = ops.matmul(q, ops.transpose(k, perm=(0, 1, 3, 2)))
    scores = ops.multiply(scores, np.float32((WIDTH // HEADS) ** -0.5))
    if mask is not None:
        scores = ops.where(mask, scores, np.float32(-1e9))
    read = ops.matmul(ops.softmax(scores, axes=(-1,)), v)
    merged = ops.reshape(
        ops.transpose(read, perm=(0, 2, 1, 3)), shape=(1, LENGTH, WIDTH)
    )
    return dense(merged, WIDTH, WIDTH)


def transformer(layers: int, *, causal: bool) -> amanda.Graph:
    """A stack of blocks as in BERT, or in GPT-2 where it is causal."""
    graph = amanda.Graph("amanda/std/1", "transformer")
    tokens = graph.parameter(f"int64[1, {LENGTH}]", "tokens")
    x = ops.gather(weight(50, WIDTH), tokens, axis=0)
    x = ops.add(x, weight(LENGTH, WIDTH))
    mask = np.tril(np.ones((LENGTH, LENGTH), bool)) if causal else None
    for _ in range(layers):
        x = norm(ops.add(x, attention(norm(x) if causal else x, mask)))
        inner = dense(x, WIDTH, 4 * WIDTH)
        inner = ops.tanh(inner) if causal else ops.gelu(inner)
        x = norm(ops.add(x, dense(inner, 4 * WIDTH, WIDTH)))
    graph.result(x, "hidden")
    graph.result(ops.tanh(dense(ops.mean(x, axes=(1,)), WIDTH, WIDTH)), "pooled")
    return graph


def residual(depths: tuple[int, ...] = (3, 4, 6, 3)) -> amanda.Graph:
    """Bottleneck blocks as in ResNet-50, with few channels."""
    graph = amanda.Graph("amanda/std/1", "residual")
    image = graph.parameter("float32[1, 3, 16, 16]", "image")
    x = ops.relu(batch_norm(convolve(image, 3, 8, 3), 8))
    x = ops.max_pool(x, window=(3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
    for depth in depths:
        for _ in range(depth):
            y = ops.relu(batch_norm(convolve(x, 8, 4, 1), 4))
            y = ops.relu(batch_norm(convolve(y, 4, 4, 3), 4))
            y = batch_norm(convolve(y, 4, 8, 1), 8)
            x = ops.relu(ops.add(x, y))
    pooled = ops.mean(x, axes=(2, 3))
    graph.result(dense(pooled, 8, 10), "logits")
    return graph


def convolve(x: Any, n: int, m: int, size: int) -> Any:
    pad = size // 2
    return ops.conv(x, weight(m, n, size, size), padding=((pad, pad), (pad, pad)))


def batch_norm(x: Any, n: int) -> Any:
    scale = 1 + weight(n) / 10
    return ops.batch_norm(x, scale, weight(n), weight(n) / 10, np.abs(weight(n)) + 1)


def with_bodies(inner: Callable[[Any], Any]) -> amanda.Graph:
    """A loop whose body has a conditional, with ops around and in all of them."""
    graph = amanda.Graph("amanda/std/1", "bodies")
    x = graph.parameter("float32[3]", "x")
    start = ops.exp(ops.multiply(ops.sin(x), np.float32(0.5)))

    def body(i: Any, running: Any, now: Any) -> Any:
        moved = ops.add(ops.cos(now), np.float32(0.25))
        high = ops.greater(ops.sum(moved), np.float32(-9))
        then = lambda: ops.subtract(inner(ops.abs(moved)), np.float32(1))  # noqa: E731
        other = lambda: ops.negative(moved)  # noqa: E731
        return running, ops.sin(ops.if_(high, then, other)[0])

    trips, yes = np.asarray(3, "int64"), np.asarray(True)
    (y,) = ops.loop(trips, yes, body, start)
    graph.result(ops.multiply(ops.cos(y), np.float32(2)), "y")
    return graph


def growing() -> amanda.Graph:
    """A loop whose values grow by 0.5 in every iteration, with a tanh of them."""
    graph = amanda.Graph("amanda/std/1", "growing")
    x = graph.parameter("float32[3]", "x")

    def body(i: Any, running: Any, now: Any) -> Any:
        more = ops.add(now, np.float32(0.5))
        small = ops.multiply(ops.cos(ops.tanh(more)), np.float32(0.01))
        return running, ops.add(more, small)

    trips, yes = np.asarray(8, "int64"), np.asarray(True)
    (y,) = ops.loop(trips, yes, body, ops.sin(ops.cos(x)))
    graph.result(ops.sin(y), "y")
    return graph


def feeds_of(graph: amanda.Graph) -> dict[str, Any]:
    """Random feeds by name, of the static types of the inputs."""
    random = np.random.default_rng(3)
    found = {}
    for port in graph.parameters:
        kind: Any = port.type
        shape = tuple(map(int, kind.shape))
        is_float = kind.dtype.kind == "float"
        values = (
            random.standard_normal(shape) if is_float else random.integers(0, 50, shape)
        )
        found[str(port.name)] = values.astype(kind.dtype.numpy)
    return found
