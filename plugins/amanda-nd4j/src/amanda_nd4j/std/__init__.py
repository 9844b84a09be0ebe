"""The mapping between nd4j and the hub.

side.py         nd4j as one side of the mapping: what is done before and after
unused_ops.py   what no result needs is left out
arguments.py    arguments that may be attributes or inputs

Rules (`*.rules`) are ops that correspond one to one; `read_*.py` and `write_*.py` are
functions from and to nd4j, for ops whose arguments decide what is built.
"""

from __future__ import annotations

from amanda.mapping import HubMapping
from amanda_nd4j.std.side import nd4j_side

__all__ = ["MAPPING"]

MAPPING = HubMapping("nd4j-std", "amanda/nd4j", side=nd4j_side, package=__name__)
"""The entry `nd4j-std` of `amanda.mappings`."""
