"""Space to depth, depth to space, space to batch: rearrangement of blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError
from amanda_std.engine.annotations import Array, ShapeArg
from amanda_std.engine.operation import composite
from amanda_std.engine.samples import Sample, Samples, arange_of_shape
from amanda_std.ops.math.arithmetic import negative
from amanda_std.ops.tensor.manipulation import pad
from amanda_std.ops.tensor.shape import reshape, transpose


def _channels_first(x: Any, layout: str, back: bool = False) -> Any:
    if layout == "NC*":
        return x
    rank = x.ndim
    last = (0, rank - 1, *range(1, rank - 1))
    return transpose(x, perm=(0, *range(2, rank), 1) if back else last)


def _expect_mode(mode: str) -> None:
    if mode not in ("DCR", "CRD"):
        raise InvalidTypeError("unknown mode", expected="DCR, CRD", got=mode)


@composite
def depth_to_space(
    x: Array, *, block: int, mode: str = "DCR", layout: str = "NC*"
) -> Array:
    """Rearrange channels into spatial blocks (pixel shuffle)

    DCR: the block position varies slower than the remaining channel; CRD: faster."""
    _expect_mode(mode)
    x = _channels_first(x, layout)
    batch, channels, *spatial = x.shape
    n = len(spatial)
    left, blocks = channels // block**n, [block] * n
    first = 1 if mode == "DCR" else 2
    parts = [*blocks, left] if mode == "DCR" else [left, *blocks]
    y = reshape(x, [batch, *parts, *spatial])
    pairs = [a for i in range(n) for a in (n + 2 + i, first + i)]
    y = transpose(y, perm=(0, n + 1 if mode == "DCR" else 1, *pairs))
    return _channels_first(reshape(y, [batch, left, *(d * block for d in spatial)]),
                   layout, back=True)  # fmt: skip


@composite
def space_to_depth(
    x: Array, *, block: int, mode: str = "DCR", layout: str = "NC*"
) -> Array:
    """Rearrange spatial blocks into channels; the inverse of depth_to_space"""
    _expect_mode(mode)
    x = _channels_first(x, layout)
    batch, channels, *spatial = x.shape
    n = len(spatial)
    small = [d // block for d in spatial]
    pairs = [p for d in small for p in (d, block)]
    y = reshape(x, [batch, channels, *pairs])
    outer, inner = range(2, 2 * n + 2, 2), range(3, 2 * n + 2, 2)
    depth = (*inner, 1) if mode == "DCR" else (1, *inner)
    y = transpose(y, perm=(0, *depth, *outer))
    return _channels_first(reshape(y, [batch, channels * block**n, *small]),
                   layout, back=True)  # fmt: skip


@composite
def space_to_batch(x: Array, pads: ShapeArg, *, block: tuple[int, ...]) -> Array:
    """Rearrange blocks of the axes after the first into the batch, after padding"""
    n = len(block)
    x = pad(x, pads, None, tuple(range(1, n + 1)))
    batch, rest = x.shape[0], list(x.shape[n + 1 :])
    small = [d // b for d, b in zip(x.shape[1 : n + 1], block, strict=True)]
    pairs = [p for pair in zip(small, block, strict=True) for p in pair]
    y = reshape(x, [batch, *pairs, *rest])
    outer, inner = range(1, 2 * n + 1, 2), range(2, 2 * n + 1, 2)
    after = range(2 * n + 1, 2 * n + 1 + len(rest))
    y = transpose(y, perm=(*inner, 0, *outer, *after))
    return reshape(y, [batch * math.prod(block), *small, *rest])


@composite
def batch_to_space(x: Array, crops: ShapeArg, *, block: tuple[int, ...]) -> Array:
    """Rearrange the batch into blocks of the axes after it, then crop them"""
    n = len(block)
    many, rest = x.shape[0], list(x.shape[n + 1 :])
    batch, small = many // math.prod(block), list(x.shape[1 : n + 1])
    y = reshape(x, [*block, batch, *small, *rest])
    pairs = [a for i in range(n) for a in (n + 1 + i, i)]
    after = range(2 * n + 1, 2 * n + 1 + len(rest))
    y = transpose(y, perm=(n, *pairs, *after))
    large = [d * b for d, b in zip(small, block, strict=True)]
    y = reshape(y, [batch, *large, *rest])
    given = isinstance(crops, tuple | list)
    back = tuple((-a, -b) for a, b in crops) if given else negative(crops)
    return pad(y, back, None, tuple(range(1, n + 1)))


def _channel_of(c: int, at: Any, block: int, left: int, mode: str) -> int:
    """Channel of an element, from its own channel and its position in the block."""
    position = 0
    for p in at:
        position = position * block + p % block
    blocks = block ** len(at)
    return position * left + c if mode == "DCR" else c * blocks + position


def _block_samples(to_depth: bool) -> Any:
    def make() -> Samples:
        for dtype in ("float64", "int32"):
            for data, block in (((2, 3, 4, 6), 2), ((1, 2, 6), 3), ((1, 1, 2, 2), 1)):
                for mode in ("DCR", "CRD"):
                    n = len(data) - 2
                    wide = arange_of_shape(*data, dtype=dtype)
                    small = (d // block for d in data[2:])
                    deep = np.zeros((data[0], data[1] * block**n, *small), dtype)
                    for i, c, *at in np.ndindex(wide.shape):
                        channel = _channel_of(c, at, block, data[1], mode)
                        deep[(i, channel, *(p // block for p in at))] = wide[
                            (i, c, *at)
                        ]
                    x, y = (wide, deep) if to_depth else (deep, wide)
                    attrs = {"block": block, "mode": mode}
                    yield Sample((x,), y, attrs)
                    x, y = np.moveaxis(x, 1, -1), np.moveaxis(y, 1, -1)
                    yield Sample((x,), y, attrs | {"layout": "N*C"})
        x, y = np.zeros((0, 1, 4)), np.zeros((0, 2, 2))
        args = (x, y) if to_depth else (y, x)
        yield Sample(args[:1], args[1], {"block": 2}, smooth=False)

    return make


space_to_depth.samples(_block_samples(True))


depth_to_space.samples(_block_samples(False))


def _batch_samples(to_batch: bool) -> Any:
    def make() -> Samples:
        forms: list[tuple[Any, ...]] = [
            ((2, 4, 6, 1), (2, 3), ((0, 0), (0, 0))),
            ((1, 3, 4, 2), (2, 2), ((1, 0), (2, 2))),
            ((2, 3), (3,), ((0, 0),)),
        ]
        for dtype in ("float64", "int32"):
            for data, block, pads in forms:
                x = arange_of_shape(*data, dtype=dtype, start=1)
                n = len(block)
                full = [d + a + b for d, (a, b) in zip(data[1:], pads, strict=False)]
                small = [d // b for d, b in zip(full, block, strict=True)]
                y = np.zeros(
                    (data[0] * math.prod(block), *small, *data[n + 1 :]), dtype
                )
                for i, *at in np.ndindex(*data[: n + 1]):
                    where = [p + a for p, (a, _) in zip(at, pads, strict=True)]
                    position = 0
                    for p, b in zip(where, block, strict=True):
                        position = position * b + p % b
                    spot = [p // b for p, b in zip(where, block, strict=True)]
                    y[(position * data[0] + i, *spot)] = x[(i, *at)]
                args = (x, y) if to_batch else (y, x)
                yield Sample((args[0], pads), args[1], {"block": block})
        empty = np.zeros((0, 4)), np.zeros((0, 2))
        args = empty if to_batch else empty[::-1]
        yield Sample((args[0], ((0, 0),)), args[1], {"block": (2,)}, smooth=False)

    return make


space_to_batch.samples(_batch_samples(True))


batch_to_space.samples(_batch_samples(False))
