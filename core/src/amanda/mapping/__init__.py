"""Mapping: rules between two namespaces, and the routes that mappings make.

`Side` and `Signature` are what the engine asks of a namespace.
"""

from __future__ import annotations

from amanda.mapping.engine.adapters import adapter
from amanda.mapping.engine.function_inlining import inline_functions
from amanda.mapping.hub_mapping import HubMapping, SideFactory
from amanda.mapping.lenses.lens import Lens, equivalent_values, make_table
from amanda.mapping.lowering import (
    Definitions,
    Overrides,
    Supports,
    Unlowered,
    definitions_of,
    lower,
)
from amanda.mapping.routes.plan import Plan, expect_no_gaps, run_mapper
from amanda.mapping.routes.process import Process
from amanda.mapping.routes.report import Conversion, Report, op_location
from amanda.mapping.routes.route import (
    Gap,
    GapMet,
    Mapper,
    MappingLink,
    Route,
    RouteStep,
    find_route,
    gap_error,
)
from amanda.mapping.rule_mapping import RuleMapping
from amanda.mapping.rules.functions import Builder
from amanda.mapping.rules.rule_set import RuleSet
from amanda.mapping.side import (
    QUESTIONS,
    REQUIRED,
    Decline,
    PlainSide,
    Side,
    Signature,
    TracingSide,
    answer_question,
    constant_of,
)
from amanda.mapping.version_mapping import (
    VersionChange,
    VersionMapping,
    version_number,
)

__all__ = [
    "VersionChange",
    "VersionMapping",
    "version_number",
    "lower",
    "inline_functions",
    "definitions_of",
    "Unlowered",
    "Supports",
    "SideFactory",
    "Overrides",
    "HubMapping",
    "Definitions",
    "QUESTIONS",
    "REQUIRED",
    "Builder",
    "Conversion",
    "Decline",
    "Gap",
    "GapMet",
    "Lens",
    "MappingLink",
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
    "RouteStep",
    "TracingSide",
    "adapter",
    "constant_of",
    "run_mapper",
    "expect_no_gaps",
    "equivalent_values",
    "find_route",
    "make_table",
    "op_location",
    "answer_question",
    "gap_error",
]
