"""Random feeds for the inputs of a graph, and the values that inputs accept."""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda.feeds.generation import find_input_ranges, generate_feeds
from amanda.feeds.ranges import ROLES, InputRange

__all__ = ["ROLES", "InputRange", "find_input_ranges", "generate_feeds"]

check_arguments(globals())
