"""To ONNX: mel weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.operands import opset_of
from amanda_std.mappings import static_value

__all__ = ["WRITE"]


def write_mel_weights(
    o: Any, bins: Any, length: Any, *, rate: int, low: float, high: float,
    dtype: Any = None,
) -> Any:  # fmt: skip
    counts = [static_value(v) for v in (bins, length)]
    if opset_of(o) < 17 or any(count is None for count in counts):
        raise Decline("MelWeightMatrix needs opset 17 and static sizes")
    numbers = [Tensor.of(np.asarray(n, "int64")) for n in (*counts, rate)]
    edges = [Tensor.of(np.asarray(f, "float32")) for f in (low, high)]
    if [float(e.item()) for e in edges] != [float(f) for f in (low, high)]:
        raise Decline("MelWeightMatrix has frequencies in float32")
    code = 1 if dtype is None else CODES[dtype]
    return o.MelWeightMatrix(*numbers, *edges, output_datatype=code)


WRITE: dict[str, Any] = {"mel_weights": write_mel_weights}
