"""The tool `trace`: ranges of values, and the first op that made a NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np

from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.instrument import Instrumentation, Report, Site, Tool
from amanda_std import ops
from amanda_std.backends import Trait, has_trait
from amanda_tools.analysis.chains import chains
from amanda_tools.analysis.selection import chosen_sites, is_float_tensor
from amanda_tools.pictures import Interval, draw_intervals

__all__ = ["Trace"]

_KEY: Final = "non-finite"
_ARGUMENTS: Final = "non-finite arguments"
"""In inputs of the model and weights that an op depends on directly."""


class Trace(Tool):
    """The range of each value, and where NaNs and infinities come from.

    `ranges=False` only tells in how many runs an op had values that are not finite,
    for ops that can make one from finite arguments. Most ops hand on a NaN or an
    infinity to those that read them: a run checks the last of a chain, and the others
    only if that one is not finite. `types`, `names` and `scope` choose ops. The
    conclusion names the first op, in the order of execution, that made a NaN or an
    infinity of finite arguments.
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
        origins = {op: _origins(op, labels) for op in chosen}
        self._sources = {
            labels[op]: [labels[each] for each in origins[op].ops]
            for op in _in_order_of_execution(instrumentation.graph)
            if op in chosen
        }
        if self.ranges:
            for site in chosen.values():
                self._observe_range(site)
        else:
            for last, others in chains(chosen, instrumentation.graph).items():
                _observe_chain(chosen[last], [chosen[op] for op in others])
        for op, site in chosen.items():
            found = origins[op]
            broken = sum(map(_non_finite_in_weight, found.weights))
            if broken:
                site.record(_ARGUMENTS, broken)
            if found.inputs:
                with site.insertion_point():
                    values = map(instrumentation.value_of, found.inputs)
                    site.observe(
                        _ARGUMENTS, _total(map(_has_non_finite, values)), "sum"
                    )

    def _observe_range(self, site: Site) -> None:
        with site.insertion_point():
            values = _floats(site)
            site.observe(_KEY, _total(map(_count_non_finite, values)), "sum")
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


def _observe_chain(last: Site, others: Sequence[Site]) -> None:
    """Observe whether values are finite: of the other ops only if the last are not."""
    with last.insertion_point():
        flag = _total(map(_has_non_finite, _floats(last)))
        last.observe(_KEY, flag, "sum")
        if not others:
            return
        flags = ops.if_(
            ops.greater(flag, 0),
            lambda: tuple(_has_non_finite(_floats(site)[0]) for site in others),
            lambda: (np.int32(0),) * len(others),
        )
        for site, each in zip(others, flags, strict=True):
            site.observe(_KEY, each, "sum")


def _floats(site: Site) -> list[Any]:
    """The outputs of an op that are tensors of floats."""
    pairs = zip(site.op.outputs, site.outputs, strict=True)
    return [value for port, value in pairs if is_float_tensor(port)]


class _Origins(NamedTuple):
    """Where the arguments of an op come from."""

    ops: list[Op]
    """Ops that are observed."""
    inputs: list[OutputPort]
    """Inputs of the model."""
    weights: list[Op]


def _in_order_of_execution(graph: Graph) -> Iterator[Op]:
    """The ops of a graph, those of bodies before the op that runs them."""
    for op in graph:
        for part in (*op.bodies.values(), *([op] if isinstance(op, Graph) else ())):
            yield from _in_order_of_execution(part)
        yield op


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
            holder = port.op.holder
            if holder is not None and holder not in seen:
                seen.add(holder)
                waiting += holder.inputs
            elif holder is None and is_float_tensor(port) and port not in found.inputs:
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
    return not (
        has_trait(site.op, Trait.KEEPS_FINITE)
        or has_trait(site.op, Trait.MOVES_ELEMENTS)
    )
