"""From PyTorch: window functions, all float32 unless an element type is given.

`periodic` is a window one element longer without its last element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_std import ops
from amanda_std.mappings import cast_to
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.shape_arguments import scalar
from amanda_torch.mapping.type_promotion import FLOAT, number

__all__ = ["READ"]


def read_hann_window(length: Any, periodic: bool = True, *, dtype: Any = None) -> Any:
    return ops.hann_window(length, periodic=periodic, dtype=dtype or FLOAT)


def read_hamming_window(length: Any, periodic: bool = True, alpha: float = 0.54,
                        beta: float = 0.46, *, dtype: Any = None) -> Any:  # fmt: skip
    return ops.cosine_window(
        length, shares=(alpha, beta), periodic=periodic, dtype=dtype or FLOAT
    )


def read_blackman_window(length: Any, periodic: bool = True, *,
                         dtype: Any = None) -> Any:  # fmt: skip
    return ops.blackman_window(length, periodic=periodic, dtype=dtype or FLOAT)


def _window_positions(length: Any, periodic: bool, dtype: Any) -> Any:
    """Positions from -1 to 1 over the window; a window of one element has position 0
    if it is not periodic."""
    numbers = cast_to(ops.arange(0, scalar(length)), dtype)
    steps = scalar(length) + np.int64(0 if periodic else -1)
    half = cast_to(ops.maximum(steps, np.int64(1)), dtype) / number(2, dtype)
    places = numbers / half - number(1, dtype)
    is_single = ops.equal(scalar(length), np.int64(1))
    return ops.where(is_single, number(0, dtype), places)


def read_bartlett_window(length: Any, periodic: bool = True, *,
                         dtype: Any = None) -> Any:  # fmt: skip
    """Bartlett window: a triangle that starts at 0."""
    dtype = dtype or FLOAT
    return number(1, dtype) - ops.abs(_window_positions(length, periodic, dtype))


def read_kaiser_window(length: Any, periodic: bool = True, beta: float = 12.0, *,
                       dtype: Any = None) -> Any:  # fmt: skip
    """Kaiser window: I0(beta * sqrt(1 - t * t)) / I0(beta) at positions t."""
    dtype = dtype or FLOAT
    places = _window_positions(length, periodic, dtype)
    left = ops.maximum(number(1, dtype) - places * places, number(0, dtype))
    width = number(beta, dtype)
    return ops.i0(width * ops.sqrt(left)) / ops.i0(width)


READ = torch_functions(
    {
        "hann_window hann_window.periodic": read_hann_window,
        "hamming_window hamming_window.periodic hamming_window.periodic_alpha "
        "hamming_window.periodic_alpha_beta": read_hamming_window,
        "blackman_window blackman_window.periodic": read_blackman_window,
        "bartlett_window bartlett_window.periodic": read_bartlett_window,
        "kaiser_window kaiser_window.periodic kaiser_window.beta": read_kaiser_window,
    }
)
