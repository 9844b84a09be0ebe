"""Passes: functions that rewrite a graph in place, within its namespace.

A pass changes a graph and the graphs inside it, and returns the number of changes.
Replaced ops leave forwards, so that handles still find their values; new ops have their
provenance. `apply_passes` runs passes in turn until none changes anything; a
`Pipeline` is several passes under one name. `Rewriting` is a pass made of rules.
"""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda.passes.fixed_point import Pass, PassReport, apply_passes
from amanda.passes.inlining import inline
from amanda.passes.pipeline import Pipeline
from amanda.passes.rewriting import Rewriting

__all__ = ["Pass", "PassReport", "Pipeline", "Rewriting", "apply_passes", "inline"]

check_arguments(globals())
