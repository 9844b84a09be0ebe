"""Two graphs run side by side in windows, op by op of the second.

Each window of `b` runs twice: on the values of its own run, and each op on those of the
reference that correspond to what it reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from amanda.comparison import Difference, compare_values
from amanda.graph import Graph, Op, OutputPort, copy_ops
from amanda.types import DType, TensorType, Type, accepts
from amanda_inspect.matching import Matching
from amanda_inspect.windows import (
    Backend,
    Values,
    constant_array,
    reads_of,
    run_ops,
    run_part,
    windows_of,
    with_constants,
)

__all__ = ["Lockstep", "OpValues"]


class OpValues(NamedTuple):
    """The outputs of an op that correspond to values of the reference."""

    op: Op
    made: Values
    """Its outputs, where it reads the values of the reference."""
    total: Values
    """Its outputs in its own run."""
    wanted: Values
    """The values of the reference."""
    inputs: Values
    """What it reads, as values of the reference."""
    unmatched: tuple[Op, ...]
    """Ops without a counterpart between those inputs and the op."""


class Reference:
    """The run of the reference: window by window, as far as values are needed."""

    def __init__(
        self, graph: Graph, feeds: Values, needs: Counter[OutputPort],
        backend: Backend, limit: int,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.backend = backend
        self.windows = windows_of(graph, feeds, limit)
        self.values: Values = dict(feeds)
        self.needs = needs
        """How often each value is still needed by the other graph."""
        self._readers = _count_readers(graph)
        self._done = 0

    def value(self, port: OutputPort) -> Any:
        """A value, computed with its window and those before."""
        if port.op.is_constant:
            return constant_array(port)
        while port not in self.values:
            self._run_window()
        return self.values[port]

    def _run_window(self) -> None:
        ops = self.windows[self._done]
        self._done += 1
        inside = _reads_within(ops)
        wanted = [
            port
            for op in ops
            for port in op.outputs
            if self.needs[port] or self._readers[port] > inside[port]
        ]
        found = run_ops(self.graph, ops, wanted, self.value, self.backend)
        self.values.update(found)
        self._readers.subtract(inside)
        for op in ops:
            for port in set(reads_of(op)):
                self._release(port)

    def need_less(self, port: OutputPort) -> None:
        """State that the other graph needs a value once less."""
        self.needs[port] -= 1
        self._release(port)

    def _release(self, port: OutputPort) -> None:
        if self.needs[port] <= 0 and self._readers[port] <= 0:
            self.values.pop(port, None)


class Lockstep:
    """The run; iteration yields each op of `b` with its values."""

    def __init__(
        self, matching: Matching, feeds: Mapping[OutputPort, Any],
        sides: tuple[Backend, Backend], max_memory: int,
    ) -> None:  # fmt: skip
        self.matching = matching
        self.backend = sides[1]
        limit = max_memory // 4
        inverse = {theirs: mine for mine, theirs in matching.values.items()}
        self.own: Values = {
            inverse[port]: value for port, value in feeds.items() if port in inverse
        }
        self._feeds = dict(self.own)
        self.windows = windows_of(matching.b, self.own, limit)
        self._matched_ops = self._ops_to_compare()
        self.reference = Reference(
            matching.a, dict(feeds), self._needs(), sides[0], limit
        )
        self._readers = _count_readers(matching.b)
        self._chained: Values = {}
        """Values without a counterpart, computed from those of the reference."""

    def _ops_to_compare(self) -> set[Op]:
        values = self.matching.values
        return {
            op
            for op in self.matching.b
            if not op.is_constant and any(port in values for port in op.outputs)
        }

    def _needs(self) -> Counter[OutputPort]:
        """How often windows need values of the reference: as inputs, and to compare."""
        needs: Counter[OutputPort] = Counter()
        values = self.matching.values
        for ops in self.windows:
            needs.update(self._needed_by(ops))
        for port in self.matching.b.results:
            if port is not None and port in values:
                needs[values[port]] += 1
        return needs

    def _needed_by(self, ops: list[Op]) -> set[OutputPort]:
        values = self.matching.values
        reads = {port for op in ops for port in reads_of(op)}
        gives = {port for op in ops for port in op.outputs}
        return {values[port] for port in reads | gives if port in values}

    def __iter__(self) -> Iterator[OpValues]:
        for ops in self.windows:
            yield from self._run_window(ops)

    def _run_window(self, ops: list[Op]) -> Iterator[OpValues]:
        matched, inside = self.matching.values, _reads_within(ops)
        compared = [p for op in ops for p in op.outputs if p in matched]
        later = [
            p
            for op in ops
            for p in op.outputs
            if p not in matched and self._readers[p] > inside[p]
        ]
        total = run_ops(
            self.matching.b, ops, [*compared, *later], self._own_value, self.backend
        )
        made = self._run_forced(ops, [*compared, *later])
        self.own.update(total)
        self._chained.update({port: made[port] for port in later})
        wanted = {port: self.reference.value(matched[port]) for port in compared}
        for op in ops:
            if op in self._matched_ops:
                yield self._op_values(op, made, total, wanted)
        self._readers.subtract(inside)
        for port in self._needed_by(ops):
            self.reference.need_less(port)
        for port in [*self.own]:
            if self._readers[port] <= 0 and port not in self._feeds:
                del self.own[port]

    def _op_values(
        self, op: Op, made: Values, total: Values, wanted: Values
    ) -> OpValues:
        ports = [port for port in op.outputs if port in wanted]
        segment = self.segment(op)
        reads = {
            port
            for each in segment
            for port in reads_of(each)
            if port in self.matching.values and not port.op.is_constant
        }
        return OpValues(
            op,
            {port: made[port] for port in ports},
            {port: total[port] for port in ports},
            {port: wanted[port] for port in ports},
            {port: self.forced_value(port) for port in reads},
            tuple(segment[:-1]),
        )

    def segment(self, op: Op) -> list[Op]:
        """An op and the ops without counterparts that it depends on, in order."""
        found: dict[Op, None] = {op: None}
        waiting = [op]
        while waiting:
            for port in reads_of(waiting.pop()):
                source = port.op
                is_open = port not in self.matching.values and source is not port.graph
                if is_open and not source.is_constant and source not in found:
                    found[source] = None
                    waiting.append(source)
        return sorted(found, key=lambda each: each.index)

    def _own_value(self, port: OutputPort) -> Any:
        return self.own[port]

    def forced_value(self, port: OutputPort) -> Any:
        """What an op reads in place of a value: that of the reference, if it has one
        of its type."""
        if port not in self.matching.values:
            return self._chained[port]
        value = self.reference.value(self.matching.values[port])
        return value if _may_be(value, port.type) else self.own[port]

    def _run_forced(self, ops: list[Op], wanted: list[OutputPort]) -> Values:
        """The outputs of ops that read values of the reference."""
        graph = self.matching.b
        part = Graph(graph.namespace, graph.name)
        part.imports.update(graph.imports)
        reads: dict[OutputPort, OutputPort] = {}
        copies: dict[Any, Any] = {}
        own = {port for op in ops for port in op.outputs}
        for op in with_constants(ops):
            memo: dict[Any, Any] = {}
            for port in reads_of(op):
                chained = port in own and port not in self.matching.values
                if chained or port.op.is_constant:
                    memo[port] = copies[port]
                else:
                    if port not in reads:
                        reads[port] = part.parameter(port.type)
                    memo[port] = reads[port]
            copy_ops(graph, part, [op], memo)
            copies.update({port: memo[port] for port in op.outputs})
        for i, port in enumerate(wanted):
            part.result(copies[port], f"value {i}")
        for name, function in graph.functions.items():
            part.add_function(name, function.clone())
        feeds = [self.forced_value(port) for port in reads]
        return dict(zip(wanted, run_part(part, feeds, self.backend), strict=True))

    def result_differences(self) -> dict[str | int, Difference]:
        """The differences of the results that correspond, after the run."""
        found = {}
        for port, value in zip(
            self.matching.b.outputs, self.matching.b.results, strict=True
        ):
            if value is None or value not in self.matching.values:
                continue
            key = port.index if port.name is None else port.name
            wanted = self.reference.value(self.matching.values[value])
            found[key] = compare_values(self.own[value], wanted)
        return found


def _may_be(value: Any, type: Type | None) -> bool:
    """Whether an array has a type, as far as its element type and rank say."""
    if not isinstance(type, TensorType) or not hasattr(value, "dtype"):
        return True
    wanted = TensorType(DType.of(value.dtype), value.shape)
    return accepts(type, wanted) is not False


def _count_readers(graph: Graph) -> Counter[OutputPort]:
    """How many ops, and results, read each value."""
    counts = Counter(port for op in graph for port in set(reads_of(op)))
    counts.update(value for value in graph.results if value is not None)
    return counts


def _reads_within(ops: list[Op]) -> Counter[OutputPort]:
    return Counter(port for op in ops for port in set(reads_of(op)))
