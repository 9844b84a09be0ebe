"""To PyTorch: keys of random numbers.

Distributions are defined by words of Threefry and Philox, which `definitions` computes.
"""

from __future__ import annotations

from typing import Any

from amanda.types import DType
from amanda_torch.mapping.written_arguments import INT, required_static, write_call

__all__ = ["WRITE"]


def write_next_random_key(o: Any, shape: Any = (), *, stream: int = 0) -> Any:
    """Keys from the default generator of PyTorch, which has no numbered streams."""
    del stream
    sizes = [*required_static(shape, "the number of keys"), 2]
    words = write_call(o, "randint.low", low=0, high=2**32, size=sizes, dtype=INT)
    return write_call(o, "to.dtype", words, dtype=DType("uint32"))


WRITE: dict[str, Any] = {"next_random_key": write_next_random_key}
