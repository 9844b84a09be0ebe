"""The search: smaller models are tested, and kept where they fail in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from amanda.graph import Graph, Op, OutputPort
from amanda_inspect.reduction.failures import Failure, Test
from amanda_inspect.reduction.models import (
    Model,
    Recorder,
    count_ops,
    ops_of,
    reads_from_outside,
    replace_values,
)

__all__ = ["OutOfTime", "Search", "Step", "cut_chunks", "keep_one_result",
           "shorten_end", "shorten_start"]  # fmt: skip


class OutOfTime(Exception):
    """The time for the search is over."""


@dataclass(frozen=True)
class Step:
    """A change after which the model still failed."""

    what: str
    ops: int
    tests: int
    """How many models were tested until then."""


@dataclass
class Search:
    """The smallest model so far that fails, and what tests smaller ones."""

    test: Test
    failure: Failure
    model: Model
    recorder: Recorder
    deadline: float | None = None
    tell: Callable[[str], object] = print
    tests: int = 0
    steps: list[Step] = field(default_factory=list)

    def accept(self, candidate: Model | None, what: str) -> bool:
        """Whether a model fails in the same way; it is then the smallest so far."""
        if candidate is None:
            return False
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTime
        self.tests += 1
        found = self.test(candidate.graph, candidate.feeds)
        if found is None or not found.is_like(self.failure):
            return False
        if found.result is not None:
            self.failure = found
        self.model = candidate
        step = Step(what, count_ops(candidate.graph), self.tests)
        self.steps.append(step)
        self.tell(f"{step.ops:6} ops after {step.tests:4} tests: {what}")
        return True

    def accept_cut(
        self, values: list[OutputPort], results: list[OutputPort], what: str
    ) -> bool:
        """Whether it fails with recorded values instead of what computes them."""
        model = self.model
        arrays = self.recorder.arrays(model, values)
        if arrays is None:
            return False
        made = [
            replace_values(model, arrays, results, constants=constants)
            for constants in (True, False)
        ]
        if made[0] is not None and made[1] is not None:
            same = len(made[0].graph.parameters) == len(made[1].graph.parameters)
            made = made[:1] if same else made
        return any(self.accept(each, what) for each in made)


def keep_one_result(search: Search) -> bool:
    """Remove results: all but the one that differs, or by halves."""
    results = [port for port in search.model.graph.results if port is not None]
    if len(set(results)) < 2:
        return False
    failing = search.failure.result
    for port, value in zip(search.model.graph.outputs, results, strict=False):
        if failing is not None and failing in (port.name, port.index):
            part = search.model.with_results([value])
            if search.accept(part, f"only result {port.name or port.index}"):
                return True
    return any(
        search.accept(search.model.with_results([value]), "one result")
        for value in dict.fromkeys(results)
    )


def _frontier(graph: Graph, ops: set[Op]) -> list[OutputPort]:
    """The values of ops that others read, or that are results."""
    found = dict.fromkeys(
        port for op in ops_of(graph) if op not in ops
        for port in reads_from_outside([op], set()) if port.op in ops
    )  # fmt: skip
    found.update(dict.fromkeys(v for v in graph.results if v and v.op in ops))
    return list(found)


def shorten_end(search: Search) -> bool:
    """Find the first op, in order, up to which the model fails, by bisection."""
    ops = ops_of(search.model.graph)
    source, low, high = search.model, -1, len(ops) - 1
    before = len(search.steps)
    while high - low > 1:
        middle = (low + high) // 2
        results = _frontier(source.graph, set(ops[: middle + 1]))
        if search.accept(source.with_results(results), f"the first {middle + 1} ops"):
            high = middle
        else:
            low = middle
    part = source.with_results(ops[high].outputs) if ops else None
    if part is not None and len(part.graph) < len(search.model.graph):
        search.accept(part, f"only what {ops[high].label} needs")
    return len(search.steps) > before


def shorten_start(search: Search) -> bool:
    """Find the fewest last ops that fail on recorded values, by doubling."""
    graph = search.model.graph
    ops = ops_of(graph)
    results = [value for value in graph.results if value is not None]
    width = 1
    while width < len(ops):
        kept = ops[-width:]
        reads = list(reads_from_outside(kept, set(kept)))
        values = [port for port in reads if port.op is not graph]
        inside = [value for value in results if value.op in kept]
        if inside and search.accept_cut(values, inside, f"the last {width} ops"):
            return True
        width *= 2
    return False


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    """Parts of some items, half of them first, from the end."""
    size = max(count // 2, 1)
    while size:
        yield from ((i, i + size) for i in range(count - size, -1, -size))
        size //= 2


def cut_chunks(search: Search) -> bool:
    """Replace parts by recorded values, half of the ops first, then fewer."""
    is_smaller, is_done = False, False
    while not is_done:
        is_done = not _cut_one_chunk(search)
        is_smaller = is_smaller or not is_done
    return is_smaller


def _cut_one_chunk(search: Search) -> bool:
    graph = search.model.graph
    ops = ops_of(graph)
    for start, end in _chunks(len(ops)):
        chunk = set(ops[start:end])
        outside = [v for v in graph.results if v is not None and v.op not in chunk]
        read = dict.fromkeys(
            port for op in ops if op not in chunk
            for port in reads_from_outside([op], set()) if port.op in chunk
        )  # fmt: skip
        if outside and len(chunk) < len(ops):
            what = f"recorded values instead of {_names(ops[start:end])}"
            if search.accept_cut(list(read), outside, what):
                return True
    return False


def _names(ops: list[Op]) -> str:
    first = ops[0].label
    return first if len(ops) == 1 else f"{len(ops)} ops from {first} on"
