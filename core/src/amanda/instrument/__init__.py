"""Tools: analyses and changes of models, written once for every framework and backend.

from amanda.instrument import Tool, on_op
from amanda_std import ops

class Ranges(Tool):
    "The largest magnitude of each activation"

    name = "ranges"

    @on_op(type=["relu", "gelu"])
    def magnitude(self, site):
        site.observe("largest", ops.max(ops.abs(site.output)), combine="max")

instrumented = amanda.apply(model, Ranges())
instrumented.run(feeds, backend="jax")
print(instrumented.report)
"""

from __future__ import annotations

from amanda.argument_checks import check_arguments
from amanda.instrument._apply import CompiledWithReport, Instrumented, apply
from amanda.instrument._instrumentation import Instrumentation
from amanda.instrument._report import HostCallback, Observation, Report, Unobserved
from amanda.instrument._selectors import Selector, on_gradient, on_op
from amanda.instrument._site import GradientSite, Site
from amanda.instrument._sources import SourceOp
from amanda.instrument._tool import Tool

__all__ = [
    "CompiledWithReport",
    "GradientSite",
    "HostCallback",
    "Instrumentation",
    "Instrumented",
    "Observation",
    "Report",
    "Selector",
    "Site",
    "SourceOp",
    "Tool",
    "Unobserved",
    "apply",
    "on_gradient",
    "on_op",
]

check_arguments(globals())
