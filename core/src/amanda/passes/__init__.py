"""Passes: a graph made better in place, within its own namespace.

A pass is a function: it gets a graph, changes it and the graphs inside it, and says how
much it changed. What it replaces leaves forwards, so that a handle held since before
still finds its value; what it makes tells where it came from. `apply` runs passes in
turn until none finds anything more. `Rewriting` is a pass made of rules.
"""

from __future__ import annotations

from amanda.passes.fixed_point import Pass, PassReport, apply_passes
from amanda.passes.inlining import inline
from amanda.passes.rewriting import Rewriting

__all__ = ["PassReport", "Pass", "Rewriting", "apply_passes", "inline"]
