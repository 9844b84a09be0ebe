"""The bounds of integer attributes of ONNX, which its schemas state in prose, or not.

Beyond them a model has no meaning, and runtimes compute with 32 bits, divide by the
number, or loop as often: onnxruntime ends the process, or never ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["bounds_of"]

_INT32: Final = (1 << 31) - 1
_COUNT: Final = (0, _INT32)
_SIZE: Final = (1, _INT32)

_BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "blocksize": (1, 1 << 15), "dilations": _SIZE, "group": _SIZE,
    "hidden_size": _SIZE, "kernel_shape": _SIZE, "kv_num_heads": _COUNT,
    "max_skip_count": (0, 1 << 15),
    "num_heads": _COUNT, "output_padding": _COUNT, "pads": (-_INT32, _INT32),
    "q_num_heads": _COUNT, "sample_size": _COUNT, "size": _SIZE, "strides": _SIZE,
}  # fmt: skip
"""By the name of the attribute, which means the same in every op that has it."""
_INTEGERS: Final = ("int", "int[]")


def bounds_of(attribute: str, kind: str) -> tuple[int, int] | None:
    """The least and the greatest value of an attribute, or of each in a list."""
    return _BOUNDS.get(attribute) if kind in _INTEGERS else None
