"""The mapping between ONNX and the hub, both ways.

side.py               ONNX as one side of mappings
attribute_checks.py   what attributes must be where a schema says it in prose only
inlining.py           local functions of a model
opset_conversion.py   a model at another opset
static_values.py      what mapping functions know of values

Each sub-package is one theme: its rules (`*.rules`) are ops that correspond one to one,
and patterns; `read_*.py` and `write_*.py` are functions from and to ONNX, for ops whose
arguments decide what is built.
"""

from __future__ import annotations

from amanda.mapping import HubMapping
from amanda_onnx.mapping.definitions import DEFINITIONS, FALLBACK_DEFINITIONS
from amanda_onnx.mapping.side import onnx_side

__all__ = ["MAPPING"]

MAPPING = HubMapping(
    "onnx-std",
    "amanda/onnx",
    side=onnx_side,
    package=__name__,
    definitions=DEFINITIONS,
    fallback_definitions=FALLBACK_DEFINITIONS,
    layout="NC*",
    complex_types=False,
    variables=False,
    empty_results=False,
)
"""The entry `onnx-std` of `amanda.mappings`."""
