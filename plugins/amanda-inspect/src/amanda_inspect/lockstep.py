"""Two graphs run side by side in windows, op by op of the second.

Each window of `b` runs twice: on the values of its own run, and each op on those of the
reference that correspond to what it reads. What both graphs share runs once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from amanda.comparison import Difference, compare_values
from amanda.graph import Graph, Op, OutputPort, copy_ops
from amanda.types import DType, TensorType, Type, accepts
from amanda_inspect.matching import Matching
from amanda_inspect.rounding import error_size, rounding_bound
from amanda_inspect.sharing import Sharing
from amanda_inspect.value_store import MemoryBudget, ValueStore
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

__all__ = ["Lockstep", "OpValues", "Reference", "ReferenceRegion"]


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
    """What it reads, as values of the reference where they correspond."""
    unmatched: tuple[Op, ...]
    """Ops without a counterpart between those inputs and the op."""


class ReferenceRegion(NamedTuple):
    """The ops of the reference that compute what an op does."""

    ops: tuple[Op, ...]
    """In order."""
    inputs: Values
    """What they read from outside."""
    outputs: dict[OutputPort, OutputPort]
    """Their values, by the output of the op that corresponds to each."""


class Reference:
    """The run of the reference: window by window, as far as values are needed."""

    def __init__(
        self, graph: Graph, feeds: Values, needs: Counter[OutputPort],
        backend: Backend, limit: int, budget: MemoryBudget | None = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.backend = backend
        self.windows = windows_of(graph, feeds, limit)
        self._window_of = {op: i for i, ops in enumerate(self.windows) for op in ops}
        self._feeds = feeds
        self.values = ValueStore(budget or MemoryBudget(limit))
        self.values.update(feeds)
        self.needs = needs
        """How often each value is still needed by the other graph."""
        self._readers = _count_readers(graph)
        self._done = 0

    def value(self, port: OutputPort) -> Any:
        """A value, computed with its window and those before."""
        if port.op.is_constant:
            return constant_array(port)
        while port not in self.values and self._done <= self._window_of[port.op]:
            self._run_window()
        if port not in self.values:
            return self._value_again(port)
        return self.values[port]

    def _value_again(self, port: OutputPort) -> Any:
        """A value that was released, computed from those that are left."""
        ops = _ops_before(port, self.values)
        return run_ops(self.graph, ops, [port], self.value, self.backend)[port]

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
        is_read = self.needs[port] > 0 or self._readers[port] > 0
        if not is_read and port not in self._feeds:
            self.values.pop(port, None)


class Lockstep:
    """The run; iteration yields each op of `b` with its values."""

    def __init__(
        self, matching: Matching, feeds: Mapping[OutputPort, Any],
        sides: tuple[Backend, Backend], max_memory: int, own: Values | None = None,
        *, in_body: bool = False,
    ) -> None:  # fmt: skip
        self.matching = matching
        self._has_own_run = not in_body
        """Whether `b` also runs on its own values; up to the first error of a call of a
        body these are those of the reference."""
        self.backend = sides[1]
        limit = max_memory // 8  # of a window, three of which are in memory at a time
        budget = MemoryBudget(max_memory // 2)
        values = matching.values
        self._feeds: Values = {
            port: feeds[values[port]]
            for port in matching.b.parameters
            if values.get(port) in feeds
        }
        self._sharing = Sharing(matching, has_one_backend=sides[0] == sides[1])
        self._sharing.add_inputs(list(self._feeds))
        self._feeds.update(own or {})
        self.own = ValueStore(budget)
        """The values of the run of `b`."""
        self.own.update(self._feeds)
        self.windows = windows_of(matching.b, self._feeds, limit)
        self._matched_ops = self._ops_to_compare()
        self.reference = Reference(
            matching.a, dict(feeds), self._needs(), sides[0], limit, budget
        )
        self._readers = _count_readers(matching.b)
        self._chained = ValueStore(budget)
        """Values without a counterpart, computed from those of the reference."""
        self._made: Values = {}
        """Values of the window, computed from those of the reference."""

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
        needed = {values[port] for port in reads | gives if port in values}
        for other in (self.counterpart(op) for op in ops if op.bodies):
            theirs = () if other is None else reads_of(other)
            needed.update(port for port in theirs if not port.op.is_constant)
        return needed

    def counterpart(self, op: Op) -> Op | None:
        """The op of the reference that computes what an op does, if one does."""
        found = [self.matching.values.get(port) for port in op.outputs]
        return next((port.op for port in found if port is not None), None)

    def __iter__(self) -> Iterator[OpValues]:
        for ops in self.windows:
            yield from self._run_window(ops)

    def _run_window(self, ops: list[Op]) -> Iterator[OpValues]:
        self._sharing.add(ops)
        matched, inside = self.matching.values, _reads_within(ops)
        compared = [p for op in ops for p in op.outputs if p in matched]
        later = [
            p
            for op in ops
            for p in op.outputs
            if p not in matched and self._readers[p] > inside[p]
        ]
        total = self._run_own(ops, [*compared, *later])
        wanted = {port: self.reference.value(matched[port]) for port in compared}
        same = [p for op in ops if op in self._sharing.same_ops for p in op.outputs]
        made = total | {port: wanted[port] for port in same}
        made |= self._run_forced(ops, [*compared, *later])
        total |= {p: wanted[p] for p in compared if p in self._sharing.values}
        if not self._has_own_run:
            total = made
        self._made = made
        self._chained.update({port: made[port] for port in later})
        for op in ops:
            if op in self._matched_ops:
                yield self._op_values(op, made, total, wanted)
        self._release_values(ops, inside)

    def _release_values(self, ops: list[Op], inside: Counter[OutputPort]) -> None:
        """Release what no window needs after one."""
        self._readers.subtract(inside)
        for port in self._needed_by(ops):
            self.reference.need_less(port)
        for store in (self.own, self._chained):
            for port in [*store]:
                if self._readers[port] <= 0 and port not in self._feeds:
                    del store[port]
        self._made = {}

    def _run_own(self, ops: list[Op], values: list[OutputPort]) -> Values:
        """Values of the run of `b`, but for those that it shares with the reference."""
        if not self._has_own_run:
            return {}
        shared = self._sharing.values
        found = run_ops(
            self.matching.b, self._sharing.own_ops(ops),
            [port for port in values if port not in shared],
            self._own_value, self.backend,
        )  # fmt: skip
        self.own.update(found)
        return found

    def _op_values(
        self, op: Op, made: Values, total: Values, wanted: Values
    ) -> OpValues:
        ports = [port for port in op.outputs if port in wanted]
        segment = self.segment(op)
        own = {port for each in segment for port in each.outputs}
        reads = dict.fromkeys(p for each in segment for p in reads_of(each))
        return OpValues(
            op,
            {port: made[port] for port in ports},
            {port: total[port] for port in ports},
            {port: wanted[port] for port in ports},
            {
                port: self.forced_value(port)
                for port in reads
                if port not in own and not port.op.is_constant
            },
            tuple(segment[:-1]),
        )

    def rejoins(self, op: Op, size: float) -> bool:
        """Whether the values of two ops only seem to correspond; then the pair is
        dropped.

        It is where the error vanishes in what is computed next: one model scales what
        the other does not, and makes up for it. It is, too, where what is computed
        next errs with both values: that of the reference is not what it reads, and
        the ops on the way are searched as one region.
        """
        values = self.matching.values
        pairs = {port: values[port] for port in op.outputs if port in values}
        after = self._compared_after(op)
        if not after or any(port in self.matching.b.results for port in pairs):
            return False
        known = [op] if pairs.keys() >= set(op.outputs) else []
        chained = self._run_without(pairs, after, known)
        if any(self._error_of(chained[each]) >= size / 10 for each in after):
            values.update(pairs)
            if any(self._is_right(each) for each in after):
                for port in pairs:
                    del self._chained[port]
                return False
            for port in pairs:
                del values[port]
        for each in after:
            for store in (self._made, self._chained):
                store.update({p: v for p, v in chained[each].items() if p in store})
        return True

    def _run_without(
        self, pairs: Mapping[OutputPort, OutputPort], ops: list[Op], known: list[Op]
    ) -> dict[Op, Values]:
        """The outputs of ops, and of those between, without pairs of values; what
        `known` ops give is not computed again."""
        for port in pairs:
            del self.matching.values[port]
            self._chained[port] = self._made[port]
        return {each: self._run_chained(each, known) for each in ops}

    def _is_right(self, op: Op) -> bool:
        """Whether an op gives what the reference has, where it reads that."""
        is_same = op in self._sharing.same_ops
        return is_same or self._error_of(self._run_chained(op)) < inf

    def _compared_after(self, op: Op) -> list[Op]:
        """The next ops whose outputs correspond that read what an op computes."""
        found: dict[Op, None] = {}
        waiting, seen = [op], {op}
        while waiting:
            for port in waiting.pop().outputs:
                for user in port.user_ops:
                    if user in seen or user.graph is not op.graph:
                        continue
                    seen.add(user)
                    if any(each in self.matching.values for each in user.outputs):
                        found[user] = None
                    else:
                        waiting.append(user)
        return list(found)

    def _run_chained(self, op: Op, known: Sequence[Op] = ()) -> Values:
        """The outputs of an op, and of those before it that have no counterparts and
        are not known."""
        ops = self.segment(op, known)
        wanted = [port for each in ops for port in each.outputs]
        return run_ops(self.matching.b, ops, wanted, self.forced_value, self.backend)

    def _error_of(self, found: Values) -> float:
        """The largest error of values; infinite where it is more than rounding."""
        values = self.matching.values
        worst = 0.0
        for port, value in found.items():
            if port in values:
                wanted = self.reference.value(values[port])
                size = error_size(value, wanted)
                worst = max(worst, size if size <= rounding_bound(wanted) else inf)
        return worst

    def segment(self, op: Op, known: Sequence[Op] = ()) -> list[Op]:
        """An op and the ops without counterparts that it depends on, in order: from
        values on that correspond, or that `known` ops compute."""
        found: dict[Op, None] = {op: None}
        waiting = [op]
        while waiting:
            for port in reads_of(waiting.pop()):
                source = port.op
                is_open = port not in self.matching.values and source is not port.graph
                is_open = is_open and source not in known
                if is_open and not source.is_constant and source not in found:
                    found[source] = None
                    waiting.append(source)
        return sorted(found, key=lambda each: each.index)

    def reference_segment(self, op: Op) -> list[Op]:
        """The ops that compute in the reference what an op does, in order: from values
        on that correspond to values of the other graph."""
        counterparts = set(self.matching.values.values())
        found: dict[Op, None] = {}
        values = (self.matching.values.get(port) for port in op.outputs)
        waiting = [port.op for port in values if port is not None]
        while waiting:
            each = waiting.pop()
            if each in found or each.is_constant or isinstance(each, Graph):
                continue
            found[each] = None
            waiting += [p.op for p in reads_of(each) if p not in counterparts]
        return sorted(found, key=lambda each: each.index)

    def reference_region(self, op: Op) -> ReferenceRegion:
        """Those ops with what they read, so that they can run alone."""
        ops = self.reference_segment(op)
        own = {port for each in ops for port in each.outputs}
        reads = {port for each in ops for port in reads_of(each)} - own
        values = self.matching.values
        return ReferenceRegion(
            tuple(ops),
            {p: self.reference.value(p) for p in reads if not p.op.is_constant},
            {port: values[port] for port in op.outputs if port in values},
        )

    def _own_value(self, port: OutputPort) -> Any:
        """A value of the run of `b`, computed again where it was released."""
        if port.op.is_constant:
            return constant_array(port)
        if port in self._sharing.values:
            return self.reference.value(self.matching.values[port])
        if port not in self.own:
            ops, read = _ops_before(port, self.own), self._own_value
            return run_ops(self.matching.b, ops, [port], read, self.backend)[port]
        return self.own[port]

    def forced_value(self, port: OutputPort) -> Any:
        """What an op reads in place of a value: that of the reference, if it has one
        of its type."""
        if port in self._chained and port not in self.matching.values:
            return self._chained[port]
        if port.op.is_constant or port not in self.matching.values:
            return self._own_value(port)
        value = self.reference.value(self.matching.values[port])
        return value if _may_be(value, port.type) else self._own_value(port)

    def _run_forced(self, window: list[Op], values: list[OutputPort]) -> Values:
        """The outputs of ops that read values of the reference, where no other run has
        them."""
        ops = self._sharing.forced_ops(window, has_own_run=self._has_own_run)
        given = {port for op in ops for port in op.outputs}
        wanted = [port for port in values if port in given]
        if not wanted:
            return {}
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
            found[key] = compare_values(self._own_value(value), wanted)
        return found


def _may_be(value: Any, type: Type | None) -> bool:
    """Whether an array has a type, as far as its element type and rank say."""
    if not isinstance(type, TensorType) or not hasattr(value, "dtype"):
        return True
    wanted = TensorType(DType.of(value.dtype), value.shape)
    return accepts(type, wanted) is not False


def _ops_before(port: OutputPort, known: Container[OutputPort]) -> list[Op]:
    """The ops that compute a value from known ones and constants, in order."""
    ops: dict[Op, None] = {}
    waiting = [port]
    while waiting:
        value = waiting.pop()
        if value.op in ops or value.op.is_constant or value in known:
            continue
        ops[value.op] = None
        waiting += reads_of(value.op)
    return sorted(ops, key=lambda op: op.index)


def _count_readers(graph: Graph) -> Counter[OutputPort]:
    """How many ops, and results, read each value."""
    counts = Counter(port for op in graph for port in set(reads_of(op)))
    counts.update(value for value in graph.results if value is not None)
    return counts


def _reads_within(ops: list[Op]) -> Counter[OutputPort]:
    return Counter(port for op in ops for port in set(reads_of(op)))
