"""The mapping between PyTorch and the hub.

side.py             PyTorch as one side of mappings
functionalization/  writes into tensors and buffers as values
calls.py            calls of ATen ops as calls of Python functions
type_promotion.py   element types of results: type promotion
shape_arguments.py  axes and sizes, some of which may be symbolic
written_arguments.py  operands and sizes of ops that are written
written_programs.py   parameters and types of programs that are written
definitions.py      hub ops as other hub ops that PyTorch has

Each other sub-package is one theme: its rules (`*.rules`) are ops that correspond one
to one, and patterns; `read_*.py` and `write_*.py` are functions from and to PyTorch,
for ops whose arguments decide what is built.
"""

from __future__ import annotations

from typing import Any

from amanda.graph import Graph
from amanda.mapping import Conversion, HubMapping, op_location
from amanda_torch.mapping.definitions import DEFINITIONS
from amanda_torch.mapping.side import torch_side
from amanda_torch.records import PADDING_NOTE, VALUE, WEIGHT_NOTE

__all__ = ["MAPPING"]


class TorchMapping(HubMapping):
    """PyTorch to the hub and back; checks and prints are reported as lost."""

    def conversion(self, graph: Graph, to: str, **options: Any) -> Conversion:
        done = super().conversion(graph, to, **options)
        if self._is_read(graph):
            from amanda_torch.mapping.functionalization import find_left_out

            done.report.losses += tuple(
                f"{op.type}, {op_location(op)}: checks and prints are left out"
                for op in find_left_out(graph)
            )
        return done

    def _is_read(self, graph: Graph) -> bool:
        return (graph.namespace or "").startswith(f"{self.framework}/")


MAPPING = TorchMapping(
    "torch-std",
    "amanda/torch",
    side=torch_side,
    package=__name__,
    definitions=DEFINITIONS,
    layout="NC*",
    consumed_notes=(VALUE, WEIGHT_NOTE, PADDING_NOTE),
)
"""The entry `torch-std` of `amanda.mappings`."""
