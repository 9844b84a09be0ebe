"""The tool: the range of each activation, observed where the model runs.

instrumented = amanda.apply(model, Ranges())
instrumented.run(feeds, backend="numpy")
print(instrumented.report)
"""

from __future__ import annotations

from amanda.instrument import Site, Tool, on_op

__all__ = ["Ranges"]


class Ranges(Tool):
    """The smallest and the largest value of each activation."""

    name = "template"

    def __init__(self, *, magnitude: bool = False) -> None:
        self.magnitude = magnitude

    @on_op(type=["relu", "sigmoid", "tanh", "gelu"])
    def observe_range(self, site: Site) -> None:
        from amanda_std import ops  # late: listing plug-ins imports no library

        value = ops.abs(site.output) if self.magnitude else site.output
        site.observe("smallest", ops.min(value), combine="min")
        site.observe("largest", ops.max(value), combine="max")
