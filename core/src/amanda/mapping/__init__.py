"""Mapping: rules between two namespaces, and routes over installed mappings.

- `HubMapping` declares a mapping to and from the hub, `VersionMapping` one between the
  versions of a framework, `RuleMapping` one between any two sides.
- `Side`, `PlainSide`, `Signature`: a namespace at one end of a mapping.
- `RuleSet`, `Lens`, `Builder`, `Decline`: rules, and functions as rules.
- `lower`: ops replaced by their definitions until a target supports them.
- `Route`, `Plan`, `Gap`, `Report`, `Conversion`: conversions, and what they report.

`hub_mapping.py`, `version_mapping.py`, `rule_mapping.py`, `lowering.py` and `side.py`
are here; `rules/` has rules as data, `engine/` matches and builds, `lenses/` has the
built-in lenses, `routes/` finds chains of mappings.
"""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda.mapping.engine.adapters import adapter
from amanda.mapping.engine.function_inlining import (
    expanded_sizes,
    expect_bounded_calls,
    expect_bounded_expansion,
    inline_functions,
    inline_functions_in_place,
    sum_over_calls,
)
from amanda.mapping.hub_mapping import HubMapping, SideFactory
from amanda.mapping.lenses.lens import Lens, equivalent_values, make_table
from amanda.mapping.lowering import (
    Definitions,
    Overrides,
    Refusal,
    Supports,
    Unlowered,
    definitions_of,
    expand_foreign,
    lower,
)
from amanda.mapping.routes.plan import Plan, expect_no_gaps, run_mapper
from amanda.mapping.routes.process import Process
from amanda.mapping.routes.report import (
    Conversion,
    Report,
    find_lost_attributes,
    op_location,
)
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
    "op_location",
    "equivalent_values",
    "VersionChange",
    "VersionMapping",
    "version_number",
    "lower",
    "expanded_sizes",
    "expect_bounded_calls",
    "expect_bounded_expansion",
    "sum_over_calls",
    "inline_functions",
    "inline_functions_in_place",
    "definitions_of",
    "Unlowered",
    "Supports",
    "SideFactory",
    "Overrides",
    "Refusal",
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
    "expand_foreign",
    "expect_no_gaps",
    "find_lost_attributes",
    "find_route",
    "make_table",
    "answer_question",
    "gap_error",
]

check_arguments(globals(), "amanda.dictionary")  # whose Span is not the format kit's
