"""From ONNX: Scan."""

from __future__ import annotations

from typing import Any

from amanda.graph import Graph
from amanda_std import ops
from amanda_std.mappings import expect, inline_body

__all__ = ["READ"]


def read_scan(
    *values: Any, body: Graph, num_scan_inputs: int, scan_input_axes: Any = None,
    scan_input_directions: Any = None, scan_output_axes: Any = None,
    scan_output_directions: Any = None,
) -> Any:  # fmt: skip
    return ops.scan(
        body, None, *values, carried=len(values) - num_scan_inputs,
        axes=_tuple(scan_input_axes, int), reverse=_tuple(scan_input_directions, bool),
        out_axes=_tuple(scan_output_axes, int),
        out_reverse=_tuple(scan_output_directions, bool),
    )  # fmt: skip


def read_scan_8(lengths: Any, *values: Any, body: Graph, num_scan_inputs: int,
                directions: Any = None) -> Any:  # fmt: skip
    """Opset 8 has a batch of sequences: a scan over scans."""
    expect(lengths is None, "Scan of sequences of several lengths")
    carried = len(values) - num_scan_inputs
    reverse = _tuple(directions, bool)

    def scan_sequence(*rows: Any) -> Any:
        return ops.scan(
            lambda *v: inline_body(body, v),
            None,
            *rows,
            carried=carried,
            reverse=reverse,
        )

    return ops.scan(scan_sequence, None, *values, carried=0)


def _tuple(values: Any, kind: type) -> Any:
    """One setting for each tensor; None where all have the default."""
    if not values or not any(values):
        return None
    return tuple(map(kind, values))


READ: dict[str, Any] = {"Scan[:9]": read_scan_8, "Scan[9:]": read_scan}
