"""From TensorFlow: fake quantization with limits that are attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops

__all__ = ["READ"]


def read_fake_quant_args(
    x: Any, *, min: float = -6.0, max: float = 6.0, num_bits: int = 8,
    narrow_range: bool = False,
) -> Any:  # fmt: skip
    return ops.fake_quantize_range(
        x, np.float32(min), np.float32(max), bits=num_bits, narrow=narrow_range
    )


READ: dict[str, Any] = {"FakeQuantWithMinMaxArgs": read_fake_quant_args}
