"""The tool `trace`: ranges of values, and the first op that made a NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np

from amanda.graph import Op, OutputPort, Parameter
from amanda.instrument import Instrumentation, Report, Site, Tool
from amanda_std import ops
from amanda_std.backends import Trait, has_trait
from amanda_tools.analysis.selection import chosen_sites, is_float_tensor
from amanda_tools.pictures import Interval, draw_intervals

__all__ = ["Trace"]

_KEY: Final = "non-finite"
_ARGUMENTS: Final = "non-finite arguments"
"""In inputs of the model and weights that an op depends on directly."""
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
        self._sources: dict[str, list[str]] = {}
        """For each op, those whose values reach it without another one in between."""

    def instrument(self, instrumentation: Instrumentation) -> None:
        """Observe the outputs of floats, and the inputs of the model that ops read."""
        chosen = {
            site.op: site
            for site in chosen_sites(
                instrumentation, self.types, self.names, self.scope
            )
            if any(map(is_float_tensor, site.op.outputs))
            and (self.ranges or _makes_non_finite(site))
        }
        labels = {op: site.label for op, site in chosen.items()}
        self._sources = {}
        origins = {op: _origins(op, labels) for op in chosen}
        for op, site in chosen.items():
            found = origins[op]
            self._sources[site.label] = [labels[each] for each in found.ops]
            broken = sum(map(_non_finite_in_weight, found.weights))
            if broken:
                site.record(_ARGUMENTS, broken)
            ports = [port for port in op.outputs if is_float_tensor(port)]
            with site.insertion_point():
                self._observe(site, [site.outputs[port.index] for port in ports])
                if found.inputs and site.graph is instrumentation.graph:
                    values = map(instrumentation.value_of, found.inputs)
                    site.observe(
                        _ARGUMENTS, _total(map(_has_non_finite, values)), "sum"
                    )

    def _observe(self, site: Site, values: Sequence[Any]) -> None:
        count_in = _count_non_finite if self.ranges else _has_non_finite
        total = _total(map(count_in, values))
        site.observe(_KEY, total, "sum")
        if self.ranges:
            site.observe("min", ops.min(values[0]), "min")
            site.observe("max", ops.max(values[0]), "max")

    def picture(self, report: Report) -> str | None:
        """The range of each op's values."""
        high = {
            row.op: float(row.value) for row in report.select("max", tool=self.name)
        }
        return draw_intervals([
            Interval(row.op, float(row.value), high[row.op])
            for row in report.select("min", tool=self.name)
        ])  # fmt: skip

    def conclude(self, report: Report) -> Mapping[str, Any]:
        """The first op that made a NaN or an infinity of finite arguments."""
        counts = {row.op: int(row.value) for row in report.select(_KEY, tool=self.name)}
        given: dict[str, int] = {}
        for row in report.select(_ARGUMENTS, tool=self.name):
            given[row.op] = given.get(row.op, 0) + int(row.value)
        affected = [op for op in self._sources if counts.get(op)]
        for op in affected:
            is_inherited = any(counts.get(source) for source in self._sources[op])
            if not is_inherited and not given.get(op):
                return {"first non-finite": op}
        if affected:
            return {"first non-finite": f"an input or weight read by {affected[0]}"}
        return {"first non-finite": "none"}


class _Origins(NamedTuple):
    """Where the arguments of an op come from."""

    ops: list[Op]
    """Ops that are observed."""
    inputs: list[OutputPort]
    """Inputs of the model."""
    weights: list[Op]


def _origins(op: Op, observed: Mapping[Op, str]) -> _Origins:
    """The nearest observed ops, inputs and weights that an op's arguments depend on."""
    found = _Origins([], [], [])
    seen: set[Op] = set()
    waiting = list(op.inputs)
    while waiting:
        port = waiting.pop()
        if port is None:
            continue
        if isinstance(port, Parameter):
            if is_float_tensor(port) and port not in found.inputs:
                found.inputs.append(port)
        elif port.op not in seen:
            seen.add(port.op)
            if port.op in observed:
                found.ops.append(port.op)
            elif port.op.is_constant:
                found.weights.append(port.op)
            else:
                waiting += port.op.inputs
    return found


def _non_finite_in_weight(constant: Op) -> int:
    if not is_float_tensor(constant.output):
        return 0
    array = constant.attrs["value"].numpy()
    return int(np.size(array) - np.isfinite(array.astype("float64")).sum())


def _total(counts: Iterable[Any]) -> Any:
    return reduce(ops.add, counts)


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
