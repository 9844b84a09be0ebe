"""Calls of the bodies of an op, as graphs of their own with what they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from amanda.backend import extract_graph
from amanda.comparison import compare_values
from amanda.graph import Graph, Op, OutputPort, copy_ops
from amanda_inspect.matching import Matching, match_graphs
from amanda_inspect.rounding import error_size, rounding_bound
from amanda_inspect.windows import array_bytes, constant_array, with_constants
from amanda_std.backends import StepRunner

__all__ = ["BodyCall", "body_calls"]

MAX_CALLS: Final = 64
"""Calls that are looked into: iterations of a loop."""
GROWTH: Final = 4
"""How many times more calls are recorded where those before have no error."""
CONDITIONAL: Final = "if"
"""The op that calls one of its bodies, once."""


class BodyCall(NamedTuple):
    """A call of a body by both graphs."""

    matching: Matching
    feeds: dict[OutputPort, Any]
    """What the body of the reference reads."""
    own: dict[OutputPort, Any]
    """What the other body reads that corresponds to nothing of the reference."""


Arrays = Mapping[OutputPort, Any]
Recorded = Mapping[str, list[list[Any]]]
"""By body, what each call reads: the arguments, then what is captured."""


def body_calls(
    op: Op, counterpart: Op, arrays: Arrays, others: Arrays, limit: int
) -> Iterator[BodyCall]:
    """The calls of bodies that both an op and its counterpart make, by body, in order:
    the first of each body, then more and more of those after it.

    `arrays` has what the op reads, `others` what the counterpart reads. Calls are
    recorded up to `limit` bytes, and only where they are asked for. What two bodies
    read corresponds where it is equal in the first call.
    """
    sides = (op, arrays), (counterpart, others)
    mine, theirs = (_record_calls(*side, limit // 2, 1) for side in sides)
    pairs = {
        key: _BodyPair((op, counterpart), key, mine[key][0], theirs[key][0])
        for key in op.bodies
        if mine.get(key) and theirs.get(key)
    }
    for key, pair in pairs.items():
        yield pair.call(mine[key][0], theirs[key][0])
    reads_own, start, count = any(pair.own for pair in pairs.values()), 1, GROWTH
    is_loop = op.type != CONDITIONAL and bool(pairs)
    while is_loop and start < MAX_CALLS:
        if reads_own:
            mine = _record_calls(*sides[0], limit // 2, count)
        theirs = _record_calls(*sides[1], limit // 2, count)
        for key, pair in pairs.items():
            own = mine[key] if reads_own else [()] * len(theirs[key])
            calls = zip(own[start:], theirs[key][start:], strict=False)
            yield from (pair.call(*each) for each in calls)
        if max(map(len, theirs.values())) < count:
            return
        start, count = count, count * GROWTH


class _BodyPair:
    """A body of both graphs as root graphs, with what corresponds in them."""

    def __init__(
        self, ops: tuple[Op, Op], key: str, mine: Sequence[Any], theirs: Sequence[Any]
    ) -> None:
        bodies = ops[0].bodies[key], ops[1].bodies[key]
        pairs = _equal_reads(mine, theirs)
        (root, inputs), (reference, references) = map(_as_root, bodies)
        reads, others = ([*body.parameters, *body.captures] for body in bodies)
        matched: dict[OutputPort, OutputPort] = {}
        self.own: dict[OutputPort, int] = {}
        """What corresponds to nothing of the reference, by the place in a call."""
        for i, read in enumerate(reads):
            port = inputs.get(read)
            other = references.get(others[pairs[i]]) if i in pairs else None
            if port is not None and other is not None:
                matched[port] = other
            elif port is not None:
                self.own[port] = i
        places = {read: i for i, read in enumerate(others)}
        self._feeds = {port: places[read] for read, port in references.items()}
        results = _result_pairs(bodies, ops, pairs)
        ends = ((root.results[i], reference.results[j]) for i, j in results)
        values = [(x, y) for x, y in ends if x is not None and y is not None]
        self._matching = match_graphs(reference, root, matched, values)

    def call(self, mine: Sequence[Any], theirs: Sequence[Any]) -> BodyCall:
        """A call that reads these arrays."""
        return BodyCall(
            self._matching.copy(),
            {port: theirs[i] for port, i in self._feeds.items()},
            {port: mine[i] for port, i in self.own.items()},
        )


def _equal_reads(mine: Sequence[Any], theirs: Sequence[Any]) -> dict[int, int]:
    """Which of the arrays that two calls read are equal, each once and in order."""
    free = list(range(len(theirs)))
    found: dict[int, int] = {}
    for i, array in enumerate(mine):
        equal = [j for j in free if _are_equal(array, theirs[j])]
        if equal:
            found[i] = equal[0]
            free.remove(equal[0])
    return found


def _are_equal(mine: Any, theirs: Any) -> bool:
    difference = compare_values(mine, theirs, measures=False)
    if difference.why or getattr(theirs, "dtype", None) is None:
        return difference.equal
    return error_size(mine, theirs) <= rounding_bound(theirs)


def _result_pairs(
    bodies: tuple[Graph, Graph], ops: tuple[Op, Op], pairs: Mapping[int, int]
) -> list[tuple[int, int]]:
    """Results of two bodies that correspond: where arguments of the next call do."""
    if ops[0].type == ops[1].type and len(bodies[0].results) == len(bodies[1].results):
        return [(i, i) for i in range(len(bodies[0].results))]
    shifts = [1 if op.type == "loop" else 0 for op in ops]
    found = [(i - shifts[0], j - shifts[1]) for i, j in pairs.items()]
    counts = [
        min(len(body.results), len(body.parameters) - shift)
        for body, shift in zip(bodies, shifts, strict=True)
    ]
    return [(i, j) for i, j in found if 0 <= i < counts[0] and 0 <= j < counts[1]]


def _as_root(body: Graph) -> tuple[Graph, dict[OutputPort, OutputPort]]:
    """A body as a root graph, and the inputs that stand for what it reads.

    Constants that it captures are copied.
    """
    root = Graph(body.namespace, body.name)
    root.imports.update(body.root.imports)
    inputs: dict[OutputPort, OutputPort] = {}
    memo: dict[Any, Any] = {}
    for parameter in body.parameters:
        inputs[parameter] = memo[parameter] = root.parameter(parameter.type)
    for port in body.captures:
        if port.op.is_constant:
            memo[port] = root.constant(port.op.attrs["value"]).output
        else:
            inputs[port] = memo[port] = root.parameter(port.type)
    copy_ops(body, root, list(body), memo)
    for value in body.results:
        root.result(None if value is None else memo[value])
    for name, function in body.root.functions.items():
        root.add_function(name, function.clone())
    return root, inputs


def _record_calls(op: Op, arrays: Arrays, limit: int, count: int) -> Recorded:
    """What the first `count` calls of each body of an op read, on numpy, which runs no
    further than to the last of them."""
    assert op.graph is not None
    part, reads = extract_graph(op.graph, with_constants([op]), op.outputs)
    (copy,) = [each for each in part if each.type == op.type and each.bodies]
    recorder = _Recorder(part, {id(body): key for key, body in copy.bodies.items()})
    recorder.limit, recorder.count = limit, count
    recorder.called = 1 if op.type == CONDITIONAL else len(op.bodies)
    feeds = [arrays[p] if p in arrays else constant_array(p) for p in reads]
    with suppress(_AllRecorded):
        recorder.run(feeds)
    return recorder.calls


class _AllRecorded(BaseException):
    """Ends a run; no error, which a runner would report as one of a kernel."""


class _Recorder(StepRunner):
    """A graph whose ops record the calls of their bodies."""

    limit = count = called = 0
    """Bytes of what is recorded, calls of a body, and bodies that are called."""

    def __init__(self, graph: Graph, keys: Mapping[int, str]) -> None:
        self.calls: dict[str, list[list[Any]]] = {}
        self._keys = keys
        super().__init__(graph)

    def body_runner(self, graph: Graph) -> StepRunner:
        return _RecordedBody(graph, self)

    def record(self, body: Graph, args: Sequence[Any], captured: Sequence[Any]) -> None:
        """Record a call; arguments are copied, since their memory is used again. What
        is captured is not: the op reads it, and all calls read the same."""
        import numpy as np

        key = self._keys.get(id(body))
        calls = [] if key is None else self.calls.setdefault(key, [])
        size = sum(map(array_bytes, args))
        size += 0 if calls else sum(map(array_bytes, captured))
        if key is not None and size <= self.limit and len(calls) < self.count:
            self.limit -= size
            kept = [np.array(x) if isinstance(x, np.ndarray) else x for x in args]
            calls.append([*kept, *captured])
        lengths = [len(each) for each in self.calls.values()]
        if len(lengths) == self.called and min(lengths) == self.count:
            raise _AllRecorded


class _RecordedBody(StepRunner):
    """A body that records what it is called with."""

    def __init__(self, graph: Graph, recorder: _Recorder) -> None:
        super().__init__(graph)
        self._graph = graph
        self._recorder = recorder

    def run(
        self,
        args: Sequence[Any],
        captured: Sequence[Any] = (),
        weights: Mapping[Any, Any] | None = None,
    ) -> list[Any]:
        self._recorder.record(self._graph, args, captured)
        return super().run(args, captured, weights)
