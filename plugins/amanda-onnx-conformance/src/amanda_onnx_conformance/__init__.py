"""Conformance of Amanda with ONNX's backend test suite; a development tool.

    for kind, case in cases(["node"], "resize"):
        print(run_case(kind, case, "numpy"))

`amanda scoreboard onnx` runs all cases and counts. `onnx_backend` is an
`onnx.backend.base.Backend`, for the test runner of the onnx package.
"""

from __future__ import annotations

from amanda_onnx_conformance.cases import (
    KINDS,
    cases,
    data_sets,
    load_model,
    to_array,
)
from amanda_onnx_conformance.comparison import difference
from amanda_onnx_conformance.outcomes import (
    OUTCOMES,
    Outcome,
    count_outcomes,
    draws_random_numbers,
    run_case,
)

__all__ = [
    "KINDS",
    "OUTCOMES",
    "Outcome",
    "cases",
    "count_outcomes",
    "data_sets",
    "difference",
    "draws_random_numbers",
    "load_model",
    "run_case",
    "to_array",
]
