"""Pipelines: the passes that graphs are optimized by, in order.

Folding comes first: what it removes, the others need not visit."""

from __future__ import annotations

from amanda.passes import Pipeline
from amanda_std.passes.branches import branches
from amanda_std.passes.canonical import canonical
from amanda_std.passes.containers import containers
from amanda_std.passes.drop import drop
from amanda_std.passes.fold import fold
from amanda_std.passes.fusion import fuse
from amanda_std.passes.norm_folding import fold_norms
from amanda_std.passes.share import share
from amanda_std.passes.simplify import simplify

__all__ = ["optimize", "optimize_for_inference"]

_EXACT = (fold, branches, containers, canonical, simplify, share, drop)

optimize = Pipeline(*_EXACT)
"""Fewer ops; the results are the same to the last bit."""

optimize_for_inference = Pipeline(fold, fuse, fold_norms, *_EXACT[1:])
"""Fewer ops; results differ by rounding: norms become part of weights, formulas ops."""
