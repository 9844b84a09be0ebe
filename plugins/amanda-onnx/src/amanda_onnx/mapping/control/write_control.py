"""To ONNX: Scan."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline
from amanda.types import TensorType
from amanda_onnx.mapping.operands import as_vector, opset_of

__all__ = ["WRITE"]


def write_scan(o: Any, length: Any = None, *values: Any, body: Any, carried: int,
               axes: Any = None, reverse: Any = None, out_axes: Any = None,
               out_reverse: Any = None) -> Any:  # fmt: skip
    """The length is that of the scanned tensors, of which ONNX needs at least one."""
    if opset_of(o) < 9:
        raise Decline("Scan needs opset 9")
    count = len(values) - carried
    if not count:
        body.parameter(TensorType("float32", ()))
        values = (*values, o.ConstantOfShape(as_vector(o, length)))
        count = 1
    attrs = {
        "scan_input_axes": axes,
        "scan_input_directions": None if reverse is None else [*map(int, reverse)],
        "scan_output_axes": out_axes,
        "scan_output_directions": (
            None if out_reverse is None else [*map(int, out_reverse)]
        ),
    }
    given = {key: list(value) for key, value in attrs.items() if value is not None}
    outputs = len(o.source.outputs)
    return o.Scan(*values, body=body, num_scan_inputs=count, **given, outputs=outputs)


WRITE: dict[str, Any] = {"scan": write_scan}
