"""The mapping between PyTorch and the hub.

side.py             PyTorch as one side of mappings
functionalization/  writes into tensors and buffers as values
calls.py            calls of ATen ops as calls of Python functions
type_promotion.py   element types of results: type promotion
shape_arguments.py  axes and sizes, some of which may be symbolic

Each other sub-package is one theme: its rules (`*.rules`) are ops that correspond one
to one, and patterns; `read_*.py` are functions from PyTorch, for ops whose arguments
decide what is built.
"""

from __future__ import annotations

from amanda.mapping import HubMapping
from amanda_torch.mapping.side import torch_side

__all__ = ["MAPPING"]

MAPPING = HubMapping(
    "torch-std",
    "amanda/torch",
    side=torch_side,
    package=__name__,
    consumed_notes=("x-value",),
)
"""The entry `torch-std` of `amanda.mappings`."""
