"""Keys from a stream that advances, for random ops without a seed of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from amanda.backend import random_streams
from amanda.types import Shape
from amanda_std.engine.annotations import ShapeArg
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples
from amanda_std.ops.random.prng import Words, threefry2x32


def _keys_shape(shape: Any = ()) -> Shape:
    return Shape([*shape, 2])


@primitive(shape=_keys_shape, numpy_only=True, effect="draws")
def next_random_key(shape: ShapeArg = (), *, stream: int = 0) -> Words:
    """New Threefry keys [*shape, 2] from a stream, different ones each time

    The stream advances by call and by iteration of a loop, and starts at the seed of
    the executable."""
    shape = tuple(map(int, shape))
    streams, count = random_streams(), math.prod(shape)
    start = streams.advance(stream, count)
    seed = np.array([streams.seed >> 32, streams.seed & 0xFFFFFFFF], "uint32")
    own = threefry2x32(seed, np.array([0, stream % 2**32], "uint32"))
    numbers = np.arange(start, start + count, dtype="uint64")
    halves = np.stack([numbers >> 32, numbers & 0xFFFFFFFF], -1).astype("uint32")
    return threefry2x32(own, halves).reshape(*shape, 2)


next_random_key.not_differentiable("its results are random")


@next_random_key.samples
def _() -> Samples:
    """Other keys are different each time: test_random_streams.py."""
    yield Sample(((0,),), np.zeros((0, 2), "uint32"))
    yield Sample(((3, 0),), np.zeros((3, 0, 2), "uint32"), {"stream": 4})
