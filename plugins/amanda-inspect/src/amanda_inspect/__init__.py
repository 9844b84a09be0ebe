"""Look into a model, and find where two differ, in structure and in numbers."""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda_inspect.bisection import Bisection, OpError, bisect
from amanda_inspect.difference import GraphDifference, diff
from amanda_inspect.matching import Matching, match_graphs
from amanda_inspect.viewer import GraphPage, Overlay, read_overlay, view

__all__ = [
    "Bisection",
    "GraphDifference",
    "GraphPage",
    "Matching",
    "OpError",
    "Overlay",
    "bisect",
    "diff",
    "match_graphs",
    "read_overlay",
    "view",
]

check_arguments(globals())
