"""Passes over graphs of the hub. Each returns how much it changed."""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda_std.passes.branches import branches
from amanda_std.passes.canonical import canonical
from amanda_std.passes.complex_pairs import complex_as_pairs
from amanda_std.passes.containers import containers
from amanda_std.passes.drop import drop
from amanda_std.passes.explicit_state import explicit_state, implicit_state
from amanda_std.passes.fold import fold
from amanda_std.passes.fusion import fuse
from amanda_std.passes.infer import infer
from amanda_std.passes.layout import channels_first, channels_last, sink
from amanda_std.passes.norm_folding import fold_norms
from amanda_std.passes.pipelines import optimize, optimize_for_inference
from amanda_std.passes.share import share
from amanda_std.passes.simplify import simplify
from amanda_std.passes.stable import stable

__all__ = [
    "branches",
    "canonical",
    "channels_first",
    "channels_last",
    "complex_as_pairs",
    "containers",
    "drop",
    "explicit_state",
    "fold",
    "fold_norms",
    "fuse",
    "implicit_state",
    "infer",
    "optimize",
    "optimize_for_inference",
    "share",
    "simplify",
    "sink",
    "stable",
]

check_arguments(globals())
