"""The messages of ONNX, as onnx.proto beside this module declares them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from amanda.formatkit import ProtoSchema

__all__ = ["SCHEMA"]

_LOCATED: Final = (
    "float_data", "double_data", "int32_data", "int64_data", "uint64_data",
)  # fmt: skip

SCHEMA: Final = ProtoSchema.load(
    Path(__file__).with_name("onnx.proto"),
    located=[f"TensorProto.{name}" for name in _LOCATED],
)
