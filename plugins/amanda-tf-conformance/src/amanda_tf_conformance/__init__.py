"""TensorFlow graphs with the outputs of TensorFlow; a development tool.

    for kind, case in cases(["function"], "while"):
        print(run_case(kind, case, "numpy"))

The module is the suite of `amanda scoreboard tensorflow`, which runs all and
counts.
"""

from __future__ import annotations

from typing import Final

from amanda_tf_conformance.cases import KINDS, Case, cases, run_case
from amanda_tf_conformance.made_models import models_folder

__all__ = [
    "KINDS",
    "SECONDS",
    "SECOND_DATA",
    "Case",
    "cases",
    "models_folder",
    "run_case",
]

SECOND_DATA: Final = False
"""Whether cases have a second data set."""
SECONDS: Final = 60.0
"""How long a case may take."""
