"""Mapping: rules between two namespaces, and the routes that mappings make.

`Side` and `Signature` are what the engine asks of a namespace.
"""

from __future__ import annotations

from amanda.mapping.adapters import adapter
from amanda.mapping.engine import RuleMapping
from amanda.mapping.functions import Builder
from amanda.mapping.lens import Lens, make_table
from amanda.mapping.plan import Plan, conversion, expect_whole
from amanda.mapping.process import Process
from amanda.mapping.report import Conversion, Report
from amanda.mapping.route import (
    Gap,
    GapMet,
    Link,
    Mapper,
    Route,
    Step,
    find_route,
    unmapped,
)
from amanda.mapping.rules import RuleSet
from amanda.mapping.side import (
    QUESTIONS,
    REQUIRED,
    Decline,
    PlainSide,
    Side,
    Signature,
    TracingSide,
    constant_of,
    question,
)

__all__ = [
    "QUESTIONS",
    "REQUIRED",
    "Builder",
    "Conversion",
    "Decline",
    "Gap",
    "GapMet",
    "Lens",
    "Link",
    "Mapper",
    "PlainSide",
    "Plan",
    "Process",
    "Report",
    "Route",
    "RuleMapping",
    "RuleSet",
    "Side",
    "Signature",
    "Step",
    "TracingSide",
    "adapter",
    "constant_of",
    "conversion",
    "expect_whole",
    "find_route",
    "make_table",
    "question",
    "unmapped",
]
