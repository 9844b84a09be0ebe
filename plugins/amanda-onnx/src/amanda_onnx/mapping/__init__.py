"""The mapping between ONNX and the hub set, both ways.

rules/*.rules        rows: what is one op on either side, and patterns
side.py              ONNX as an end of mappings
onnx_std.py          the rule set; decomposing what an opset does not have
read_*.py            functions from ONNX, for where data decides what is made
write_*.py           functions to ONNX
static_values.py     what functions ask of values
"""

from __future__ import annotations

from amanda_onnx.mapping.onnx_std import OnnxStd, rule_set

__all__ = ["MAPPING", "OnnxStd", "rule_set"]

MAPPING = OnnxStd()
"""The entry `onnx-std` of `amanda.mappings`."""
