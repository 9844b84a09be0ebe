"""Programs of PyTorch's op database with its outputs; a development tool.

    for kind, case in cases(["static"], "softmax"):
        print(run_case(kind, case, "numpy"))

The module is the suite of `amanda scoreboard torch`, which runs all and counts.
"""

from __future__ import annotations

from typing import Final

from amanda_torch_conformance.cases import KINDS, Case, cases, run_case
from amanda_torch_conformance.program_files import programs_folder

__all__ = [
    "KINDS",
    "SECONDS",
    "SECOND_DATA",
    "Case",
    "cases",
    "programs_folder",
    "run_case",
]

SECOND_DATA: Final = False
"""Whether cases have a second data set."""
SECONDS: Final = 60.0
"""How long a case may take."""
