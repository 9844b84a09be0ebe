"""To TensorFlow: keys of random numbers.

Distributions are defined by words of Threefry and Philox, which `definitions` computes.
"""

from __future__ import annotations

from typing import Any

from amanda.types import DType
from amanda_tf.mapping.operands import int_tensor, required_static

__all__ = ["WRITE"]


def write_next_random_key(o: Any, shape: Any = (), *, stream: int = 0) -> Any:
    """Keys that no seed determines: TensorFlow has no stream with a number."""
    del stream
    sizes = required_static(shape, "the number of keys")
    words = int_tensor([*sizes, 2], "int64")
    return o.NonDeterministicInts(words, dtype=DType("uint32"))


WRITE: dict[str, Any] = {"next_random_key": write_next_random_key}
