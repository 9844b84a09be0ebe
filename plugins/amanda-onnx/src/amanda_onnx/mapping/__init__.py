"""The mapping between ONNX and the hub set, both ways.

side.py              ONNX as an end of mappings
onnx_std.py          the rule set; decomposing what an opset does not have
static_values.py     what functions ask of values

Each package is one theme: its rules (`*.rules`) are ops that correspond one to one, and
patterns; `read_*.py` and `write_*.py` are functions from and to ONNX, for ops whose
arguments decide what is built.
"""

from __future__ import annotations

from amanda_onnx.mapping.onnx_std import OnnxStd, rule_set

__all__ = ["MAPPING", "OnnxStd", "rule_set"]

MAPPING = OnnxStd()
"""The entry `onnx-std` of `amanda.mappings`."""
