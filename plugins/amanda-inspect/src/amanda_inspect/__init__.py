"""Find where two models differ, in structure and in numbers."""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda_inspect.bisection import Bisection, OpError, bisect
from amanda_inspect.difference import GraphDifference, diff
from amanda_inspect.matching import Matching, match_graphs

__all__ = [
    "Bisection",
    "GraphDifference",
    "Matching",
    "OpError",
    "bisect",
    "diff",
    "match_graphs",
]

check_arguments(globals())
