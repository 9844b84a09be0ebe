"""Calls of the bodies of an op, as graphs of their own with what they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from amanda.backend import extract_graph
from amanda.graph import Graph, Op, OutputPort, copy_ops
from amanda_inspect.matching import Matching, match_graphs
from amanda_inspect.windows import array_bytes, constant_array, with_constants
from amanda_std.backends import StepRunner

__all__ = ["BodyCall", "body_calls"]

MAX_CALLS: Final = 64
"""Calls that are looked into: iterations of a loop."""


class BodyCall(NamedTuple):
    """A call of a body: the bodies of both graphs, and what that of the reference
    reads."""

    matching: Matching
    feeds: dict[OutputPort, Any]


def body_calls(
    op: Op,
    counterpart: Op,
    values: Mapping[OutputPort, OutputPort],
    arrays: Mapping[OutputPort, Any],
    limit: int,
) -> Iterator[BodyCall]:
    """The calls of bodies that the counterpart of an op makes, in order.

    `values` has the counterparts of values of the graph of `op`, `arrays` what the
    counterpart reads. The first calls are recorded, up to `limit` bytes.
    """
    bodies = {
        key: (body, counterpart.bodies[key])
        for key, body in op.bodies.items()
        if key in counterpart.bodies
    }
    for key, inputs in _record_calls(counterpart, arrays, limit):
        if key in bodies:
            yield _body_call(*bodies[key], values, inputs)


def _body_call(
    body: Graph,
    other: Graph,
    values: Mapping[OutputPort, OutputPort],
    inputs: Sequence[Any],
) -> BodyCall:
    root, roots = _as_root(body)
    reference, references = _as_root(other)
    reads = (*other.parameters, *other.captures)
    feeds = {
        references[port]: array
        for port, array in zip(reads, inputs, strict=True)
        if port in references
    }
    pairs: dict[OutputPort, OutputPort] = {}
    pairs.update(zip(body.parameters, other.parameters, strict=False))
    pairs |= {port: values[port] for port in body.captures if port in values}
    matched = {
        roots[mine]: references[theirs]
        for mine, theirs in pairs.items()
        if mine in roots and theirs in references
    }
    return BodyCall(match_graphs(reference, root, matched), feeds)


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


def _record_calls(
    op: Op, arrays: Mapping[OutputPort, Any], limit: int
) -> list[tuple[str, list[Any]]]:
    """The keys of bodies that an op calls on numpy, with what each call reads."""
    assert op.graph is not None
    part, reads = extract_graph(op.graph, with_constants([op]), op.outputs)
    (copy,) = [each for each in part if each.type == op.type and each.bodies]
    recorder = _Recorder(part, {id(body): key for key, body in copy.bodies.items()})
    recorder.limit = limit
    feeds = [arrays[p] if p in arrays else constant_array(p) for p in reads]
    recorder.run(feeds)
    return recorder.calls


class _Recorder(StepRunner):
    """A graph whose ops record the calls of their bodies."""

    limit = 0

    def __init__(self, graph: Graph, keys: Mapping[int, str]) -> None:
        self.calls: list[tuple[str, list[Any]]] = []
        self._keys = keys
        super().__init__(graph)

    def body_runner(self, graph: Graph) -> StepRunner:
        return _RecordedBody(graph, self)

    def record(self, body: Graph, inputs: Sequence[Any]) -> None:
        """Record a call; arrays are copied, since their memory is used again."""
        import numpy as np

        size = sum(map(array_bytes, inputs))
        key = self._keys.get(id(body))
        if key is None or len(self.calls) >= MAX_CALLS or size > self.limit:
            return
        self.limit -= size
        kept = [np.array(x) if isinstance(x, np.ndarray) else x for x in inputs]
        self.calls.append((key, kept))


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
        self._recorder.record(self._graph, [*args, *captured])
        return super().run(args, captured, weights)
