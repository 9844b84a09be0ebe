"""Conformance of Amanda with ONNX's backend test suite; a development tool.

    for kind, case in cases(["node"], "resize"):
        print(run_case(kind, case, "numpy"))

The module is the suite of `amanda scoreboard onnx`, which runs all cases and counts.
`onnx_backend` is an `onnx.backend.base.Backend`, for the test runner of the onnx
package.
"""

from __future__ import annotations

from typing import Final

from amanda_onnx_conformance.cases import (
    KINDS,
    cases,
    data_sets,
    load_model,
    to_array,
)
from amanda_onnx_conformance.outcomes import draws_random_numbers, run_case

__all__ = [
    "KINDS",
    "SECONDS",
    "SECOND_DATA",
    "cases",
    "data_sets",
    "draws_random_numbers",
    "load_model",
    "run_case",
    "to_array",
]

SECOND_DATA: Final = True
"""Whether cases have a second data set."""
SECONDS: Final = None
"""All cases run in one process, without a time limit."""
