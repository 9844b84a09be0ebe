"""The tool `trace`: ranges of values, and the first op that made a NaN or infinity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from amanda.instrument import Instrumentation, Report, Site, Tool
from amanda_std import ops
from amanda_std.backends import Trait, has_trait
from amanda_tools.analysis.selection import chosen_sites, is_float_tensor

__all__ = ["Trace"]

_KEY: Final = "non-finite"
_KEEPS_FINITE: Final = frozenset(
    {"relu", "max_pool", "maximum", "minimum", "clip", "sigmoid", "tanh", "abs",
     "negative", "sign", "floor", "ceil", "round", "min", "max", "where", "erf",
     "softmax", "sin", "cos", "atan", "hard_sigmoid", "relu6", "leaky_relu"}
)  # fmt: skip
"""Ops whose results are finite where their arguments are."""


class Trace(Tool):
    """The range of each value, and where NaNs and infinities come from.

    `ranges=False` only tells in how many runs an op had values that are not finite,
    for ops that can make one from finite arguments: a reduction each, which costs
    little. `types`, `names` and
    `scope` choose ops. The conclusion names the first op, in the order of execution,
    that made a NaN or an infinity of finite arguments.
    """

    name = "trace"

    def __init__(
        self,
        *,
        ranges: bool = True,
        types: Sequence[str] | str | None = None,
        names: Sequence[str] | str | None = None,
        scope: str | None = None,
    ) -> None:
        self.ranges = ranges
        self.types, self.names, self.scope = types, names, scope
        self._order: list[str] = []

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Observe the outputs of floats."""
        self._order = []
        for site in chosen_sites(instrumentation, self.types, self.names, self.scope):
            ports = [port for port in site.op.outputs if is_float_tensor(port)]
            if ports and (self.ranges or _makes_non_finite(site)):
                self._order.append(site.label)
                with site.insertion_point():
                    self._observe(site, [site.outputs[port.index] for port in ports])

    def _observe(self, site: Site, values: Sequence[Any]) -> None:
        count_in = _count_non_finite if self.ranges else _has_non_finite
        counts = [count_in(x) for x in values]
        total = counts[0]
        for count in counts[1:]:
            total = ops.add(total, count)
        site.observe(_KEY, total, "sum")
        if self.ranges:
            site.observe("min", ops.min(values[0]), "min")
            site.observe("max", ops.max(values[0]), "max")

    def conclude(self, report: Report) -> Mapping[str, Any]:
        """The first op that made a NaN or an infinity."""
        counts = {row.op: int(row.value) for row in report.select(_KEY, tool=self.name)}
        first = next((op for op in self._order if counts.get(op)), None)
        return {"first non-finite": first or "none"}


def _count_non_finite(x: Any) -> Any:
    is_not = ops.logical_not(ops.isfinite(x))
    return ops.sum(ops.astype(is_not, dtype="int32"))


def _has_non_finite(x: Any) -> Any:
    """1 if an element is no finite number, else 0.

    Zero times x is NaN exactly there: a sum of floats reads memory at full speed."""
    total = ops.sum(ops.multiply(x, 0.0))
    return ops.astype(ops.isnan(total), dtype="int32")


def _makes_non_finite(site: Site) -> bool:
    """Whether an op can make a NaN or an infinity of finite arguments."""
    op = site.op
    return op.type not in _KEEPS_FINITE and not has_trait(op, Trait.MOVES_ELEMENTS)
