"""Results of programs that are plain numbers, as constants."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from amanda.graph import TRAINABLE_NOTE, Graph, OutputPort
from amanda.tensors import Tensor
from amanda_torch.records import INPUT_RECORDS

__all__ = ["add_numbers"]

_TYPES: Final = {"as_int": "int64", "as_bool": "bool", "as_float": "float64"}
"""Element types of numbers: those of symbolic numbers."""


def add_numbers(graph: Graph) -> None:
    """Connect results that are numbers in the file to constants; None stays empty."""
    for part in list(graph.graphs()):
        for port, result in zip(part.outputs, part.result_ports, strict=True):
            if result.source is None:
                number = _number_of(port)
                if number is not None:
                    result.connect(_add_constant(part, number))


def _number_of(port: OutputPort) -> Tensor | None:
    """The number that a result is in the file."""
    entry: dict[str, Any] = INPUT_RECORDS.of(port).get("value") or {}
    for kind, dtype in _TYPES.items():
        if entry.get(kind) is not None:
            # A float that is not finite is a text in files.
            value = float(entry[kind]) if kind == "as_float" else entry[kind]
            return Tensor.of(np.asarray(value, dtype))
    return None


def _add_constant(graph: Graph, number: Tensor) -> OutputPort:
    constant = graph.constant(number)
    constant.output.type = number.type_with_content()
    if number.dtype.kind == "float":
        constant.attrs[TRAINABLE_NOTE] = False
    return constant.output
